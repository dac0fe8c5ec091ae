"""Requests wait here while the pool is full, and leave in an order that is fair.

A state machine without clock or tasks. The caller offers requests, asks for releases when room may have come (an
arrival, a response that ended, a look at metrics), asks now and then what has expired, and tells when a client went
away. Every ticket ends exactly once:

    released      `dispatch`: to be scheduled next
    SATURATED     `offer`: its band, or all of them together, is full
    SATURATED     `displaced`: its band is full, and it gave way to a tenant who holds less of it (`holdings`)
    EXPIRED       `expire`: it waited too long for room
    NO_ENDPOINTS  `expire`: it waited too long for a first endpoint
    ABANDONED     `abandon`: its client went away
    STOPPING      `stop`, or offered after it

Bands are priorities. Higher ones go first. A band that has requests and whose ceiling the saturation has reached keeps
the bands below it from going too: a request that is let through below would take the room that the higher one waits
for.

While there is no endpoint nothing is released: requests wait for one to be started. The ordinary time to wait counts
from when endpoints came, so a pool that scales from zero does not lose those who waited for it.

A saturation that is not a number holds nobody back.
"""

from collections import OrderedDict
from collections.abc import Sequence

from modelplane.epp.flowcontrol.holdings import Holdings
from modelplane.epp.flowcontrol.settings import BandSettings, FlowSettings
from modelplane.epp.flowcontrol.tickets import Ticket, WaitOutcome
from modelplane.epp.scheduling.decisions import Outcome
from modelplane.epp.scheduling.requests import Request

IDLE_BAND_S = 600.0


class _Band:
    __slots__ = ("bytes", "held", "line", "ordering", "priority", "requests", "settings", "used_s")

    def __init__(self, priority: int, settings: BandSettings) -> None:
        self.priority = priority
        self.settings = settings
        self.ordering = settings.ordering
        self.line = settings.fairness.line()
        self.held = Holdings()
        self.requests = 0
        self.bytes = 0
        self.used_s = 0.0


