"""Where the engines of one replica go on one cluster: each on one pool, several on the same where they fit.

Engines that share no pool do not disturb each other, so the search tries pools and allocations engine by engine and
turns back where a pool would get too full. States that were seen are not entered again, so "no" is a proof unless the
budget of steps ran out, which the refusal then says.

Assignments differ in price and in how much of the fullest pool stays free. The search keeps those that no other beats
in both, so that the scorers choose among them, and a few others, so that an explanation can show what they would cost.
It goes through the pools twice: the emptiest first, which keeps engines apart, then the cheapest first. Once there are
enough to choose from, only a limited number of further steps is spent.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec

from modelplane.framework import Refusal, RefusalCode
from modelplane.placement.cluster_info import PoolShape
from modelplane.placement.offers import EngineFits, Fit, OfferedAssignment, engine_fits
from modelplane.placement.pool_usage import PoolUsage
from modelplane.placement.request import EngineRequest

ASSIGNMENT_BUDGET = 4_096
"""Steps of the search for a first assignment."""
_STEPS_TO_IMPROVE = 256
_SHOWN = 4
"""Assignments that are kept even where others are better."""
_ROUNDING = 1e-9

FitCheck = Callable[[EngineRequest, PoolShape, PoolUsage], Fit | Refusal]
"""The answer of the filters for an engine on a pool: the fit with the usage that results, or a refusal."""


class Unassignable(msgspec.Struct, frozen=True, eq=False):
    """Why a cluster cannot take the replica, engine by engine and pool by pool."""

    refusal: Refusal
    """Of the cluster as a whole."""
    pools: tuple[tuple[str, int, Refusal], ...] = ()
    """Engine, position of the pool, and why not."""


EngineAssignments = tuple[OfferedAssignment, ...]
"""One for each engine of the replica."""
Assigned = tuple[EngineAssignments, ...] | Unassignable
"""Assignments to choose from; those of equal price and room in the order of their pools."""


def assign_engines(
    engines: Sequence[EngineRequest], kinds: Sequence[PoolShape], usages: Sequence[PoolUsage], check_fit: FitCheck
) -> Assigned:
    options: list[list[int]] = []
    refused: list[tuple[str, int, Refusal]] = []
    without_pool: list[Unassignable] = []
    for engine in engines:
        answers = [check_fit(engine, kind, usage) for kind, usage in zip(kinds, usages, strict=True)]
        refusals = {at: answer for at, answer in enumerate(answers) if isinstance(answer, Refusal)}
        refused += [(engine.name, at, refusal) for at, refusal in refusals.items()]
        options.append([at for at in range(len(kinds)) if at not in refusals])
        if not options[-1]:
            without_pool.append(Unassignable(_no_pool(engine, refusals.values()), tuple(refused)))
    if without_pool:
        lasting = (found for found in without_pool if found.refusal.code is RefusalCode.UNRESOLVABLE)
        return next(lasting, without_pool[0])
    search = _AssignmentSearch(engines, kinds, tuple(usages), options)
    found = search.run()
    return found or Unassignable(search.refusal(), tuple(refused))


def _no_pool(engine: EngineRequest, refusals: Collection[Refusal]) -> Refusal:
    may_pass = any(refusal.code is RefusalCode.UNSCHEDULABLE for refusal in refusals)
    code = RefusalCode.UNSCHEDULABLE if may_pass else RefusalCode.UNRESOLVABLE
    return Refusal("Pools", code, "0 of {} pools can take engine {}", (len(refusals), engine.name))


_Cost = tuple[float, ...]
"""What is paid in each currency, and how many engines are on pools without a price."""


class _Branch(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Assignments of the first engines, and what they leave of the pools."""

    chosen: EngineAssignments
    usages: tuple[PoolUsage, ...]
    room: float
    cost: _Cost


