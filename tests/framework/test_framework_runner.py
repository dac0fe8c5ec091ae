import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.framework import (
    PluginFault,
    Profile,
    Refusal,
    RefusalCode,
    Result,
    Runner,
    RunOutcome,
    SparseVector,
    StepRecorder,
    Weighted,
)
from tests.support.simple_runner import run


@dataclass(frozen=True)
class AtLeast:
    bound: int
    name: str = "at-least"

    def refuse(self, _state, candidate):
        if candidate < 0:
            return Refusal(self.name, RefusalCode.UNRESOLVABLE, "{} is negative", (candidate,))
        if candidate < self.bound:
            return Refusal(self.name, RefusalCode.UNSCHEDULABLE, "needs {}, has {}", (self.bound, candidate))
        return None


@dataclass(frozen=True)
class LargestOnly:
    """Reads all candidates: any but the largest is refused."""

    name: str = "largest-only"

    def refuse(self, _state, _candidate):
        return None

    def narrow(self, _state, candidates):
        largest = max(candidates)
        no = Refusal(self.name, RefusalCode.UNSCHEDULABLE, "another is larger")
        return [None if candidate == largest else no for candidate in candidates]


@dataclass(frozen=True)
class Digits:
    """Scores that are exact in binary, so that ties are ties whatever the order of the sum."""

    divisor: int
    name: str

    def score(self, _state, candidates):
        return [(abs(candidate) // self.divisor % 8) / 8 for candidate in candidates]


@dataclass(frozen=True)
class Same:
    """The same tuple while the candidates are the same in number."""

    columns: dict
    name: str = "same"

    def score(self, _state, candidates):
        return self.columns.setdefault(len(candidates), (0.5,) * len(candidates))


@dataclass(frozen=True)
class Rare:
    """Something to say of every seventh number only."""

    name: str = "rare"

    def score(self, _state, candidates):
        found = {at: candidate % 4 / 4 for at, candidate in enumerate(candidates) if candidate % 7 == 0}
        return SparseVector(len(candidates), found, 0.0)


@dataclass(frozen=True)
class Best:
    name: str = "best"

    def pick(self, _state, scored):
        return sorted(scored, key=lambda found: (-found.total, found.candidate))


@dataclass(frozen=True)
class BestByOrder(Best):
    def order(self, _state, candidates, totals):
        return sorted(range(len(totals)), key=lambda at: (-totals[at], candidates[at]))


@dataclass(frozen=True)
class Fixed:
    values: tuple[float, ...]
    name: str = "fixed"

    def score(self, _state, _candidates):
        return self.values


def shown(ranked):
    return [(found.candidate, round(found.total, 12)) for found in ranked]


def with_parts(ranked):
    return [(found.candidate, round(found.total, 12), found.parts) for found in ranked]


numbers = st.lists(st.integers(-3, 600), max_size=30)
weights = st.lists(st.sampled_from([0.0, 1.0, 2.0, 4.0]), max_size=6)


def profile_of(given_weights, picker):
    scorers = tuple(Weighted(Digits(8**at, f"s{at}"), weight) for at, weight in enumerate(given_weights))
    if len(given_weights) % 2:
        scorers = (*scorers[:1], Weighted(Rare(), 2.0), *scorers[1:])
    return Profile("p", picker, (AtLeast(3),), scorers)


def as_told(recorder):
    """Every step, independent of the order of the candidates."""
    refusals = sorted((each, refusal.reason) for each, refusal in recorder.refusals)
    return refusals, [(each, round(total, 12), parts) for each, total, parts in recorder.scores], recorder.picks


@pytest.mark.slow
@given(numbers, weights, st.sampled_from([Best(), BestByOrder()]))
def test_the_runner_decides_and_reports_as_the_simple_one_does(candidates, given_weights, picker):
    profile = profile_of(given_weights, picker)
    told, expected_told = StepRecorder(), StepRecorder()
    expected = run(profile, None, candidates, expected_told)
    quiet, found = Runner(profile).run(None, candidates), Runner(profile).run(None, candidates, told)
    assert (quiet.outcome, shown(quiet.ranked)) == (expected.outcome, shown(expected.ranked))
    assert (found.outcome, with_parts(found.ranked)) == (expected.outcome, with_parts(expected.ranked))
    assert as_told(told) == as_told(expected_told)


@given(numbers, weights)
def test_a_total_does_not_depend_on_the_other_candidates_where_the_picker_gets_all_parts(candidates, given_weights):
    runner = Runner(profile_of(given_weights, Best()))
    alone = {each: found.total for each in candidates for found in runner.run(None, (each,)).ranked}
    assert all(found.total == alone[found.candidate] for found in runner.run(None, candidates).ranked)


@given(numbers, weights, st.sampled_from([Best(), BestByOrder()]))
def test_a_reporter_changes_nothing(candidates, given_weights, picker):
    profile = profile_of(given_weights, picker)
    told = StepRecorder()
    heard, quiet = Runner(profile).run(None, candidates, told), Runner(profile).run(None, candidates)
    assert (heard.outcome, shown(heard.ranked)) == (quiet.outcome, shown(quiet.ranked))
    assert sorted([each for each, _ in told.refusals] + [each for each, *_ in told.scores]) == sorted(candidates)


class ByColumns(StepRecorder):
    """Takes scores by columns where the runner has them so."""

    def scored_all(self, candidates, totals, scorers, columns):
        for at, (candidate, total) in enumerate(zip(candidates, totals, strict=True)):
            parts = tuple((name, column[at]) for name, column in zip(scorers, columns, strict=True))
            self.scored("p", candidate, total, parts)


@given(numbers, weights, st.sampled_from([Best(), BestByOrder()]))
def test_scores_by_columns_are_the_same_scores(candidates, given_weights, picker):
    profile = profile_of(given_weights, picker)
    one_by_one, by_columns = StepRecorder(), ByColumns()
    expected, found = (Runner(profile).run(None, candidates, each) for each in (one_by_one, by_columns))
    assert (found.outcome, shown(found.ranked)) == (expected.outcome, shown(expected.ranked))
    assert as_told(by_columns) == as_told(one_by_one)


@dataclass
class Reused:
    """Fills the same list at each run."""

    column: list[float]
    name: str = "reused"

    def score(self, state, _candidates):
        self.column[:] = [state, 0.5]
        return self.column


def test_a_list_that_its_scorer_fills_again_is_read_again():
    runner = Runner(Profile("p", BestByOrder(), (), (Weighted(Reused([0.0, 0.0])),)))
    assert [shown(runner.run(state, (3, 4)).ranked) for state in (0.5, 1.0, 0.0)] == [
        [(3, 0.5), (4, 0.5)],
        [(3, 1.0), (4, 0.5)],
        [(4, 0.5), (3, 0.0)],
    ]
    with pytest.raises(PluginFault, match=r"plugin reused: scored 2\.0, which is not in"):
        runner.run(2.0, (3, 4))


def test_a_column_that_was_reported_does_not_change_with_its_scorer():
    runner = Runner(Profile("p", BestByOrder(), (), (Weighted(Reused([0.0, 0.0])),)))
    kept = []

    class Keeps(StepRecorder):
        def scored_all(self, _candidates, _totals, _scorers, columns):
            kept.append(columns)

    for state in (1.0, 0.25):
        runner.run(state, (3, 4), Keeps())
    assert [[list(column) for column in columns] for columns in kept] == [[[1.0, 0.5]], [[0.25, 0.5]]]


@given(st.lists(numbers, min_size=2, max_size=5), weights)
def test_what_a_runner_remembers_changes_nothing(rounds, given_weights):
    scorers = (Weighted(Same({})), *profile_of(given_weights, Best()).scorers)
    profile = Profile("p", BestByOrder(), (AtLeast(3),), scorers)
    used = Runner(profile)
    for candidates in rounds:
        again = (tuple(candidates),) * 2
        assert [shown(used.run(None, each).ranked) for each in again] == [
            shown(run(profile, None, candidates).ranked)
        ] * 2


def test_a_set_filter_gets_all_remaining_candidates():
    profile = Profile("p", Best(), (AtLeast(3), LargestOnly()))
    told = StepRecorder()
    result = Runner(profile).run(None, (1, 4, 9, 9, -2), told)
    assert [found.candidate for found in result.ranked] == [9, 9]
    assert list(told.lines())[:3] == [
        "1: at-least: needs 3, has 1",
        "-2: at-least: -2 is negative",
        "4: largest-only: another is larger",
    ]


@dataclass(frozen=True)
class Content(LargestOnly):
    """No answers at all admit every candidate."""

    def narrow(self, _state, _candidates):
        return ()


def test_a_set_filter_without_answers_refuses_none():
    told = StepRecorder()
    result = Runner(Profile("p", Best(), (Content(),))).run(None, (4, 9), told)
    assert (with_parts(result.ranked), told.refusals) == ([(4, 0.0, ()), (9, 0.0, ())], [])


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ((), Result(RunOutcome.NOTHING_OFFERED)),
        (
            (1, -2, 2),
            Result(
                RunOutcome.ALL_UNSCHEDULABLE,
                (),
                (
                    Refusal("at-least", RefusalCode.UNSCHEDULABLE, "needs {}, has {}", (3, 1)),
                    Refusal("at-least", RefusalCode.UNRESOLVABLE, "{} is negative", (-2,)),
                ),
            ),
        ),
        (
            (-1, -2),
            Result(
                RunOutcome.ALL_UNRESOLVABLE,
                (),
                (Refusal("at-least", RefusalCode.UNRESOLVABLE, "{} is negative", (-1,)),),
            ),
        ),
    ],
)
def test_a_run_without_admitted_candidates_has_reasons(candidates, expected):
    found = Runner(Profile("p", Best(), (AtLeast(3),))).run(None, candidates)
    assert (found.outcome, found.ranked, found.refusals) == (expected.outcome, expected.ranked, expected.refusals)


