"""Where the engines of one replica go on one cluster: each on one pool, several on the same where they fit.

Engines that share no pool do not disturb each other, so the search tries pools engine by engine and turns back where a
pool would get too full. Pools in the same state are tried once. The search is exhaustive up to a limit on its steps.
"""

from collections.abc import Callable, Sequence

import msgspec

from modelplane.framework import Refusal, RefusalCode
from modelplane.placement.cluster_info import PoolShape
from modelplane.placement.offers import Fit, OfferedAssignment, first_fit
from modelplane.placement.pool_usage import PoolUsage
from modelplane.placement.request import EngineRequest

_MAX_STEPS = 2_000

FitCheck = Callable[[EngineRequest, PoolShape, PoolUsage], Fit | Refusal]
"""What the filters say of an engine on a pool: the fit with the usage that results, or a refusal."""


class Unassignable(msgspec.Struct, frozen=True, eq=False):
    """Why a cluster cannot take the replica, engine by engine and pool by pool."""

    refusal: Refusal
    """Of the cluster as a whole."""
    pools: tuple[tuple[str, int, Refusal], ...] = ()
    """Engine, position of the pool, and why not."""


Assigned = tuple[OfferedAssignment, ...] | Unassignable


def assign_engines(
    engines: Sequence[EngineRequest], kinds: Sequence[PoolShape], usages: Sequence[PoolUsage], check_fit: FitCheck
) -> Assigned:
    options: list[list[int]] = []
    refused: list[tuple[str, int, Refusal]] = []
    for engine in engines:
        answers = [check_fit(engine, kind, usage) for kind, usage in zip(kinds, usages, strict=True)]
        refused += [(engine.name, at, answer) for at, answer in enumerate(answers) if isinstance(answer, Refusal)]
        fitting = [at for at, answer in enumerate(answers) if not isinstance(answer, Refusal)]
        if not fitting:
            codes = {answer.code for answer in answers if isinstance(answer, Refusal)}
            code = RefusalCode.UNSCHEDULABLE if RefusalCode.UNSCHEDULABLE in codes else RefusalCode.UNRESOLVABLE
            text = "0 of {} pools can take engine {}"
            return Unassignable(Refusal("Pools", code, text, (len(kinds), engine.name)), tuple(refused))
        options.append(sorted(fitting, key=lambda at: _preference(engine, kinds[at], usages[at], at)))
    found = _search(engines, kinds, tuple(usages), options)
    if found is None:
        text = "each of the {} engines fits alone, but they do not fit together"
        return Unassignable(Refusal("Pools", RefusalCode.UNSCHEDULABLE, text, (len(engines),)), tuple(refused))
    return found


def _preference(engine: EngineRequest, kind: PoolShape, usage: PoolUsage, at: int) -> tuple[float, int]:
    """Emptier pools first: that keeps engines apart and leaves devices free on each."""
    fit = first_fit(engine, kind, usage)
    return (-fit.free_share if fit is not None else 0.0), at


def _search(
    engines: Sequence[EngineRequest],
    kinds: Sequence[PoolShape],
    usages: tuple[PoolUsage, ...],
    options: Sequence[Sequence[int]],
) -> tuple[OfferedAssignment, ...] | None:
    stack: list[tuple[tuple[OfferedAssignment, ...], tuple[PoolUsage, ...]]] = [((), usages)]
    for _ in range(_MAX_STEPS):
        if not stack:
            return None
        assignments, left = stack.pop()
        if len(assignments) == len(engines):
            return assignments
        tried: set[tuple[PoolShape, PoolUsage]] = set()
        branches: list[tuple[tuple[OfferedAssignment, ...], tuple[PoolUsage, ...]]] = []
        for at in options[len(assignments)]:
            fit = first_fit(engines[len(assignments)], kinds[at], left[at])
            if fit is None or (kinds[at], left[at]) in tried:
                continue
            tried.add((kinds[at], left[at]))
            branches.append(
                ((*assignments, OfferedAssignment(kinds[at], at, fit)), (*left[:at], fit.after, *left[at + 1 :]))
            )
        stack.extend(reversed(branches))
    return None
