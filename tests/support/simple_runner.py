"""A profile run in the plainest way: the oracle that `modelplane.framework.Runner` is compared with."""

from collections.abc import Sequence
from typing import TypeVar

from modelplane.framework import (
    PluginFault,
    Profile,
    RefusalCode,
    Reporter,
    Result,
    RunOutcome,
    Scored,
    Weighted,
    admit,
)

S = TypeVar("S")
C = TypeVar("C")


def run(profile: Profile[S, C], state: S, candidates: Sequence[C], reporter: Reporter[C] | None = None) -> Result[C]:
    if not candidates:
        return Result(RunOutcome.NOTHING_OFFERED)
    admitted: list[C] = []
    may_pass = False
    for candidate in candidates:
        refusal = admit(profile.filters, state, candidate)
        if refusal is None:
            admitted.append(candidate)
            continue
        may_pass = may_pass or refusal.code is RefusalCode.UNSCHEDULABLE
        if reporter is not None:
            reporter.refused(profile.name, candidate, refusal)
    if not admitted:
        return Result(RunOutcome.ALL_UNSCHEDULABLE if may_pass else RunOutcome.ALL_UNRESOLVABLE)
    ranked = rank(profile, state, score(profile, state, admitted, reporter))
    if reporter is not None:
        reporter.picked(profile.name, ranked[0].candidate)
    return Result(RunOutcome.PICKED, ranked)


def score(
    profile: Profile[S, C], state: S, candidates: Sequence[C], reporter: Reporter[C] | None = None
) -> list[Scored[C]]:
    """Each candidate with its total and its parts, in the order they came in."""
    names = tuple(weighted.scorer.name for weighted in profile.scorers)
    weights = tuple(weighted.weight for weighted in profile.scorers)
    columns = [_column(weighted, state, candidates) for weighted in profile.scorers]
    whole = sum(weights)
    scored: list[Scored[C]] = []
    rows: Sequence[tuple[float, ...]] = list(zip(*columns, strict=True)) if columns else [()] * len(candidates)
    for candidate, row in zip(candidates, rows, strict=True):
        total = sum(map(float.__mul__, row, weights)) / whole if whole else 0.0
        scored.append(Scored(candidate, total, tuple(zip(names, row, strict=True))))
    if reporter is not None:
        for found in scored:
            reporter.scored(profile.name, found.candidate, found.total, found.parts)
    return scored


def rank(profile: Profile[S, C], state: S, scored: Sequence[Scored[C]]) -> tuple[Scored[C], ...]:
    """The picker's order. It must be an order of what was scored, nothing added and at least one kept."""
    picker = profile.picker
    try:
        ranked = tuple(picker.pick(state, scored))
    except Exception as error:
        raise PluginFault(picker.name, f"raised {type(error).__name__}: {error}") from error
    if not ranked and scored:
        raise PluginFault(picker.name, f"picked none of {len(scored)} candidates")
    return ranked


def _column(weighted: Weighted[S, C], state: S, candidates: Sequence[C]) -> Sequence[float]:
    scorer = weighted.scorer
    try:
        values = [float(value) for value in scorer.score(state, candidates)]
    except Exception as error:
        raise PluginFault(scorer.name, f"raised {type(error).__name__}: {error}") from error
    if len(values) != len(candidates):
        raise PluginFault(scorer.name, f"gave {len(values)} scores for {len(candidates)} candidates")
    for value in values:
        # A comparison with NaN is false, so this refuses it too.
        if not 0.0 <= value <= 1.0:
            raise PluginFault(scorer.name, f"scored {value}, which is not in [0, 1]")
    return values
