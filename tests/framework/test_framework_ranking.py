from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.framework import PluginFault, Profile, Runner, SparseVector, StepRecorder, Weighted
from modelplane.framework.ranking import IncrementalRanking, MetricScorers


@dataclass(eq=False)
class Thing:
    """A candidate that reports its next change to each watcher."""

    name: str
    size: float = 0.0
    queue: float = 0.0
    age: float = 0.0
    watchers: list = field(default_factory=list)

    def watch(self, changed):
        self.watchers.append(changed)

    def change(self, **values):
        for name, value in values.items():
            setattr(self, name, value)
        watchers, self.watchers = self.watchers, []
        for changed in watchers:
            changed.append(self)


@dataclass(frozen=True)
class Own:
    attribute: str
    name: str = "own"

    def read(self, thing):
        return getattr(thing, self.attribute)

    def score(self, _state, things):
        return list(map(self.read, things))


@dataclass(frozen=True)
class Shortest(Own):
    name: str = "shortest"

    def relative_score(self, number, least, most):
        return (most - number) / (most - least) if most > least else 1.0

    def score(self, _state, things):
        numbers = list(map(self.read, things))
        return [self.relative_score(number, min(numbers), max(numbers)) for number in numbers]


@dataclass(frozen=True)
class Told:
    """What the state says of few places."""

    name: str = "told"

    def score(self, state, things):
        return SparseVector(len(things), state, 0.0)


@dataclass(frozen=True)
class Column:
    values: tuple
    name: str = "column"

    def score(self, _state, _things):
        return self.values


@dataclass(frozen=True)
class LastOfBest:
    name: str = "last"

    def take(self, _state, _things, best):
        return best[-1]

    def pick(self, _state, scored):
        highest = max(found.total for found in scored)
        return [next(found for found in reversed(scored) if found.total == highest)]


@dataclass(frozen=True)
class Stranger(LastOfBest):
    def take(self, _state, _things, _best):
        return 99


SCORERS = {
    "none": (),
    "own": (Weighted(Own("size"), 2.0),),
    "relative": (Weighted(Shortest("queue"), 3.0),),
    "one of each": (Weighted(Shortest("queue"), 2.0), Weighted(Own("size"), 2.0)),
    "several": (
        Weighted(Shortest("queue"), 2.0),
        Weighted(Own("size"), 0.3),
        Weighted(Shortest("age", "young"), 0.7),
        Weighted(Own("size", "again"), 0.0),
    ),
}
COUNT = 6
scores = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.7, 1.0])
numbers = st.integers(0, 4).map(float)
values = st.fixed_dictionaries({}, optional={"size": scores, "queue": numbers, "age": numbers})
changes = st.lists(st.tuples(st.integers(0, COUNT - 1), values), max_size=4)
few = st.dictionaries(st.integers(0, COUNT - 1), scores, max_size=3)


def things(count=COUNT):
    return tuple(Thing(f"t{at}", 0.1 * (at % COUNT), float(at % 3)) for at in range(count))


def watching(profile):
    return Runner(profile, Thing.watch)


def best_of(sums):
    return max(sums), [at for at, total in enumerate(sums) if total == max(sums)]


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        ("none", [0.0, 0.0, 0.0]),
        ("own", [0.5, 1.0, 2.0]),
        ("relative", [3.0, 1.5, 0.0]),
        ("one of each", [2.5, 2.0, 2.0]),
        ("several", [2.775, 1.15, 0.65]),
    ],
)
def test_a_sum_has_each_score_by_its_weight(which, expected):
    """The queues are 0, 2 and 4: the shortest scores 1, the longest 0. The ages are 1, 3 and 2."""
    rows = ((0.25, 0.0, 1.0), (0.5, 2.0, 3.0), (1.0, 4.0, 2.0))
    pool = tuple(Thing(str(at), *row) for at, row in enumerate(rows))
    kept = IncrementalRanking(MetricScorers(SCORERS[which]), pool, Thing.watch)
    assert [[round(each, 12) for each in sums] for sums in (MetricScorers(SCORERS[which]).sums(pool), kept.sums())] == [
        expected,
        expected,
    ]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ((0.0, 1.0, 0.5), (1, 0.75)),
        ((1.0, 0.0, 0.25), (0, 0.625)),
        # Two of three are the best: the picker is asked.
        ((0.75, 0.5, 0.0), (1, 0.5)),
        ((0.5, 0.25, 0.0), (2, 0.375)),
    ],
)
def test_a_picker_takes_one_of_those_with_the_highest_total(column, expected):
    """The sizes are 0.25, 0.5 and 0.75."""
    pool = tuple(Thing(str(at), 0.25 * (at + 1)) for at in range(3))
    profile = Profile("p", LastOfBest(), (), (Weighted(Own("size")), Weighted(Column(column))))
    kept = watching(profile)
    found = [each.run(None, pool).ranked[0] for each in (Runner(profile), kept, kept, kept)]
    assert [(pool.index(each.candidate), each.total) for each in found] == [expected] * 4


