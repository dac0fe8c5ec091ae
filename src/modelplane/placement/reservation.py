"""Where the engines of one replica go on one cluster: each on one pool, several on the same where there is room.

Engines that share no pool do not disturb each other, so the search tries pools engine by engine and turns back where a
pool would get too full. Pools in the same state are tried once. The search is exhaustive up to a limit on its steps.
"""

from collections.abc import Callable, Sequence

import msgspec

from modelplane.framework import Refusal, RefusalCode
from modelplane.placement.cluster_info import PoolShape
from modelplane.placement.offers import Fit, OfferedAssignment, first_fit
from modelplane.placement.request import EngineRequest
from modelplane.placement.room import Use

_MAX_STEPS = 2_000

Judge = Callable[[EngineRequest, PoolShape, Use], Fit | Refusal]
"""What the filters say of an engine on a pool: the way it would be served with the use that results, or a refusal."""


class Unassignable(msgspec.Struct, frozen=True, eq=False):
    """Why a cluster has no seats, engine by engine and pool by pool."""

    refusal: Refusal
    """Of the cluster as a whole."""
    pools: tuple[tuple[str, int, Refusal], ...] = ()
    """Engine, position of the pool, and why not."""


Seated = tuple[OfferedAssignment, ...] | Unassignable


def seat_engines(
    engines: Sequence[EngineRequest], kinds: Sequence[PoolShape], uses: Sequence[Use], judge: Judge
) -> Seated:
    options: list[list[int]] = []
    refused: list[tuple[str, int, Refusal]] = []
    for engine in engines:
        answers = [judge(engine, kind, use) for kind, use in zip(kinds, uses, strict=True)]
        refused += [(engine.name, at, answer) for at, answer in enumerate(answers) if isinstance(answer, Refusal)]
        fitting = [at for at, answer in enumerate(answers) if not isinstance(answer, Refusal)]
        if not fitting:
            codes = {answer.code for answer in answers if isinstance(answer, Refusal)}
            code = RefusalCode.UNSCHEDULABLE if RefusalCode.UNSCHEDULABLE in codes else RefusalCode.UNRESOLVABLE
            text = "no pool of {} takes engine {}"
            return Unassignable(Refusal("Pools", code, text, (len(kinds), engine.name)), tuple(refused))
        options.append(sorted(fitting, key=lambda at: _preference(engine, kinds[at], uses[at], at)))
    found = _search(engines, kinds, tuple(uses), options)
    if found is None:
        text = "each engine fits alone, all {} together do not"
        return Unassignable(Refusal("Pools", RefusalCode.UNSCHEDULABLE, text, (len(engines),)), tuple(refused))
    return found


def _preference(engine: EngineRequest, kind: PoolShape, use: Use, at: int) -> tuple[float, int]:
    """Emptier pools first: that keeps engines apart and leaves room on each."""
    fit = first_fit(engine, kind, use)
    return (-fit.free_share if fit is not None else 0.0), at


def _search(
    engines: Sequence[EngineRequest],
    kinds: Sequence[PoolShape],
    uses: tuple[Use, ...],
    options: Sequence[Sequence[int]],
) -> tuple[OfferedAssignment, ...] | None:
    stack: list[tuple[tuple[OfferedAssignment, ...], tuple[Use, ...]]] = [((), uses)]
    for _ in range(_MAX_STEPS):
        if not stack:
            return None
        seats, left = stack.pop()
        if len(seats) == len(engines):
            return seats
        tried: set[tuple[PoolShape, Use]] = set()
        branches: list[tuple[tuple[OfferedAssignment, ...], tuple[Use, ...]]] = []
        for at in options[len(seats)]:
            fit = first_fit(engines[len(seats)], kinds[at], left[at])
            if fit is None or (kinds[at], left[at]) in tried:
                continue
            tried.add((kinds[at], left[at]))
            branches.append(((*seats, OfferedAssignment(kinds[at], at, fit)), (*left[:at], fit.after, *left[at + 1 :])))
        stack.extend(reversed(branches))
    return None