class FlowControl:
    """See the module. Not for several threads."""

    def __init__(self, settings: FlowSettings | None = None) -> None:
        self._settings = settings or FlowSettings()
        self._waiting: OrderedDict[int, Ticket] = OrderedDict()
        self._bands: dict[int, _Band] = {}
        self._order: list[_Band] = []
        self._priorities: list[int] = []
        self._bytes = 0
        self._offered = 0
        self._displaced: list[Ticket] = []
        self._stopped = False
        self._had_endpoints = True
        self._filled_s = float("-inf")
        for priority in self._settings.bands:
            self._add_band(priority)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def waiting_bytes(self) -> int:
        return self._bytes

    @property
    def bands(self) -> Sequence[tuple[int, int, int]]:
        """Each band's priority, requests and bytes that wait, highest first."""
        return [(band.priority, band.requests, band.bytes) for band in self._order]

    @property
    def fullness(self) -> dict[str, tuple[float, float]]:
        """For each priority the shares of its limits that are taken, by requests and by bytes; "" is all together."""
        settings = self._settings
        found = {"": (_share(len(self._waiting), settings.most_requests), _share(self._bytes, settings.most_bytes))}
        for band in self._order:
            limits = band.settings
            taken = _share(band.requests, limits.most_requests), _share(band.bytes, limits.most_bytes)
            found[str(band.priority)] = taken
        return found

    def offer(self, request: Request, now_s: float) -> Ticket:
        """The ticket, which waits or, where there is no room, has ended."""
        self._offered += 1
        ticket = Ticket(self._offered, request, now_s)
        if self._stopped:
            ticket.ending = WaitOutcome(Outcome.STOPPING, 0.0, "the picker is stopping")
            return ticket
        band = self._bands.get(ticket.priority) or self._add_band(ticket.priority)
        band.used_s = now_s
        full = self._full(band, ticket.size)
        if full and not self._make_way(band, ticket):
            ticket.ending = WaitOutcome(Outcome.SATURATED, 0.0, full)
            return ticket
        ticket.key = band.ordering.order(ticket, self._settings.ttl_s)
        self._waiting[ticket.number] = ticket
        band.requests += 1
        band.bytes += ticket.size
        self._bytes += ticket.size
        band.line.push(ticket)
        band.held.add(ticket)
        return ticket

    def displaced(self) -> list[Ticket]:
        """Those that had to give way to what was offered since this was asked last."""
        displaced, self._displaced = self._displaced, []
        return displaced

    def dispatch(self, now_s: float, saturation: float, endpoints: int) -> Ticket | None:
        """Releases the next request that may go; None: none may. Asked again until then, as long as there is room."""
        self._see(now_s, endpoints)
        if not endpoints or not self._waiting:
            return None
        ceilings = self._settings.usage.ceilings(self._priorities, saturation)
        for band, ceiling in zip(self._order, ceilings, strict=True):
            if not band.requests:
                continue
            if saturation >= ceiling:
                return None
            ticket = band.line.pop(now_s)
            if ticket is not None:
                self._end(ticket, band, WaitOutcome(None, now_s - ticket.arrived_s))
            return ticket
        return None

    @property
    def next_up(self) -> int | None:
        """The highest priority that waits."""
        return next((band.priority for band in self._order if band.requests), None)

    def expire(self, now_s: float, endpoints: int) -> list[Ticket]:
        """Those that have waited too long, and end with it."""
        self._see(now_s, endpoints)
        expired: list[Ticket] = []
        while self._waiting:
            ticket = next(iter(self._waiting.values()))
            if not self._is_due(ticket, now_s):
                break
            waited_s = now_s - ticket.arrived_s
            if endpoints:
                ending = WaitOutcome(Outcome.EXPIRED, waited_s, f"waited {waited_s:.1f} s for room")
            else:
                ending = WaitOutcome(Outcome.NO_ENDPOINTS, waited_s, f"waited {waited_s:.1f} s for an endpoint")
            self._drop(ticket, ending)
            expired.append(ticket)
        self._drop_idle_bands(now_s)
        return expired

    def abandon(self, ticket: Ticket, now_s: float) -> bool:
        """The client went away. Whether the ticket was still waiting; if not, it has ended before."""
        if ticket.ending is not None:
            return False
        self._drop(ticket, WaitOutcome(Outcome.ABANDONED, now_s - ticket.arrived_s, "the client went away"))
        return True

    def stop(self, now_s: float) -> list[Ticket]:
        """Ends all that wait, and every request that comes later."""
        self._stopped = True
        left = list(self._waiting.values())
        for ticket in left:
            self._drop(ticket, WaitOutcome(Outcome.STOPPING, now_s - ticket.arrived_s, "the picker is stopping"))
        return left

    def used(self, ticket: Ticket, prompt_tokens: int, output_tokens: int) -> None:
        """What a released request came to, for policies that share by what is used."""
        band = self._bands.get(ticket.priority)
        if band is not None:
            band.line.used(ticket, prompt_tokens, output_tokens)

    def _full(self, band: _Band, size: int) -> str:
        """Which limit another request of this size would break; empty: none."""
        settings, limits = self._settings, band.settings
        if limits.most_requests and band.requests >= limits.most_requests:
            return f"{band.requests} requests of priority {band.priority} wait already"
        if limits.most_bytes and band.bytes + size > limits.most_bytes:
            return f"requests of priority {band.priority} that wait hold {band.bytes} bytes already"
        if settings.most_requests and len(self._waiting) >= settings.most_requests:
            return f"{len(self._waiting)} requests wait already"
        if settings.most_bytes and self._bytes + size > settings.most_bytes:
            return f"requests that wait hold {self._bytes} bytes already"
        return ""

    def _make_way(self, band: _Band, ticket: Ticket) -> bool:
        settings, limits = self._settings, band.settings
        requests = max(
            _over(band.requests + 1, limits.most_requests), _over(len(self._waiting) + 1, settings.most_requests)
        )
        size = max(
            _over(band.bytes + ticket.size, limits.most_bytes), _over(self._bytes + ticket.size, settings.most_bytes)
        )
        leaving = band.held.giving_way(ticket, requests, size)
        for each in leaving:
            waited_s = ticket.arrived_s - each.arrived_s
            why = f"tenant {each.tenant!r} holds most of the queue of priority {band.priority}, which is full"
            self._drop(each, WaitOutcome(Outcome.SATURATED, waited_s, why))
        self._displaced += leaving
        return bool(leaving)

    def _is_due(self, ticket: Ticket, now_s: float) -> bool:
        ttl_s, no_endpoint_ttl_s = self._settings.ttl_s, self._settings.no_endpoint_ttl_s
        if not self._had_endpoints:
            return bool(no_endpoint_ttl_s) and now_s >= ticket.arrived_s + no_endpoint_ttl_s
        if not ttl_s:
            return False
        # Endpoints that come and go must not let anybody wait for ever.
        latest_s = ticket.arrived_s + no_endpoint_ttl_s if no_endpoint_ttl_s else now_s
        return now_s >= max(ticket.arrived_s, min(self._filled_s, latest_s)) + ttl_s

    def _see(self, now_s: float, endpoints: int) -> None:
        if endpoints and not self._had_endpoints:
            self._filled_s = now_s
        self._had_endpoints = endpoints > 0

    def _drop(self, ticket: Ticket, ending: WaitOutcome) -> None:
        band = self._bands[ticket.priority]
        self._end(ticket, band, ending)
        band.line.died(ticket)

    def _end(self, ticket: Ticket, band: _Band, ending: WaitOutcome) -> None:
        ticket.ending = ending
        band.held.remove(ticket)
        del self._waiting[ticket.number]
        band.requests -= 1
        band.bytes -= ticket.size
        self._bytes -= ticket.size

    def _add_band(self, priority: int) -> _Band:
        band = self._bands[priority] = _Band(priority, self._settings.band(priority))
        self._reorder()
        return band

    def _drop_idle_bands(self, now_s: float) -> None:
        idle = [
            priority
            for priority, band in self._bands.items()
            if priority not in self._settings.bands and not band.requests and now_s - band.used_s > IDLE_BAND_S
        ]
        for priority in idle:
            del self._bands[priority]
        if idle:
            self._reorder()

    def _reorder(self) -> None:
        self._order = sorted(self._bands.values(), key=lambda band: -band.priority)
        self._priorities = [band.priority for band in self._order]


def _over(wanted: int, most: int) -> int:
    """By how much it is above the limit, of which 0 is none."""
    return max(0, wanted - most) if most else 0


def _share(taken: int, most: int) -> float:
    return taken / most if most else 0.0