class Broken:
    name = "broken"

    def refuse(self, _state, _candidate):
        raise KeyError("gone")

    def score(self, _state, _candidates):
        raise KeyError("gone")

    def pick(self, _state, _scored):
        raise KeyError("gone")

    def order(self, _state, _candidates, _totals):
        raise KeyError("gone")


class Nobody(Best):
    def order(self, _state, _candidates, _totals):
        return ()


@dataclass(frozen=True)
class Reading(Fixed):
    """A metric scorer: the scores of all are needed only where the parts are."""

    def read(self, _candidate):
        return 0.5


class ReadingOnly(Broken):
    def read(self, _candidate):
        return 0.5


class TooFew(AtLeast):
    def narrow(self, _state, _candidates):
        return [Refusal(self.name, RefusalCode.UNSCHEDULABLE, "no")]


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        (Profile("p", Best(), (Broken(),)), "plugin broken: raised KeyError: 'gone'"),
        (Profile("p", Best(), (), (Weighted(Broken()),)), "plugin broken: raised KeyError: 'gone'"),
        (Profile("p", Broken()), "plugin broken: raised KeyError: 'gone'"),
        (Profile("p", Nobody()), "plugin best: picked none of 2 candidates"),
        (Profile("p", Best(), (TooFew(1),)), "plugin at-least: gave 1 answers for 2 candidates"),
        (Profile("p", Best(), (), (Weighted(Fixed((0.5, 1.5))),)), r"plugin fixed: scored 1\.5, which is not in"),
        (Profile("p", Best(), (), (Weighted(Fixed((0.0, 1.5))),)), r"plugin fixed: scored 1\.5, which is not in"),
        (Profile("p", Best(), (), (Weighted(Fixed((1.0, 1.5))),)), r"plugin fixed: scored 1\.5, which is not in"),
        (Profile("p", Best(), (), (Weighted(Fixed(SparseVector(2, {1: 1.5}, 0.0))),)), r"plugin fixed: scored 1\.5"),
        (Profile("p", Best(), (), (Weighted(Fixed((0.5, math.nan))),)), "plugin fixed: scored nan"),
        (Profile("p", Best(), (), (Weighted(Fixed((math.nan, 0.5))),)), "plugin fixed: scored nan"),
        (Profile("p", Best(), (), (Weighted(Fixed((-0.5, 0.5))),)), r"plugin fixed: scored -0\.5"),
        (Profile("p", Best(), (), (Weighted(Fixed((0.5, math.inf))),)), "plugin fixed: scored inf"),
        (Profile("p", Best(), (), (Weighted(Fixed((0.5, -math.inf))),)), "plugin fixed: scored -inf"),
        (Profile("p", Best(), (), (Weighted(Fixed((0.5,))),)), "plugin fixed: gave 1 scores for 2 candidates"),
        (Profile("p", Best(), (), (Weighted(Fixed(("a", "b"))),)), "plugin fixed: raised TypeError"),
        (Profile("p", Best(), (), (Weighted(Fixed(SparseVector(2, {1: math.nan}, 0.0))),)), "plugin fixed: scored nan"),
        (Profile("p", Best(), (), (Weighted(Reading((0.5,))),)), "plugin fixed: gave 1 scores for 2 candidates"),
        (Profile("p", Best(), (), (Weighted(Reading((0.5, 1.5))),)), r"plugin fixed: scored 1\.5, which is not in"),
        (Profile("p", Best(), (), (Weighted(ReadingOnly()),)), "plugin broken: raised KeyError: 'gone'"),
        (
            Profile("p", Best(), (), (Weighted(Fixed(SparseVector(2, {2: 0.5}, 0.0))),)),
            "plugin fixed: scored candidate 2 of 2",
        ),
        (
            Profile("p", Best(), (), (Weighted(Fixed(SparseVector(3, {}, 0.0))),)),
            "plugin fixed: gave 3 scores for 2 candidates",
        ),
    ],
)
def test_a_plugin_that_breaks_its_contract_is_a_fault(profile, says):
    with pytest.raises(PluginFault, match=says):
        Runner(profile).run(None, (1, 2))
