"""Whose turn it is among the tenants of one priority.

A policy makes a line for each band. A line takes tickets in and says which is next; inside one tenant's tickets the
order is that of their keys.

    Strict        one order over all tenants: the lowest key, whoever sent it
    RoundRobin    tenants that wait take turns, one request each
    TokenFair     tenants that wait get equal shares of tokens (or shares by weight), whatever their requests' sizes
    LeastServed   tenants that attained the least lately, with some regard to how long they wait (`least_served`)

TokenFair is start-time fair queueing. A tenant has a virtual time: the tokens charged to it over its weight. The tenant
with the lowest goes next, and one that comes back after a pause starts where the line is, so nobody saves up turns. A
request is charged an estimate when it is released and the rest when its usage is known.
"""

from collections import deque
from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Annotated, Protocol, runtime_checkable

import msgspec

from modelplane.epp.flowcontrol.queues import TicketQueue, too_many
from modelplane.epp.flowcontrol.tickets import Ticket
from modelplane.framework.registry import NoParameters, Parameters

_KEPT_TAGS = 1024
_MOST_TAGS = 50_000


class Line(Protocol):
    """The tickets of one band that wait."""

    def push(self, ticket: Ticket, /) -> None: ...

    def pop(self, now_s: float, /) -> Ticket | None:
        """The next to be released; None where nobody waits."""

    def died(self, ticket: Ticket, /) -> None:
        """A ticket of this line ended while it waited."""

    def used(self, ticket: Ticket, tokens: int, output_tokens: int, /) -> None:
        """What a released request came to."""


@runtime_checkable
class FairnessPolicy(Protocol):
    @property
    def name(self) -> str: ...

    def line(self) -> Line: ...


class Strict:
    def __init__(self, name: str, _parameters: NoParameters | None = None) -> None:
        self.name = name

    def line(self) -> Line:
        return _StrictLine()


class RoundRobin:
    def __init__(self, name: str, _parameters: NoParameters | None = None) -> None:
        self.name = name

    def line(self) -> Line:
        return _RoundRobinLine()


class TokenFairParameters(Parameters, frozen=True):
    weights: Mapping[str, Annotated[float, msgspec.Meta(gt=0.0)]] = {}
    """Tenants whose share differs from 1."""
    output_token_weight: Annotated[float, msgspec.Meta(ge=0.0)] = 2.0
    """What a token that is generated costs beside one that is read."""
    estimated_output_tokens: Annotated[int, msgspec.Meta(ge=0)] = 256
    """Charged at release where the request does not say how many it wants."""


class TokenFair:
    def __init__(self, name: str, parameters: TokenFairParameters | None = None) -> None:
        self.name = name
        self._parameters = parameters or TokenFairParameters()

    def line(self) -> Line:
        return _TokenFairLine(self._parameters)


class _StrictLine:
    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue = TicketQueue()

    def push(self, ticket: Ticket) -> None:
        self._queue.push(ticket)

    def pop(self, _now_s: float) -> Ticket | None:
        return self._queue.pop()

    def died(self, _ticket: Ticket) -> None:
        self._queue.died()

    def used(self, _ticket: Ticket, _tokens: int, _output_tokens: int) -> None:
        pass


class _RoundRobinLine:
    """`_turns` holds each tenant that has a queue once; one without tickets loses both when its turn comes."""

    __slots__ = ("_empty", "_queues", "_turns")

    def __init__(self) -> None:
        self._queues: dict[str, TicketQueue] = {}
        self._turns: deque[str] = deque()
        self._empty = 0

    def push(self, ticket: Ticket) -> None:
        queue = self._queues.get(ticket.tenant)
        if queue is None:
            queue = self._queues[ticket.tenant] = TicketQueue()
            self._turns.append(ticket.tenant)
        elif not queue:
            self._empty -= 1
        queue.push(ticket)

    def pop(self, _now_s: float) -> Ticket | None:
        turns = self._turns
        while turns:
            tenant = turns.popleft()
            queue = self._queues[tenant]
            ticket = queue.pop()
            if queue:
                turns.append(tenant)
            else:
                del self._queues[tenant]
            if ticket is not None:
                return ticket
            self._empty -= 1
        return None

    def died(self, ticket: Ticket) -> None:
        queue = self._queues.get(ticket.tenant)
        if queue is None:
            return
        queue.died()
        self._empty += not queue
        if too_many(self._empty, len(self._queues)):
            self._queues = {tenant: queue for tenant, queue in self._queues.items() if queue}
            self._turns = deque(tenant for tenant in self._turns if tenant in self._queues)
            self._empty = 0

    def used(self, _ticket: Ticket, _tokens: int, _output_tokens: int) -> None:
        pass


