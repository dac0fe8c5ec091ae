"""Who scores best, kept up as candidates change.

A *gauge* is a scorer that reads one number of each candidate, whatever is asked for: a queue, a share of memory. It is
read again only of candidates that changed, and only what they moved is put right. So a decision costs what happened
since the one before, and not what there is to choose from.

That is easy where the number is the score. Where the score is *relative*, one candidate that moves the most or the
least moves the scores of all. But candidates with equal numbers have equal relative scores whatever the others do, and
numbers such as counts take few values. So candidates stand in *tiers*: one for each combination of relative numbers.
Inside a tier the order is that of the other scores, the *height* of a candidate, and does not depend on anybody else;
the relative scores are one number for the whole tier, its *grade*. The best of all is the best of the tiers' tops.

Where candidates are few (`SHORT`), adding all of them up costs less than keeping tiers in order.

A sum is the height and the grade in this order and nothing else, in a standing that was kept up and in sums that were
made once (`Gauges.sums`): both give equal sums, and so equal ties, to the last bit.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Generic, Never, TypeVar

from modelplane.framework.faults import PluginFault
from modelplane.framework.plugins import Gauge, RelativeGauge, Weighted

S = TypeVar("S")
C = TypeVar("C")

SHORT = 32
_MOST_GRADES = 256
Key = float | tuple[float, ...]
"""What the relative gauges read of one candidate: a tuple but for one gauge, whose number alone is cheaper."""
Extremes = tuple[tuple[float, float], ...]
Best = tuple[float, Sequence[int]]
"""The highest sum, and the places that have it, ascending."""
FewScores = Sequence[tuple[float, Mapping[int, float]]]
"""Scores of few candidates by their places, with weights."""
Watch = Callable[[C, list[C]], None]
"""Has a candidate append itself to the list when it changes: at its next change, and once."""


class Gauges(Generic[C]):
    """The gauges of a profile with their weights."""

    __slots__ = ("_grades", "_own", "_relative", "_single", "read")

    def __init__(self, scorers: Iterable[Weighted[S, C]]) -> None:
        self._own: list[tuple[str, float, Callable[[C], float]]] = []
        self._relative: list[tuple[str, Callable[[C], float]]] = []
        self._grades: list[tuple[str, float, Callable[[float, float, float], float]]] = []
        for weighted in scorers:
            scorer, weight = weighted.scorer, float(weighted.weight)
            if isinstance(scorer, RelativeGauge):
                self._relative.append((scorer.name, scorer.read))
                self._grades.append((scorer.name, weight, scorer.grade))
            elif isinstance(scorer, Gauge):
                self._own.append((scorer.name, weight, scorer.read))
        self._single = len(self._relative) == 1
        one_of_each = len(self._own) == len(self._relative) == 1
        self.read: Callable[[C], tuple[float, Key]] = self._read_one_of_each() if one_of_each else self._read
        """The height of a candidate, and the key of its tier."""

    def _read_one_of_each(self) -> Callable[[C], tuple[float, Key]]:
        """What most profiles have, and what is read most often, without a loop."""
        name, weight, read_score = self._own[0]
        relative, read_number = self._relative[0]

        def read(candidate: C) -> tuple[float, Key]:
            plugin = name
            try:
                score = read_score(candidate)
                if not 0.0 <= score <= 1.0:
                    return _refuse(name, score)
                plugin = relative
                number = read_number(candidate)
                if not -inf < number < inf:
                    return _refuse_number(relative, number)
                return weight * score, number
            except PluginFault:
                raise
            except Exception as error:
                raise raised(plugin, error) from error

        return read

    def _read(self, candidate: C) -> tuple[float, Key]:
        height, name = 0.0, ""
        numbers: list[float] = []
        try:
            for name, weight, read in self._own:
                score = read(candidate)
                # Written so that what is no number is wrong as well.
                if not 0.0 <= score <= 1.0:
                    return _refuse(name, score)
                height += weight * score
            for name, read in self._relative:
                number = read(candidate)
                if not -inf < number < inf:
                    return _refuse_number(name, number)
                numbers.append(number)
        except PluginFault:
            raise
        except Exception as error:
            raise raised(name, error) from error
        return height, numbers[0] if len(numbers) == 1 else tuple(numbers)

    def extremes(self, keys: Collection[Key]) -> Extremes:
        """The least and the most of each relative gauge."""
        if self._single:
            return ((min(keys), max(keys)),)  # type: ignore[return-value]  # of one gauge, keys are numbers
        columns = zip(*keys, strict=True)
        return tuple([(min(column), max(column)) for column in columns])

    def still(self, extremes: Extremes, came: Collection[Key], went: Collection[Key]) -> bool:
        """Whether the extremes are sure to be the same after these keys came and those went."""
        if not came and not went:
            return True
        if not self._single:
            return False
        ((least, most),) = extremes
        if least in went or most in went:
            return False
        ((lowest, highest),) = self.extremes(came) if came else extremes
        return lowest >= least and highest <= most

    def grades(self, keys: Iterable[Key], extremes: Extremes) -> list[float]:
        """The relative scores of each key, weighted."""
        totals: list[float] = []
        name = ""
        try:
            for key in keys:
                total = 0.0
                for at, (name, weight, grade) in enumerate(self._grades):
                    score = grade(key[at] if isinstance(key, tuple) else key, *extremes[at])
                    if not 0.0 <= score <= 1.0:
                        return _refuse(name, score)
                    total += weight * score
                totals.append(total)
        except PluginFault:
            raise
        except Exception as error:
            raise raised(name, error) from error
        return totals

    def sums(self, candidates: Sequence[C]) -> list[float]:
        """The sum for each candidate, made once and not kept up."""
        read = [self.read(candidate) for candidate in candidates]
        keys = list({key for _, key in read})
        grades = dict(zip(keys, self.grades(keys, self.extremes(keys)), strict=True))
        return [height + grades[key] for height, key in read]


class _Tier:
    """Candidates with one grade, by their heights."""

    __slots__ = ("at", "grade", "heights")

    def __init__(self) -> None:
        self.at: dict[float, list[int]] = {}
        """Places in ascending order."""
        self.heights: list[float] = []
        """The keys of it, in ascending order."""
        self.grade = 0.0

    def add(self, height: float, at: int) -> None:
        alike = self.at.get(height)
        if alike is None:
            self.at[height] = [at]
            insort(self.heights, height)
        else:
            insort(alike, at)

    def take(self, height: float, at: int) -> None:
        alike = self.at[height]
        if len(alike) > 1:
            del alike[bisect_left(alike, at)]
        else:
            del self.at[height]
            del self.heights[bisect_left(self.heights, height)]

    def best(self) -> list[list[int]]:
        """Places of the top, one list a height: different heights can give the same sum, for sums are rounded."""
        heights, grade, last = self.heights, self.grade, len(self.heights) - 1
        found, top = [self.at[heights[last]]], heights[last] + grade
        while last and heights[last - 1] + grade == top:
            last -= 1
            found.append(self.at[heights[last]])
        return found


class Standing(Generic[C]):
    """The sums of candidates, and who is best. Candidates are different objects that say when they change."""

    __slots__ = (
        "_best", "_changed", "_extremes", "_gauges", "_heights", "_keys", "_places", "_watch", "candidates",
    )  # fmt: skip

    def __init__(self, gauges: Gauges[C], candidates: Sequence[C], watch: Watch[C]) -> None:
        self.candidates = candidates
        self._gauges = gauges
        self._watch = watch
        self._changed: list[C] = []
        self._places = {candidate: at for at, candidate in enumerate(candidates)}
        for candidate in candidates:
            watch(candidate, self._changed)
        read = [gauges.read(candidate) for candidate in candidates]
        self._heights = [height for height, _ in read]
        self._keys = [key for _, key in read]
        self._extremes = gauges.extremes(self._keys)
        self._best: Best | None = None

    def refresh(self) -> None:
        """Takes in what changed. A standing that a gauge failed is of no use any more."""
        changed = self._changed
        if not changed:
            return
        taken = changed.copy()
        changed.clear()
        self._take_in(taken)

    def best(self, few: FewScores = ()) -> Best:
        raise NotImplementedError

    def sums(self) -> list[float]:
        raise NotImplementedError

    def _take_in(self, changed: Sequence[C]) -> None:
        """These are to be watched and read again."""
        raise NotImplementedError


class ShortStanding(Standing[C]):
    """All added up, whenever one changed."""

    __slots__ = ("_grades", "_sums")

    def __init__(self, gauges: Gauges[C], candidates: Sequence[C], watch: Watch[C]) -> None:
        super().__init__(gauges, candidates, watch)
        self._grades: dict[Key, float] = {}
        """Those that hold while the extremes do."""
        self._sums: list[float] = []
        self._add_up()

    def best(self, few: FewScores = ()) -> Best:
        if few:
            return highest_of(lift(self._sums.copy(), few))
        if self._best is None:
            self._best = highest_of(self._sums)
        return self._best

    def sums(self) -> list[float]:
        return self._sums.copy()

    def _take_in(self, changed: Sequence[C]) -> None:
        places, heights, keys, watch, read = self._places, self._heights, self._keys, self._watch, self._gauges.read
        for candidate in changed:
            watch(candidate, self._changed)
            at = places[candidate]
            heights[at], keys[at] = read(candidate)
        self._add_up()

    def _add_up(self) -> None:
        keys = self._keys
        extremes = self._gauges.extremes(keys)
        if extremes != self._extremes or len(self._grades) > _MOST_GRADES:
            self._extremes, self._grades = extremes, {}
        grades = self._grades
        self._best = None
        try:
            self._sums = [height + grades[key] for height, key in zip(self._heights, keys, strict=True)]
        except KeyError:
            unknown = [key for key in keys if key not in grades]
            grades.update(zip(unknown, self._gauges.grades(unknown, extremes), strict=True))
            self._sums = [height + grades[key] for height, key in zip(self._heights, keys, strict=True)]


class LongStanding(Standing[C]):
    """In tiers."""

    __slots__ = ("_tiers", "_tops")

    def __init__(self, gauges: Gauges[C], candidates: Sequence[C], watch: Watch[C]) -> None:
        super().__init__(gauges, candidates, watch)
        self._tiers: dict[Key, _Tier] = {key: _Tier() for key in self._keys}
        for at, (height, key) in enumerate(zip(self._heights, self._keys, strict=True)):
            self._tiers[key].add(height, at)
        self._tops: dict[Key, float] = {}
        """The highest sum of each tier."""
        self._grade(self._tiers)

    def best(self, few: FewScores = ()) -> Best:
        if self._best is None:
            self._best = self._find_best()
        if not few:
            return self._best
        sums: dict[int, float] = {}
        for weight, scores in few:
            for at, score in scores.items():
                sums[at] = (sums[at] if at in sums else self._sum_of(at)) + weight * score
        (total, places), highest = self._best, max(sums.values())
        if highest < total:
            return total, places
        lifted = [at for at, reached in sums.items() if reached == highest]
        return highest, sorted({*places, *lifted} if highest == total else lifted)

    def sums(self) -> list[float]:
        tiers = self._tiers
        return [height + tiers[key].grade for height, key in zip(self._heights, self._keys, strict=True)]

    def _sum_of(self, at: int) -> float:
        return self._heights[at] + self._tiers[self._keys[at]].grade

    def _take_in(self, changed: Sequence[C]) -> None:
        tiers, keys, heights, watch, read = self._tiers, self._keys, self._heights, self._watch, self._gauges.read
        touched: set[Key] = set()
        for candidate in changed:
            watch(candidate, self._changed)
            at = self._places[candidate]
            height, key = read(candidate)
            before = keys[at]
            if key == before and height == heights[at]:
                continue
            tiers[before].take(heights[at], at)
            heights[at], keys[at] = height, key
            tier = tiers.get(key)
            if tier is None:
                tier = tiers[key] = _Tier()
            tier.add(height, at)
            touched.add(before)
            touched.add(key)
        if touched:
            self._settle(touched)

    def _settle(self, touched: Iterable[Key]) -> None:
        """Drops tiers that are empty, grades those that are new, and all where the most or the least is another."""
        tiers, tops = self._tiers, self._tops
        self._best = None
        came: list[Key] = []
        went: list[Key] = []
        for key in touched:
            tier = tiers[key]
            if not tier.heights:
                went.append(key)
                del tiers[key]
                tops.pop(key, None)
            elif key in tops:
                tops[key] = tier.heights[-1] + tier.grade
            else:
                came.append(key)
        if not self._gauges.still(self._extremes, came, went):
            self._extremes = self._gauges.extremes(tiers)
            self._grade(tiers)
        elif came:
            self._grade(came)

    def _grade(self, keys: Collection[Key]) -> None:
        tiers, tops = self._tiers, self._tops
        for key, grade in zip(keys, self._gauges.grades(keys, self._extremes), strict=True):
            tier = tiers[key]
            tier.grade = grade
            tops[key] = tier.heights[-1] + grade

    def _find_best(self) -> Best:
        tops, total, best, tied = self._tops, -inf, None, False
        for key, top in tops.items():
            if top > total:
                total, best, tied = top, key, False
            elif top == total:
                tied = True
        if best is None:
            return total, ()
        if tied:
            found = [places for key, top in tops.items() if top == total for places in self._tiers[key].best()]
        else:
            found = self._tiers[best].best()
        return total, found[0] if len(found) == 1 else sorted(chain.from_iterable(found))


def keep_up(gauges: Gauges[C], candidates: Sequence[C], watch: Watch[C]) -> Standing[C]:
    return (ShortStanding if len(candidates) <= SHORT else LongStanding)(gauges, candidates, watch)


def lift(sums: list[float], few: FewScores) -> list[float]:
    """Adds the scores of few candidates to sums of all."""
    for weight, scores in few:
        for at, score in scores.items():
            sums[at] += weight * score
    return sums


def highest_of(sums: Sequence[float]) -> Best:
    highest = max(sums)
    if sums.count(highest) == 1:
        return highest, (sums.index(highest),)
    return highest, [at for at, total in enumerate(sums) if total == highest]


def raised(plugin: str, error: Exception) -> PluginFault:
    return PluginFault(plugin, f"raised {type(error).__name__}: {error}")


def out_of_range(scorer: str, score: float) -> PluginFault:
    return PluginFault(scorer, f"scored {score}, which is not in [0, 1]")


def _refuse_number(gauge: str, number: float) -> Never:
    raise PluginFault(gauge, f"read {number}, which is no finite number")


def _refuse(scorer: str, score: float) -> Never:
    raise out_of_range(scorer, score)
