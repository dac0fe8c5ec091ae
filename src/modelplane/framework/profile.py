"""A profile and how it runs.

`run` is the whole of it: filter, score, rank. Callers that decide many times among nearly the same candidates use the
three steps by themselves and keep what did not change between two decisions.

The total of a candidate is the mean of its scores weighted by the scorers' weights, so it lies in [0, 1] as they do. A
profile without scorers, or with weights of 0 only, gives every admitted candidate the same total.
"""

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

import msgspec

from modelplane.framework.faults import PluginFault, ProfileError
from modelplane.framework.outcomes import Refusal, RefusalCode, RunOutcome
from modelplane.framework.plugins import Filter, Picker, Reporter, Scored, Scorer, Weighted

S = TypeVar("S")
C = TypeVar("C")


class Profile(msgspec.Struct, Generic[S, C], frozen=True, eq=False):
    """Any filters, weighted scorers, exactly one picker. Filters are asked in order; the first refusal stands."""

    name: str
    picker: Picker[S, C]
    filters: tuple[Filter[S, C], ...] = ()
    scorers: tuple[Weighted[S, C], ...] = ()

    def __post_init__(self) -> None:
        for names in ([plugin.name for plugin in self.filters], [weighted.scorer.name for weighted in self.scorers]):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ProfileError(f"profile {self.name}: {', '.join(twice)} is listed more than once")
        for weighted in self.scorers:
            if not 0.0 <= weighted.weight < float("inf"):
                raise ProfileError(
                    f"profile {self.name}: the weight of {weighted.scorer.name} is {weighted.weight}; "
                    "it must be a number of at least 0"
                )


def make_profile(name: str, plugins: Iterable[tuple[tuple[str, object], float | None]]) -> Profile[S, C]:
    """A profile of named plugins in their order, with the weights of scorers; None is a weight of 1."""
    filters: list[Filter[S, C]] = []
    scorers: list[Weighted[S, C]] = []
    pickers: list[Picker[S, C]] = []
    for (label, plugin), weight in plugins:
        if not isinstance(plugin, Filter | Scorer | Picker):
            raise ProfileError(f"plugin {label} is neither a filter, a scorer nor a picker")
        if weight is not None and not isinstance(plugin, Scorer):
            raise ProfileError(f"profile {name}: {label} has a weight and is not a scorer")
        if isinstance(plugin, Filter):
            filters.append(plugin)
        if isinstance(plugin, Scorer):
            scorers.append(Weighted(plugin, 1.0 if weight is None else weight))
        if isinstance(plugin, Picker):
            pickers.append(plugin)
    if len(pickers) != 1:
        names = ", ".join(picker.name for picker in pickers) or "none"
        raise ProfileError(f"profile {name}: exactly one picker is needed, there are {len(pickers)} ({names})")
    return Profile(name, pickers[0], tuple(filters), tuple(scorers))


class Result(msgspec.Struct, Generic[C], frozen=True, eq=False):
    outcome: RunOutcome
    ranked: tuple[Scored[C], ...] = ()
    """Best first; empty unless something was picked."""
    refusals: tuple[Refusal, ...] = ()
    """Where a `Runner` admitted none: examples that say why, in the order of the filters."""


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


def admit(filters: Sequence[Filter[S, C]], state: S, candidate: C) -> Refusal | None:
    """The first refusal, or None when every filter admits."""
    for plugin in filters:
        try:
            refusal = plugin.refuse(state, candidate)
        except Exception as error:
            raise PluginFault(plugin.name, f"raised {type(error).__name__}: {error}") from error
        if refusal is not None:
            return refusal
    return None


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
