import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.framework import (
    MultiReporter,
    PluginFault,
    Profile,
    ProfileError,
    Refusal,
    RefusalCode,
    Runner,
    RunOutcome,
    Scored,
    StepRecorder,
    Weighted,
    admit,
    make_profile,
)


@dataclass(frozen=True)
class AtLeast:
    """Numbers below the bound are refused; negative ones are excluded."""

    bound: int
    name: str = "at-least"

    def refuse(self, _state, candidate):
        if candidate < 0:
            return Refusal(self.name, RefusalCode.UNRESOLVABLE, "{} is negative", (candidate,))
        if candidate < self.bound:
            return Refusal(self.name, RefusalCode.UNSCHEDULABLE, "needs {}, has {}", (self.bound, candidate))
        return None


@dataclass(frozen=True)
class Share:
    """The candidate as a share of the largest one."""

    name: str = "share"

    def score(self, _state, candidates):
        largest = max(candidates) or 1
        return [candidate / largest for candidate in candidates]


@dataclass(frozen=True)
class Fixed:
    values: tuple[float, ...]
    name: str = "fixed"

    def score(self, _state, candidates):
        return self.values[: len(candidates)] if len(self.values) > 1 else self.values * len(candidates)


@dataclass(frozen=True)
class Best:
    name: str = "best"

    def pick(self, _state, scored):
        return sorted(scored, key=lambda found: (-found.total, found.candidate))


@dataclass
class Counting:
    asked: list[int] = field(default_factory=list)
    name: str = "counting"

    def refuse(self, _state, candidate):
        self.asked.append(candidate)


class Broken:
    name = "broken"

    def refuse(self, _state, _candidate):
        raise KeyError("gone")

    def score(self, _state, _candidates):
        raise KeyError("gone")

    def pick(self, _state, _scored):
        raise KeyError("gone")


class Nobody:
    name = "nobody"

    def pick(self, _state, _scored):
        return ()


def run(profile, state, candidates, reporter=None):
    return Runner(profile).run(state, candidates, reporter)


def shown(result):
    return result.outcome, [(found.candidate, round(found.total, 3), found.parts) for found in result.ranked]


def test_a_scorer_without_a_weight_has_weight_1():
    plugins = [(("share", Share()), None), (("fixed", Fixed((0.5,))), 3.0), (("best", Best()), None)]
    made = make_profile("p", plugins)
    assert [(each.scorer.name, each.weight) for each in made.scorers] == [("share", 1.0), ("fixed", 3.0)]
    assert Weighted(Share()).weight == 1.0


def test_a_line_has_the_total_of_a_candidate_and_each_score():
    recorder = StepRecorder()
    profile = Profile("p", Best(), (), (Weighted(Share(), 3.0), Weighted(Fixed((0.0,)))))
    run(profile, None, [2, 4], recorder)
    assert list(recorder.lines()) == ["2: 0.375 (share 0.500, fixed 0.000)", "4: 0.750 (share 1.000, fixed 0.000)"]


@pytest.mark.parametrize(
    ("profile", "candidates", "expected"),
    [
        pytest.param(Profile("p", Best()), [], (RunOutcome.NOTHING_OFFERED, []), id="no candidate"),
        pytest.param(
            Profile("p", Best(), (AtLeast(5),)), [1, -2], (RunOutcome.ALL_UNSCHEDULABLE, []), id="one refusal may pass"
        ),
        pytest.param(
            Profile("p", Best(), (AtLeast(5),)), [-1, -2], (RunOutcome.ALL_UNRESOLVABLE, []), id="none will pass"
        ),
        pytest.param(
            Profile("p", Best(), (AtLeast(2),)),
            [3, 1, 2],
            (RunOutcome.PICKED, [(2, 0.0, ()), (3, 0.0, ())]),
            id="without scorers all are equal",
        ),
        pytest.param(
            Profile("p", Best(), (AtLeast(2),), (Weighted(Share(), 3.0), Weighted(Fixed((0.0,)), 1.0))),
            [1, 2, 4],
            (
                RunOutcome.PICKED,
                [(4, 0.75, (("share", 1.0), ("fixed", 0.0))), (2, 0.375, (("share", 0.5), ("fixed", 0.0)))],
            ),
            id="weighted mean, best first",
        ),
        pytest.param(
            Profile("p", Best(), (), (Weighted(Share(), 0.0),)),
            [1, 2],
            (RunOutcome.PICKED, [(1, 0.0, (("share", 0.5),)), (2, 0.0, (("share", 1.0),))]),
            id="a weight of 0 turns a score off",
        ),
    ],
)
def test_a_run_ends_in_one_outcome(profile, candidates, expected):
    assert shown(run(profile, None, candidates)) == expected


def test_the_first_refusal_counts_and_later_filters_do_not_run():
    later = Counting()
    assert admit((AtLeast(5), later), None, 3) == Refusal(
        "at-least", RefusalCode.UNSCHEDULABLE, "needs {}, has {}", (5, 3)
    )
    assert later.asked == []
    assert admit((later, AtLeast(5)), None, 7) is None
    assert later.asked == [7]


def test_a_filter_that_raises_for_one_candidate_is_a_fault():
    with pytest.raises(PluginFault, match="plugin broken: raised KeyError: 'gone'"):
        admit((AtLeast(5), Broken()), None, 7)
    assert admit((AtLeast(5), Broken()), None, -1) == Refusal(
        "at-least", RefusalCode.UNRESOLVABLE, "{} is negative", (-1,)
    )


