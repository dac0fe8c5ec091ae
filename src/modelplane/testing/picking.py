"""Builders for endpoints, requests and scheduling cycles of the picker."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle as repeat
from random import Random

from modelplane.api.errors import InputError
from modelplane.epp.config.builtin import builtin_registry
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import NOTHING, Endpoint
from modelplane.epp.scheduling.metrics import Adapters, EndpointMetrics
from modelplane.epp.scheduling.producers.latency import LATENCY, Prediction
from modelplane.epp.scheduling.producers.matches import PrefixMatch
from modelplane.epp.scheduling.producers.prefix import put_prefix
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.units import convert


def endpoint(
    name: str = "a",
    *,
    labels: Mapping[str, str] = NOTHING,
    attributes: Mapping[str, float] | None = None,
    in_flight: tuple[int, int] = (0, 0),
    metrics: EndpointMetrics | None = None,
) -> Endpoint:
    """`in_flight` is requests and tokens."""
    made = Endpoint(name, f"10.0.0.{sum(map(ord, name)) % 250}:8000", labels, attributes or {})
    made.requests_in_flight, made.tokens_in_flight = in_flight
    made.metrics = EndpointMetrics(scraped_s=0.0) if metrics is None else metrics
    return made


def endpoints_with(all_metrics: Iterable[EndpointMetrics]) -> tuple[Endpoint, ...]:
    return tuple(endpoint(chr(ord("a") + at), metrics=metrics) for at, metrics in enumerate(all_metrics))


def lora(running: Sequence[str] = (), waiting: Sequence[str] = (), most: int = 0) -> EndpointMetrics:
    return EndpointMetrics(adapters=Adapters(frozenset(running), frozenset(waiting), most), scraped_s=0.0)


def chances(*values: float) -> Callable[[], float]:
    """Random numbers that cycle through the values; 0 without any."""
    return repeat(values or (0.0,)).__next__


def seeded(seed: int) -> Callable[[], float]:
    """Chance that a seed repeats."""
    return Random(seed).random  # noqa: S311  repeatable on purpose


def context_of(
    endpoints: Sequence[Endpoint],
    request: Request | None = None,
    *,
    now_s: float = 0.0,
    chance: Callable[[], float] | None = None,
) -> SchedulingContext:
    return SchedulingContext(request or Request("r"), endpoints, now_s, chance or chances())


def with_prefix(
    context: SchedulingContext, matched: Sequence[int], total: int, block_size: int = 1
) -> SchedulingContext:
    put_prefix(context, "prefix", PrefixMatch(total, block_size, matched))
    return context


def with_headroom(context: SchedulingContext, headrooms: Sequence[tuple[float, float] | None]) -> SchedulingContext:
    """Predictions by their headrooms in seconds; None: there is no prediction."""
    context.put(LATENCY, [pair and Prediction(1.0 - pair[0], 1.0 - pair[1], *pair, 1.0) for pair in headrooms])
    return context


class _Alone:
    """A maker's surroundings where there is nothing to refer to, or just these."""

    def __init__(self, others: Mapping[str, object]) -> None:
        self._others = others

    def plugin(self, name: str, /) -> object:
        if name not in self._others:
            raise InputError(f"refers to plugin {name}, which is not listed")
        return self._others[name]


def make(type_name: str, others: Mapping[str, object] | None = None, /, **parameters: object) -> object:
    """A plugin by its type, with parameters as configuration spells them."""
    kind = builtin_registry()[type_name]
    return kind.make(type_name, convert(parameters, kind.parameters), _Alone(others or {}))