def test_candidates_are_watched_from_the_second_time_on():
    watched = []
    runner = Runner(Profile("p", LastOfBest(), (), SCORERS["own"]), lambda thing, _: watched.append(thing))
    pool = things()
    counts = []
    for _ in range(3):
        runner.run(None, pool)
        counts.append(len(watched))
    assert counts == [0, COUNT, COUNT]


@pytest.mark.slow
@pytest.mark.parametrize("which", SCORERS)
@given(st.lists(st.tuples(changes, few), max_size=12))
def test_what_is_kept_up_is_what_is_made_anew(which, steps):
    pool, scorers = things(), MetricScorers(SCORERS[which])
    kept = IncrementalRanking(scorers, pool, Thing.watch)
    for step, sparse in steps:
        for at, values in step:
            pool[at].change(**values)
        kept.refresh()
        sums = scorers.sums(pool)
        lifted = [total + 1.5 * sparse[at] if at in sparse else total for at, total in enumerate(sums)]
        assert kept.sums() == sums
        assert [
            (total, list(places)) for total, places in (kept.best(), kept.best([(1.5, sparse)] if sparse else ()))
        ] == [
            best_of(sums),
            best_of(lifted),
        ]


@pytest.mark.slow
@pytest.mark.parametrize("which", SCORERS)
@given(st.sampled_from([COUNT, 40]), st.lists(st.tuples(changes, few), min_size=1, max_size=8))
def test_a_runner_that_keeps_up_decides_as_one_that_does_not(which, count, steps):
    profile = Profile("p", LastOfBest(), (), (*SCORERS[which], Weighted(Told(), 1.5)))
    pool, kept = things(count), watching(profile)
    for step, told in steps:
        for at, values in step:
            pool[at].change(**values)
        ours = [kept.run(told, pool).ranked[0], kept.run(told, pool, StepRecorder()).ranked[0]]
        plain = Runner(profile).run(told, pool).ranked[0]
        assert [(found.candidate, found.total) for found in ours] == [(plain.candidate, plain.total)] * 2


@given(st.lists(changes, min_size=1, max_size=6))
def test_columns_and_metrics_add_up(steps):
    column = Column((0.5, 0.25, 0.0, 1.0, 0.5, 0.125))
    profile = Profile("p", LastOfBest(), (), (*SCORERS["one of each"], Weighted(column), Weighted(Told(), 0.5)))
    pool, kept = things(), watching(profile)
    for step in steps:
        for at, values in step:
            pool[at].change(**values)
        ours, plain = kept.run({1: 1.0}, pool).ranked[0], Runner(profile).run({1: 1.0}, list(pool)).ranked[0]
        assert (ours.candidate, ours.total) == (plain.candidate, plain.total)


def test_a_column_with_one_value_for_all_counts_in_the_total():
    profile = Profile("p", LastOfBest(), (), (*SCORERS["own"], Weighted(Column((0.5,) * COUNT))))
    pool, kept = things(), watching(profile)
    found = [kept.run(None, pool).ranked[0] for _ in range(3)]
    assert [(each.candidate, round(each.total, 12)) for each in found] == [(pool[-1], 0.5)] * 3


def test_only_what_changed_is_read():
    read = []

    class Heard(Own):
        def read(self, thing):
            read.append(thing.name)
            return thing.size

    pool = things()
    kept = watching(Profile("p", LastOfBest(), (), (Weighted(Heard("size")),)))
    for _ in range(3):
        kept.run(None, pool)
    read.clear()
    pool[2].change(size=0.9)
    pool[2].change(size=1.0)
    assert (kept.run(None, pool).ranked[0].candidate, read) == (pool[2], ["t2"])


