"""Tenants take turns by what they have been served: the one that attained the least goes next.

What a tenant attained are tokens, those generated counting twice, and fades with a half-life, so that the past does not
weigh for ever. A tenant's score is the weighted sum of how little it attained and how long its first request waits,
both relative to the others. A request is charged an estimate when it is released and the rest when its usage is known.

All waiting tenants are compared while they are few. Of many, a window is compared and goes to the end of the row, so a
release costs the same however many wait, and each tenant is in every so-manieth window.
"""

from collections import deque
from typing import Annotated, Literal

import msgspec

from modelplane.epp.flowcontrol.queues import TicketQueue, too_many
from modelplane.epp.flowcontrol.tickets import Ticket
from modelplane.framework.registry import Parameters

WINDOW = 64
OUTPUT_WEIGHT = 2
_ESTIMATED_OUTPUT = 256
_KEPT = 10_000

NotNegative = Annotated[float, msgspec.Meta(ge=0.0)]
Positive = Annotated[float, msgspec.Meta(gt=0.0)]


class LeastServedParameters(Parameters, frozen=True):
    strategy: Literal["las"] = "las"
    las_weight_service: NotNegative = 0.8
    las_weight_head_wait: NotNegative = 0.2
    las_half_life_seconds: NotNegative = 60.0
    """0: what was attained never fades."""
    eviction_ttl_seconds: Positive = 3600.0
    """A tenant that was not served for so long starts anew."""
    eviction_sweep_seconds: Positive = 300.0


class LeastServed:
    def __init__(self, name: str, parameters: LeastServedParameters | None = None) -> None:
        self.name = name
        self._parameters = parameters or LeastServedParameters()

    def line(self) -> "LeastServedLine":
        return LeastServedLine(self._parameters)


class _Attained:
    __slots__ = ("at_s", "tokens")

    def __init__(self) -> None:
        self.tokens = 0.0
        self.at_s = 0.0


class LeastServedLine:
    """`_row` holds each tenant that has a queue once; one without tickets loses both when it is looked at."""

    __slots__ = ("_attained", "_empty", "_now_s", "_parameters", "_queues", "_row", "_swept_s")

    def __init__(self, parameters: LeastServedParameters) -> None:
        self._parameters = parameters
        self._queues: dict[str, TicketQueue] = {}
        self._row: deque[str] = deque()
        self._attained: dict[str, _Attained] = {}
        self._empty = 0
        self._now_s = 0.0
        self._swept_s = 0.0

    def push(self, ticket: Ticket) -> None:
        queue = self._queues.get(ticket.tenant)
        if queue is None:
            queue = self._queues[ticket.tenant] = TicketQueue()
            self._row.append(ticket.tenant)
        elif not queue:
            self._empty -= 1
        queue.push(ticket)

    def pop(self, now_s: float) -> Ticket | None:
        self._now_s = max(self._now_s, now_s)
        best = self._best(self._window())
        if best is None:
            return None
        ticket = self._queues[best].pop()
        if not self._queues[best]:
            self._empty += 1
        if ticket is not None:
            self._charge(best, self._estimate(ticket))
        self._sweep()
        return ticket

    def died(self, ticket: Ticket) -> None:
        queue = self._queues.get(ticket.tenant)
        if queue is None:
            return
        queue.died()
        self._empty += not queue
        if too_many(self._empty, len(self._queues)):
            self._queues = {tenant: queue for tenant, queue in self._queues.items() if queue}
            self._row = deque(tenant for tenant in self._row if tenant in self._queues)
            self._empty = 0

    def used(self, ticket: Ticket, tokens: int, output_tokens: int) -> None:
        self._charge(ticket.tenant, tokens + OUTPUT_WEIGHT * output_tokens - self._estimate(ticket))

    def _window(self) -> list[tuple[str, Ticket]]:
        """The next tenants that wait, each with its first request; they go to the end of the row."""
        found: list[tuple[str, Ticket]] = []
        for _ in range(len(self._row)):
            tenant = self._row.popleft()
            first = self._queues[tenant].first()
            if first is None:
                del self._queues[tenant]
                self._empty -= 1
                continue
            self._row.append(tenant)
            found.append((tenant, first))
            if len(found) == WINDOW:
                break
        return found

    def _best(self, window: list[tuple[str, Ticket]]) -> str | None:
        if not window:
            return None
        attained = [self._of(tenant) for tenant, _ in window]
        arrived = [first.arrived_s for _, first in window]
        least, spread = min(attained), max(attained) - min(attained)
        latest, longest = max(arrived), max(arrived) - min(arrived)
        service, wait = self._parameters.las_weight_service, self._parameters.las_weight_head_wait
        scores = [
            service * (1.0 - (tokens - least) / spread if spread else 1.0)
            + wait * ((latest - at) / longest if longest else 0.0)
            for tokens, at in zip(attained, arrived, strict=True)
        ]
        return window[scores.index(max(scores))][0]

    def _of(self, tenant: str) -> float:
        found = self._attained.get(tenant)
        if found is None:
            return 0.0
        half_life_s = self._parameters.las_half_life_seconds
        return found.tokens * 0.5 ** ((self._now_s - found.at_s) / half_life_s) if half_life_s else found.tokens

    def _charge(self, tenant: str, tokens: float) -> None:
        faded = self._of(tenant)
        found = self._attained.setdefault(tenant, _Attained())
        found.tokens, found.at_s = max(0.0, faded + tokens), self._now_s

    def _sweep(self) -> None:
        if self._now_s - self._swept_s < self._parameters.eviction_sweep_seconds and len(self._attained) <= _KEPT:
            return
        self._swept_s = self._now_s
        oldest_s = self._now_s - self._parameters.eviction_ttl_seconds
        self._attained = {tenant: each for tenant, each in self._attained.items() if each.at_s > oldest_s}
        if len(self._attained) > _KEPT:
            newest = sorted(self._attained.items(), key=lambda item: -item[1].at_s)
            self._attained = dict(newest[: _KEPT // 2])

    @staticmethod
    def _estimate(ticket: Ticket) -> float:
        return ticket.tokens + OUTPUT_WEIGHT * float(ticket.request.most_output_tokens or _ESTIMATED_OUTPUT)
