"""The best candidates, kept up to date as candidates change.

A *metric scorer* reads one number of each candidate, independent of the request: a queue length, a share of memory. It
reads a candidate again only when it changed. So the cost of a decision depends on what changed since the last one, not
on the number of candidates.

This is easy if the number is the score, an *absolute* score. If the score is *relative* to the least and the most of
all candidates, one candidate that moves an extreme moves all scores. But candidates with equal numbers always have
equal relative scores, and counts take few values. So candidates are kept in *buckets*, one for each combination of
relative numbers. Absolute scores order a bucket and depend on no other candidate; the relative score is one number for
the whole bucket. The best candidate is the best of the buckets' tops.

A sum is the absolute score and the relative score in this order and nothing else, whether it was kept up or computed
once (`MetricScorers.sums`): both give equal sums, and so equal ties, to the last bit.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Final, Generic, Never, TypeVar

from modelplane.framework.faults import PluginFault, raised
from modelplane.framework.plugins import Weighted, is_metric_scorer, is_relative_metric_scorer

S = TypeVar("S")
C = TypeVar("C")

BucketKey = float | tuple[float, ...]
"""The numbers that the relative scorers read of one candidate: a tuple, or for one scorer the bare number."""
Extremes = tuple[tuple[float, float], ...]
Best = tuple[float, Sequence[int]]
"""The highest sum, and the positions that have it, ascending."""
WeightedSparseScores = Sequence[tuple[float, Mapping[int, float]]]
"""Scores of a few candidates by their positions, with weights."""
_place_of: Final = bisect_left
_insert: Final = insort
Watch = Callable[[C, list[C]], None]
"""Has a candidate append itself to the list when it changes: at its next change, and once."""


class MetricScorers(Generic[C]):
    """The metric scorers of a profile with their weights."""

    __slots__ = ("_absolute", "_is_single", "_relative", "_relative_scores")

    def __init__(self, scorers: Iterable[Weighted[S, C]]) -> None:
        self._absolute: list[tuple[str, float, Callable[[C], float]]] = []
        self._relative: list[tuple[str, Callable[[C], float]]] = []
        self._relative_scores: list[tuple[str, float, Callable[[float, float, float], float]]] = []
        for weighted in scorers:
            scorer, weight = weighted.scorer, float(weighted.weight)
            if is_relative_metric_scorer(scorer):
                self._relative.append((scorer.name, scorer.read))
                self._relative_scores.append((scorer.name, weight, scorer.relative_score))
            elif is_metric_scorer(scorer):
                self._absolute.append((scorer.name, weight, scorer.read))
        self._is_single = len(self._relative) == 1

    def read(self, candidate: C) -> tuple[float, BucketKey]:
        """The absolute score of a candidate, and the key of its bucket."""
        absolute, name = 0.0, ""
        numbers: list[float] = []
        try:
            for name, weight, read in self._absolute:
                score = read(candidate)
                # Written so that NaN is out of range.
                if not 0.0 <= score <= 1.0:
                    return _refuse(name, score)
                absolute += weight * score
            for name, read in self._relative:
                number = read(candidate)
                if not -inf < number < inf:
                    return _refuse_number(name, number)
                numbers.append(number)
        except PluginFault:
            raise
        except Exception as error:
            raise raised(name, error) from error
        return absolute, numbers[0] if len(numbers) == 1 else tuple(numbers)

    def extremes(self, keys: Collection[BucketKey]) -> Extremes:
        """The least and the most of each relative scorer."""
        if self._is_single:
            return ((min(keys), max(keys)),)  # type: ignore[return-value]  # of one scorer, keys are numbers
        columns = zip(*keys, strict=True)
        return tuple([(min(column), max(column)) for column in columns])

    def keeps(self, extremes: Extremes, added: Collection[BucketKey], removed: Collection[BucketKey]) -> bool:
        """Whether the extremes are sure to be the same after these keys were added and those removed."""
        if not added and not removed:
            return True
        if not self._is_single:
            return False
        ((least, most),) = extremes
        if least in removed or most in removed:
            return False
        ((lowest, highest),) = self.extremes(added) if added else extremes
        return lowest >= least and highest <= most

    def relative_scores(self, keys: Iterable[BucketKey], extremes: Extremes) -> list[float]:
        """The relative scores of each key, weighted and added."""
        totals: list[float] = []
        name = ""
        try:
            for key in keys:
                total = 0.0
                for at, (name, weight, relative_score) in enumerate(self._relative_scores):
                    score = relative_score(key[at] if isinstance(key, tuple) else key, *extremes[at])
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
        """The sum for each candidate, computed once and not kept up."""
        read = [self.read(candidate) for candidate in candidates]
        keys = list({key for _, key in read})
        relative = dict(zip(keys, self.relative_scores(keys, self.extremes(keys)), strict=True))
        return [absolute + relative[key] for absolute, key in read]


class _Bucket:
    """Candidates with one relative score, by their absolute scores."""

    __slots__ = ("absolute_scores", "at", "relative_score")

    def __init__(self) -> None:
        self.at: dict[float, list[int]] = {}
        """Positions in ascending order."""
        self.absolute_scores: list[float] = []
        """The keys of it, in ascending order."""
        self.relative_score = 0.0

    def add(self, absolute: float, at: int) -> None:
        equals = self.at.get(absolute)
        if equals is None:
            self.at[absolute] = [at]
            _insert(self.absolute_scores, absolute)
        else:
            _insert(equals, at)

    def remove(self, absolute: float, at: int) -> None:
        equals = self.at[absolute]
        if len(equals) > 1:
            del equals[_place_of(equals, at)]
        else:
            del self.at[absolute]
            del self.absolute_scores[_place_of(self.absolute_scores, absolute)]

    def best(self) -> list[list[int]]:
        """Positions of the top, one list a score: different scores can give the same sum, for sums are rounded."""
        scores, relative, last = self.absolute_scores, self.relative_score, len(self.absolute_scores) - 1
        found, top = [self.at[scores[last]]], scores[last] + relative
        while last and scores[last - 1] + relative == top:
            last -= 1
            found.append(self.at[scores[last]])
        return found


class IncrementalRanking(Generic[C]):
    """The sums of candidates, and the best of them. Candidates are distinct objects that report their changes."""

    __slots__ = (
        "_absolute", "_best", "_buckets", "_changed", "_extremes", "_keys", "_positions", "_scorers", "_tops",
        "_watch", "candidates",
    )  # fmt: skip

    def __init__(self, scorers: MetricScorers[C], candidates: Sequence[C], watch: Watch[C]) -> None:
        self.candidates = candidates
        self._scorers = scorers
        self._watch = watch
        self._changed: list[C] = []
        self._positions = {candidate: at for at, candidate in enumerate(candidates)}
        for candidate in candidates:
            watch(candidate, self._changed)
        read = [scorers.read(candidate) for candidate in candidates]
        self._absolute = [absolute for absolute, _ in read]
        self._keys = [key for _, key in read]
        self._extremes = scorers.extremes(self._keys)
        self._best: Best | None = None
        self._buckets: dict[BucketKey, _Bucket] = {key: _Bucket() for key in self._keys}
        for at, (absolute, key) in enumerate(read):
            self._buckets[key].add(absolute, at)
        self._tops: dict[BucketKey, float] = {}
        """The highest sum of each bucket."""
        self._score(self._buckets)

    def refresh(self) -> None:
        """Reads candidates that changed. A ranking is of no use any more once a scorer failed."""
        changed = self._changed
        if not changed:
            return
        taken = changed.copy()
        changed.clear()
        self._update(taken)

    def best(self, sparse: WeightedSparseScores = ()) -> Best:
        if self._best is None:
            self._best = self._find_best()
        if not sparse:
            return self._best
        sums: dict[int, float] = {}
        for weight, scores in sparse:
            for at, score in scores.items():
                sums[at] = (sums[at] if at in sums else self._sum_of(at)) + weight * score
        total, positions = self._best
        highest = -inf
        for found in sums.values():
            highest = max(highest, found)
        if highest < total:
            return total, positions
        reached = [at for at, found in sums.items() if found == highest]
        if highest == total:
            return highest, sorted({*positions, *reached})
        return highest, reached if len(reached) == 1 else sorted(reached)

    def sums(self) -> list[float]:
        buckets = self._buckets
        return [
            absolute + buckets[key].relative_score for absolute, key in zip(self._absolute, self._keys, strict=True)
        ]

    def _sum_of(self, at: int) -> float:
        return self._absolute[at] + self._buckets[self._keys[at]].relative_score

    def _update(self, changed: Sequence[C]) -> None:
        """These are to be watched and read again."""
        buckets, keys, scores = self._buckets, self._keys, self._absolute
        watch, read = self._watch, self._scorers.read
        touched: set[BucketKey] = set()
        for candidate in changed:
            watch(candidate, self._changed)
            at = self._positions[candidate]
            absolute, key = read(candidate)
            before = keys[at]
            if key == before and absolute == scores[at]:
                continue
            buckets[before].remove(scores[at], at)
            scores[at], keys[at] = absolute, key
            bucket = buckets.get(key)
            if bucket is None:
                bucket = buckets[key] = _Bucket()
            bucket.add(absolute, at)
            touched.add(before)
            touched.add(key)
        if touched:
            self._settle(touched)

    def _settle(self, touched: Iterable[BucketKey]) -> None:
        """Drop empty buckets, score new ones, and all if an extreme changed."""
        buckets, tops = self._buckets, self._tops
        self._best = None
        added: list[BucketKey] = []
        removed: list[BucketKey] = []
        for key in touched:
            bucket = buckets[key]
            if not bucket.absolute_scores:
                removed.append(key)
                del buckets[key]
                tops.pop(key, None)
            elif key in tops:
                tops[key] = bucket.absolute_scores[-1] + bucket.relative_score
            else:
                added.append(key)
        if not self._scorers.keeps(self._extremes, added, removed):
            self._extremes = self._scorers.extremes(buckets)
            self._score(buckets)
        elif added:
            self._score(added)

    def _score(self, keys: Collection[BucketKey]) -> None:
        buckets, tops = self._buckets, self._tops
        for key, relative in zip(keys, self._scorers.relative_scores(keys, self._extremes), strict=True):
            bucket = buckets[key]
            bucket.relative_score = relative
            tops[key] = bucket.absolute_scores[-1] + relative

    def _find_best(self) -> Best:
        total = -inf
        best: list[BucketKey] = []
        for key, top in self._tops.items():
            if top > total:
                total, best = top, [key]
            elif top == total:
                best.append(key)
        found = [positions for key in best for positions in self._buckets[key].best()]
        return total, found[0] if len(found) == 1 else sorted(chain.from_iterable(found))


def add_sparse(sums: list[float], sparse: WeightedSparseScores) -> list[float]:
    """Adds the scores of a few candidates to the sums of all."""
    for weight, scores in sparse:
        for at, score in scores.items():
            sums[at] += weight * score
    return sums


def highest_of(sums: Sequence[float]) -> Best:
    highest = max(sums)
    if sums.count(highest) == 1:
        return highest, (sums.index(highest),)
    return highest, [at for at, total in enumerate(sums) if total == highest]


def out_of_range(scorer: str, score: float) -> PluginFault:
    return PluginFault(scorer, f"scored {score}, which is not in [0, 1]")


def _refuse_number(scorer: str, number: float) -> Never:
    raise PluginFault(scorer, f"read {number}, which is no finite number")


def _refuse(scorer: str, score: float) -> Never:
    raise out_of_range(scorer, score)