def test_sets_of_candidates_do_not_take_each_others_place():
    kept = watching(Profile("p", LastOfBest(), (), SCORERS["one of each"]))
    pools = [things() for _ in range(6)]
    for chosen in (pools[:3], pools, pools[3:]):
        for pool in chosen * 3:
            pool[1].change(size=1.0 - pool[1].size)
            assert kept.run(None, pool).ranked[0].candidate is Runner(kept.profile).run(None, pool).ranked[0].candidate
    assert [ranking.candidates for ranking in kept._rankings] == [pools[2], *pools[3:]]


def test_a_runner_that_caught_up_reads_only_later_changes():
    read = []

    class Noted(Own):
        def read(self, thing):
            read.append(thing.name)
            return thing.size

    pool = things()
    kept = watching(Profile("p", LastOfBest(), (), (Weighted(Noted("size")),)))
    kept.catch_up()
    assert read == []
    for _ in range(2):
        kept.run(None, pool)
    read.clear()
    pool[2].change(size=1.0)
    kept.catch_up()
    pool[3].change(size=0.9)
    assert (kept.run(None, pool).ranked[0].candidate, read) == (pool[2], ["t2", "t3"])


def test_a_scorer_that_breaks_while_a_runner_catches_up_is_a_fault_of_the_next_run():
    pool = things()
    kept = watching(Profile("p", LastOfBest(), (), SCORERS["own"]))
    for _ in range(2):
        kept.run(None, pool)
    pool[0].change(size=1.5)
    kept.catch_up()
    with pytest.raises(PluginFault, match=r"plugin own: scored 1\.5, which is not in \[0, 1\]"):
        kept.run(None, pool)
    pool[0].change(size=1.0)
    assert kept.run(None, pool).ranked[0].candidate is pool[0]


@pytest.mark.parametrize(
    ("scorer", "says"),
    [
        (Own("size"), r"plugin own: scored 1\.5, which is not in \[0, 1\]"),
        (Shortest("size"), "plugin shortest: raised TypeError"),
        (Shortest("gone"), "plugin shortest: raised AttributeError"),
        (Own("gone"), "plugin own: raised AttributeError"),
    ],
)
def test_a_metric_scorer_that_breaks_its_contract_is_a_fault(scorer, says):
    for others in ((), (Weighted(Shortest("queue", "other")),), (Weighted(Own("age", "further")),)):
        pool = things()
        kept = watching(Profile("p", LastOfBest(), (), (Weighted(scorer), *others)))
        if scorer.attribute == "size":
            kept.run(None, pool)
            kept.run(None, pool)
            pool[0].change(size="x" if isinstance(scorer, Shortest) else 1.5)
        for _ in range(2):
            with pytest.raises(PluginFault, match=says):
                kept.run(None, pool)


def test_a_relative_score_that_breaks_its_contract_is_a_fault():
    class Wrong(Shortest):
        def relative_score(self, number, _least, _most):
            return number

    pool = things()
    kept = watching(Profile("p", LastOfBest(), (), (Weighted(Wrong("age")),)))
    kept.run(None, pool)
    kept.run(None, pool)
    pool[3].change(age=2.0)
    with pytest.raises(PluginFault, match=r"plugin shortest: scored 2\.0, which is not in"):
        kept.run(None, pool)
    pool[3].change(age=1.0)
    assert kept.run(None, pool).ranked[0].candidate is pool[3]


def test_a_relative_score_that_raises_is_a_fault():
    class Ratio(Shortest):
        def relative_score(self, number, least, most):
            return (number - least) / (most - least)

    with pytest.raises(PluginFault, match="plugin shortest: raised ZeroDivisionError: float division by zero"):
        watching(Profile("p", LastOfBest(), (), (Weighted(Ratio("age")),))).run(None, things())


@pytest.mark.parametrize("others", [(), (Weighted(Own("size")),)])
@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_a_relative_scorer_reads_finite_numbers(number, others):
    pool = things()
    pool[1].change(queue=float(number))
    with pytest.raises(PluginFault, match=f"plugin shortest: read {number}, which is no finite number"):
        watching(Profile("p", LastOfBest(), (), (Weighted(Shortest("queue")), *others))).run(None, pool)


@dataclass(frozen=True)
class Raising(LastOfBest):
    def take(self, _state, _things, best):
        return best[len(best)]


def test_a_picker_that_raises_is_a_fault():
    with pytest.raises(PluginFault, match="plugin last: raised IndexError: list index out of range"):
        watching(Profile("p", Raising())).run(None, things())


def test_a_picker_takes_one_of_the_best():
    with pytest.raises(PluginFault, match="plugin last: took candidate 99, which is none of the best"):
        watching(Profile("p", Stranger())).run(None, things())