def test_outcomes_are_reported_by_these_words():
    assert [outcome.value for outcome in RunOutcome] == [
        "Picked",
        "NothingOffered",
        "AllUnschedulable",
        "AllUnresolvable",
    ]
    assert [code.value for code in RefusalCode] == ["Unschedulable", "Unresolvable"]


def test_a_reason_is_made_of_its_numbers():
    assert Refusal("f", RefusalCode.UNSCHEDULABLE, "needs {}, has {}", (5, 3)).reason == "needs 5, has 3"


def test_a_reporter_receives_every_step():
    recorder = StepRecorder()
    profile = Profile("p", Best(), (AtLeast(2),), (Weighted(Share()),))
    run(profile, None, [1, 2, 4], recorder)
    assert [(candidate, refusal.reason) for candidate, refusal in recorder.refusals] == [(1, "needs 2, has 1")]
    assert recorder.scores == [(2, 0.5, (("share", 0.5),)), (4, 1.0, (("share", 1.0),))]
    assert recorder.picks == [4]
    assert list(recorder.lines()) == [
        "1: at-least: needs 2, has 1",
        "2: 0.500 (share 0.500)",
        "4: 1.000 (share 1.000)",
    ]


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        (Profile("p", Best(), (Broken(),)), "plugin broken: raised KeyError: 'gone'"),
        (Profile("p", Best(), (), (Weighted(Broken()),)), "plugin broken: raised KeyError: 'gone'"),
        (Profile("p", Broken()), "plugin broken: raised KeyError: 'gone'"),
        (Profile("p", Nobody()), "plugin nobody: picked none of 2 candidates"),
        (
            Profile("p", Best(), (), (Weighted(Fixed((0.5, 1.5))),)),
            r"plugin fixed: scored 1\.5, which is not in \[0, 1\]",
        ),
        (Profile("p", Best(), (), (Weighted(Fixed((math.nan,))),)), "plugin fixed: scored nan"),
        (Profile("p", Best(), (), (Weighted(Fixed((-0.1,))),)), r"plugin fixed: scored -0\.1"),
        (Profile("p", Best(), (), (Weighted(Fixed(())),)), "plugin fixed: gave 0 scores for 2 candidates"),
    ],
)
def test_a_plugin_that_breaks_its_contract_is_a_fault_and_never_a_refusal(profile, says):
    with pytest.raises(PluginFault, match=says):
        run(profile, None, [1, 2])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Profile("p", Best(), (AtLeast(1), AtLeast(2))), "profile p: at-least is listed more than once"),
        (lambda: Profile("p", Best(), (), (Weighted(Share()),) * 2), "profile p: share is listed more than once"),
        (lambda: Profile("p", Best(), (), (Weighted(Share(), -1.0),)), "the weight of share is -1.0"),
        (lambda: Profile("p", Best(), (), (Weighted(Share(), math.nan),)), "the weight of share is nan"),
        (lambda: Profile("p", Best(), (), (Weighted(Share(), math.inf),)), "the weight of share is inf"),
    ],
)
def test_a_profile_is_checked_when_it_is_made(make, says):
    with pytest.raises(ProfileError, match=says):
        make()


weights = st.floats(0, 1e9, allow_nan=False, allow_subnormal=False)
unit = st.floats(0, 1, allow_nan=False)


@given(st.lists(st.tuples(unit, weights), min_size=1, max_size=6))
def test_a_total_lies_between_the_smallest_and_the_largest_score(parts):
    scorers = tuple(Weighted(Fixed((value,), f"s{i}"), weight) for i, (value, weight) in enumerate(parts))
    (found,) = Runner(Profile("p", Best(), (), scorers)).rank(None, [1])
    counted = [value for value, weight in parts if weight] or [0.0]
    assert min(counted) - 1e-9 <= found.total <= max(counted) + 1e-9


@given(st.lists(st.integers(-5, 20), max_size=20), st.randoms(use_true_random=False))
def test_the_order_of_candidates_does_not_change_the_ranking(candidates, random):
    profile = Profile("p", Best(), (AtLeast(3),), (Weighted(Share()),))
    shuffled = list(candidates)
    random.shuffle(shuffled)
    assert shown(run(profile, None, candidates)) == shown(run(profile, None, shuffled))


@given(st.lists(st.integers(-5, 20), max_size=20))
def test_every_candidate_is_refused_or_scored_and_never_both(candidates):
    recorder = StepRecorder()
    run(Profile("p", Best(), (AtLeast(3),), (Weighted(Share()),)), None, candidates, recorder)
    told = [candidate for candidate, _ in recorder.refusals] + [candidate for candidate, _, _ in recorder.scores]
    assert sorted(told) == sorted(candidates)


def test_scored_is_a_value_for_the_picker():
    found = Scored("a", 0.5, (("x", 0.5),))
    assert (found.candidate, found.total, found.parts) == ("a", 0.5, (("x", 0.5),))


def test_each_of_several_reporters_receives_every_step():
    one, two = StepRecorder(), StepRecorder()
    run(Profile("p", Best(), (AtLeast(3),), (Weighted(Share()),)), None, [1, 4, 5], MultiReporter((one, two)))
    assert one == two
    assert (len(one.refusals), len(one.scores), len(one.picks)) == (1, 2, 1)