class _AssignmentSearch:
    def __init__(
        self,
        engines: Sequence[EngineRequest],
        kinds: Sequence[PoolShape],
        usages: tuple[PoolUsage, ...],
        options: Sequence[Sequence[int]],
    ) -> None:
        self._engines = engines
        self._kinds = kinds
        self._usages = usages
        self._options = options
        self._currencies = sorted({kind.price.currency for kind in kinds if kind.price is not None})
        self._found: list[_Branch] = []
        self._seen: dict[tuple[int, tuple[PoolUsage, ...]], list[_Branch]] = {}
        self._proven = True
        self._least = [(0.0,) * (len(self._currencies) + 1)]
        """What the engines from each on cost at least."""
        for engine, pools in zip(reversed(engines), reversed(options), strict=True):
            costs = [self._cost(fit) for at in pools for fit in self._fits(engine, at, usages[at])]
            self._least.append(_sum(self._least[-1], tuple(map(min, zip(*costs, strict=True)))))
        self._least.reverse()

    def run(self) -> tuple[EngineAssignments, ...]:
        self._search(self._emptiest_first)
        if self._currencies and self._found:
            self._seen.clear()
            self._search(self._cheapest_first)
        return tuple(found.chosen for found in self._found)

    def refusal(self) -> Refusal:
        number = len(self._engines)
        if self._proven:
            whole = not any(self._usages) and not any(kind.missing_nodes for kind in self._kinds)
            code = RefusalCode.UNRESOLVABLE if whole else RefusalCode.UNSCHEDULABLE
            return Refusal("Pools", code, "each of the {} engines fits alone, but they do not fit together", (number,))
        text = "each of the {} engines fits alone, together not proven: search budget of {} steps reached"
        return Refusal("Pools", RefusalCode.UNSCHEDULABLE, text, (number, ASSIGNMENT_BUDGET))

    def _search(self, order: Callable[[EngineRequest, int], tuple[float, ...]]) -> None:
        ordered = [
            sorted(pools, key=lambda at, engine=engine: order(engine, at))  # type: ignore[misc]
            for engine, pools in zip(self._engines, self._options, strict=True)
        ]
        stack = [_Branch((), self._usages, 1.0, self._least[-1])]
        left = ASSIGNMENT_BUDGET
        while stack and left:
            left = left - 1 if not self._found else min(left - 1, _STEPS_TO_IMPROVE)
            branch = stack.pop()
            if self._is_beaten(branch):
                continue
            if len(branch.chosen) == len(self._engines):
                self._keep(branch)
            else:
                stack += reversed(list(self._branches(branch, ordered[len(branch.chosen)])))
        self._proven = self._proven and not stack

    def _branches(self, branch: _Branch, pools: Sequence[int]) -> Iterator[_Branch]:
        engine = self._engines[len(branch.chosen)]
        tried: set[tuple[PoolShape, PoolUsage]] = set()
        for at in pools:
            kind, usage = self._kinds[at], branch.usages[at]
            if (kind, usage) in tried:
                continue
            tried.add((kind, usage))
            for fit in self._fits(engine, at, usage):
                yield _Branch(
                    (*branch.chosen, OfferedAssignment(kind, at, fit)),
                    (*branch.usages[:at], fit.after, *branch.usages[at + 1 :]),
                    min(branch.room, fit.free_share),
                    _sum(branch.cost, self._cost(fit)),
                )

    def _fits(self, engine: EngineRequest, at: int, usage: PoolUsage) -> Sequence[Fit]:
        found: EngineFits = engine_fits(engine, self._kinds[at], usage)
        self._proven = self._proven and found.proven
        return found.fits

    def _is_beaten(self, branch: _Branch) -> bool:
        """Whether nothing that follows can be better than what is known, where there is enough to show already."""
        depth = len(branch.chosen)
        seen = self._seen.setdefault((depth, branch.usages), [])
        if any(_beats(other, branch.room, branch.cost) for other in seen):
            return True
        seen.append(branch)
        if len(self._found) < _SHOWN:
            return False
        least = _sum(branch.cost, self._least[depth])
        return any(_beats(found, branch.room, least) for found in self._found)

    def _keep(self, branch: _Branch) -> None:
        pools = _pools(branch)
        if not any(_pools(found) == pools and _beats(found, branch.room, branch.cost) for found in self._found):
            self._found.append(branch)

    def _cost(self, fit: Fit) -> _Cost:
        if fit.price is None:
            return (*(0.0 for _ in self._currencies), 1.0)
        amount, currency = fit.price
        return (*(amount if known == currency else 0.0 for known in self._currencies), 0.0)

    def _emptiest_first(self, engine: EngineRequest, at: int) -> tuple[float, ...]:
        return -max(fit.free_share for fit in self._fits(engine, at, self._usages[at])), at

    def _cheapest_first(self, engine: EngineRequest, at: int) -> tuple[float, ...]:
        fits = self._fits(engine, at, self._usages[at])
        *amounts, unpriced = min(self._cost(fit) for fit in fits)
        return unpriced, sum(amounts), *self._emptiest_first(engine, at)


def _beats(known: _Branch, room: float, cost: _Cost) -> bool:
    """Whether a known branch is as roomy and as cheap at least."""
    cheap = all(mine <= other + _ROUNDING for mine, other in zip(known.cost, cost, strict=True))
    return cheap and known.room >= room - _ROUNDING


def _sum(one: _Cost, other: _Cost) -> _Cost:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _pools(branch: _Branch) -> tuple[int, ...]:
    return tuple(assignment.position for assignment in branch.chosen)
