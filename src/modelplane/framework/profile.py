"""A profile, what a run of it returns, and the first step of a run by itself.

The total of a candidate is the mean of its scores weighted by the scorers' weights, so it lies in [0, 1] as they do. A
profile without scorers, or with weights of 0 only, gives every admitted candidate the same total.
"""

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

import msgspec

from modelplane.framework.faults import PluginFault, ProfileError
from modelplane.framework.outcomes import Refusal, RunOutcome
from modelplane.framework.plugins import Filter, Picker, Scored, Scorer, Weighted

S = TypeVar("S")
C = TypeVar("C")


class Profile(msgspec.Struct, Generic[S, C], frozen=True, eq=False):
    """Any filters, weighted scorers and exactly one picker. Filters run in order; the first refusal counts."""

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
    """Examples of the refusals when a `Runner` admitted none, in the order of the filters."""


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