class _Tenant:
    """A tenant with tickets. `start` is its virtual time."""

    __slots__ = ("queue", "start", "weight")

    def __init__(self, weight: float, start: float) -> None:
        self.weight = weight
        self.start = start
        self.queue = TicketQueue()


class _TokenFairLine:
    """`_order` holds each waiting tenant once, at its virtual time or, where that has grown since, earlier.

    `_tags` keeps the virtual times of tenants that do not wait while they are ahead of the line's.
    """

    __slots__ = ("_empty", "_order", "_parameters", "_pushes", "_tags", "_tags_looked_at", "_tenants", "_time")

    def __init__(self, parameters: TokenFairParameters) -> None:
        self._parameters = parameters
        self._tenants: dict[str, _Tenant] = {}
        self._order: list[tuple[float, int, str]] = []
        self._tags: dict[str, float] = {}
        self._time = 0.0
        self._pushes = 0
        self._empty = 0
        self._tags_looked_at = _KEPT_TAGS

    def push(self, ticket: Ticket) -> None:
        tenant = self._tenants.get(ticket.tenant)
        if tenant is None:
            start = max(self._time, self._tags.pop(ticket.tenant, 0.0))
            tenant = self._tenants[ticket.tenant] = _Tenant(self._parameters.weights.get(ticket.tenant, 1.0), start)
            heappush(self._order, self._entry(ticket.tenant, start))
        elif not tenant.queue:
            self._empty -= 1
        tenant.queue.push(ticket)

    def pop(self, _now_s: float) -> Ticket | None:
        order = self._order
        while order:
            at, _, name = order[0]
            tenant = self._tenants[name]
            if tenant.start > at:
                heapreplace(order, self._entry(name, tenant.start))
                continue
            ticket = tenant.queue.pop()
            if ticket is None:
                heappop(order)
                self._empty -= 1
                self._leave(name, tenant)
                continue
            self._time = max(self._time, at)
            tenant.start = at + self._estimate(ticket) / tenant.weight
            if tenant.queue:
                heapreplace(order, self._entry(name, tenant.start))
            else:
                heappop(order)
                self._leave(name, tenant)
            return ticket
        return None

    def died(self, ticket: Ticket) -> None:
        """The tenant keeps its place in the order, and leaves when its turn finds nothing or when many are like it."""
        tenant = self._tenants.get(ticket.tenant)
        if tenant is None:
            return
        tenant.queue.died()
        self._empty += not tenant.queue
        if too_many(self._empty, len(self._tenants)):
            for name in [name for name, each in self._tenants.items() if not each.queue]:
                self._leave(name, self._tenants[name])
            self._order = [entry for entry in self._order if entry[2] in self._tenants]
            heapify(self._order)
            self._empty = 0

    def used(self, ticket: Ticket, tokens: int, output_tokens: int) -> None:
        more = tokens + output_tokens * self._parameters.output_token_weight - self._estimate(ticket)
        tenant = self._tenants.get(ticket.tenant)
        weight = tenant.weight if tenant else self._parameters.weights.get(ticket.tenant, 1.0)
        if tenant is not None:
            # Never back: the order would show the tenant later than it is.
            tenant.start += max(0.0, more) / weight
        elif (tag := self._tags.get(ticket.tenant, self._time) + more / weight) > self._time:
            self._tags[ticket.tenant] = tag

    def _estimate(self, ticket: Ticket) -> float:
        output = ticket.request.most_output_tokens or self._parameters.estimated_output_tokens
        return max(1.0, ticket.tokens + output * self._parameters.output_token_weight)

    def _entry(self, name: str, start: float) -> tuple[float, int, str]:
        self._pushes += 1
        return start, self._pushes, name

    def _leave(self, name: str, tenant: _Tenant) -> None:
        del self._tenants[name]
        if not self._tenants:
            # Nobody waits, so nobody was kept waiting: what tenants used up to here is settled.
            self._time = max(self._time, tenant.start)
            self._tags.clear()
        elif tenant.start > self._time:
            self._tags[name] = tenant.start
        if len(self._tags) > self._tags_looked_at:
            self._forget_tags()

    def _forget_tags(self) -> None:
        """Tags behind the line say nothing. Where too many are ahead, the nearer half is forgiven what it owes."""
        if len(self._tags) >= _MOST_TAGS:
            self._time = max(self._time, sorted(self._tags.values())[len(self._tags) // 2])
        self._tags = {each: tag for each, tag in self._tags.items() if tag > self._time}
        self._tags_looked_at = min(_MOST_TAGS, max(_KEPT_TAGS, 2 * len(self._tags)))
