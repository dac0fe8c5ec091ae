"""What was used: a record a request for the log, and totals for Prometheus.

Prices are labels of a ModelEndpoint or, where it has none, of its ModelService: money for a million tokens.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from modelplane.compose.service_plan import PlanEndpoint, ServicePlan
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.router.usage_record import UsageRecord

INPUT_PRICE: Final = "modelplane.ai/input-price-per-million"
OUTPUT_PRICE: Final = "modelplane.ai/output-price-per-million"
_MILLION: Final = 1e6
_MOST_SERIES: Final = 2000
_OTHER: Final = "other"


def cost_of(usage: ResponseUsage, service: ServicePlan, endpoint: PlanEndpoint) -> float:
    """In the currency of the prices; 0 where there are none."""
    prompt, output = max(0, usage.prompt_tokens), max(0, usage.output_tokens)
    if not prompt and not output:
        return 0.0
    input_price = _price(INPUT_PRICE, endpoint.labels, service.labels)
    output_price = _price(OUTPUT_PRICE, endpoint.labels, service.labels)
    return (prompt * input_price + output * output_price) / _MILLION


def _price(name: str, *labels: Mapping[str, str]) -> float:
    for each in labels:
        try:
            found = float(each.get(name, ""))
        except ValueError:
            continue
        if 0.0 <= found < float("inf"):
            return found
    return 0.0


class UsageLog:
    """Writes records as JSON lines, and keeps the totals."""

    def __init__(self, write: Callable[[bytes], object] | None = None) -> None:
        self._write = write
        self._totals: dict[tuple[str, str, str, str], float] = {}
        """By metric, caller, service and what else distinguishes."""

    def add(self, record: UsageRecord) -> None:
        self._count("requests", record, str(record.status))
        self._count("input_tokens", record, "", max(0, record.input_tokens))
        self._count("output_tokens", record, "", max(0, record.output_tokens))
        self._count("cost", record, "", record.cost)
        if self._write is not None:
            self._write(msgspec.json.encode(record) + b"\n")

    def add_refused(self, time: str, request_id: str, caller: str, service: str, status: int, attempts: int) -> None:
        """A request that was not sent on: without an endpoint and without tokens."""
        self.add(UsageRecord(time, request_id, caller, service, "", status, 0.0, attempts=attempts))

    def tokens(self) -> Iterator[tuple[str, str, float]]:
        """Service, direction and tokens of all callers together."""
        for (metric, _, service, _), value in self._totals.items():
            if metric in {"input_tokens", "output_tokens"}:
                yield service, metric.removesuffix("_tokens"), value

    def lines(self) -> Iterator[str]:
        """In Prometheus' text format."""
        for metric in ("requests", "input_tokens", "output_tokens", "cost"):
            name = f"modelplane_router_{metric}_total"
            yield f"# TYPE {name} counter"
            for (found, caller, service, status), value in sorted(self._totals.items()):
                if found == metric:
                    more = f',status="{status}"' if status else ""
                    yield f'{name}{{caller="{_escaped(caller)}",service="{_escaped(service)}"{more}}} {value:g}'

    def _count(self, metric: str, record: UsageRecord, more: str, amount: float = 1.0) -> None:
        if not amount:
            return
        key = (metric, record.caller, record.service, more)
        if key not in self._totals and len(self._totals) >= _MOST_SERIES:
            key = (metric, _OTHER, _OTHER, more)
        self._totals[key] = self._totals.get(key, 0.0) + amount


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
