"""The state machine of flow control, without clock or tasks.

The caller enqueues requests, calls `dispatch` when capacity may have come (a request, a completed response, a scrape),
calls `expire` now and then, and `abandon` when a client disconnects. Every item gets exactly one final state:

    dispatched    `dispatch`: to be scheduled next
    SATURATED     `enqueue`: the queue of its band, or of all bands together, is full
    SATURATED     `enqueue`: the queue of its band is nearly full, and its flow has its share of it (`flow_usage`)
    SATURATED     `enqueue`: the last of its band expired, and those that are queued are enough to see when that ends
    SATURATED     `displaced`: the queue is full, and a request of a flow with fewer in it took its place (`flow_usage`)
    EXPIRED       `expire`: the pool stayed saturated for its TTL
    NO_ENDPOINTS  `expire`: the pool had no endpoint for its TTL
    ABANDONED     `abandon`: the client disconnected
    STOPPING      `stop`, or enqueued after it

Higher priority bands are dispatched first. A band with requests whose usage limit the saturation has reached also stops
the bands below it: a request dispatched from below would take the capacity that the higher one waits for.

Nothing is dispatched while the pool has no endpoints. The TTL then counts from when endpoints came, so a pool that
scales from zero does not lose the requests that waited for it.

A saturation of NaN stops no request.
"""

from collections import OrderedDict
from collections.abc import Sequence

from modelplane.epp.flowcontrol.flow_usage import FlowUsage
from modelplane.epp.flowcontrol.items import FlowItem, QueueOutcome
from modelplane.epp.flowcontrol.settings import BandSettings, FlowSettings
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request

IDLE_BAND_S = 600.0


class _Band:
    __slots__ = ("bytes", "is_starved", "ordering", "priority", "queue", "requests", "settings", "usage", "used_s")

    def __init__(self, priority: int, settings: BandSettings) -> None:
        self.priority = priority
        self.settings = settings
        self.ordering = settings.ordering
        self.queue = settings.fairness.new_queue()
        self.usage = FlowUsage()
        self.requests = 0
        self.bytes = 0
        self.used_s = 0.0
        self.is_starved = False
        """A request expired, and none was dispatched since."""


class FlowControl:
    """See the module. Not for several threads."""

    def __init__(self, settings: FlowSettings | None = None) -> None:
        self._settings = settings or FlowSettings()
        self._waiting: OrderedDict[int, FlowItem] = OrderedDict()
        self._bands: dict[int, _Band] = {}
        self._order: list[_Band] = []
        self._priorities: list[int] = []
        self._bytes = 0
        self._offered = 0
        self._displaced: list[FlowItem] = []
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
        """For each priority the shares of its limits in use, by requests and by bytes; "" is all bands together."""
        settings = self._settings
        found = {"": (_share(len(self._waiting), settings.max_requests), _share(self._bytes, settings.max_bytes))}
        for band in self._order:
            limits = band.settings
            taken = _share(band.requests, limits.max_requests), _share(band.bytes, limits.max_bytes)
            found[str(band.priority)] = taken
        return found

    def enqueue(self, request: Request, now_s: float) -> FlowItem:
        """The queued item; where the queue is full, it has its final state."""
        self._offered += 1
        item = FlowItem(self._offered, request, now_s)
        if self._stopped:
            item.final_state = QueueOutcome(Outcome.STOPPING, 0.0, "the picker is stopping")
            return item
        band = self._bands.get(item.priority) or self._add_band(item.priority)
        band.used_s = now_s
        refusal = _starves(band) or self._refusal(band, item)
        if refusal:
            item.final_state = QueueOutcome(Outcome.SATURATED, 0.0, refusal)
            return item
        item.key = band.ordering.order(item, self._settings.ttl_s)
        self._waiting[item.number] = item
        band.requests += 1
        band.bytes += item.size
        self._bytes += item.size
        band.queue.push(item)
        band.usage.add(item)
        return item

    def displaced(self) -> list[FlowItem]:
        """Items that were displaced by others since the last call."""
        displaced, self._displaced = self._displaced, []
        return displaced

    def dispatch(self, now_s: float, saturation: float, endpoints: int) -> FlowItem | None:
        """Dispatches the next request; None: none may be dispatched. Called again until then."""
        self._observe_endpoints(now_s, endpoints)
        if not endpoints or not self._waiting:
            return None
        ceilings = self._settings.usage.ceilings(self._priorities, saturation)
        for band, ceiling in zip(self._order, ceilings, strict=True):
            if not band.requests:
                continue
            if saturation >= ceiling:
                return None
            item = band.queue.pop(now_s)
            if item is not None:
                band.is_starved = False
                self._end(item, band, QueueOutcome(None, now_s - item.arrived_s))
            return item
        return None

    @property
    def next_up(self) -> int | None:
        """The highest priority with queued requests."""
        return next((band.priority for band in self._order if band.requests), None)

    def expire(self, now_s: float, endpoints: int) -> list[FlowItem]:
        """Items whose TTL has expired."""
        self._observe_endpoints(now_s, endpoints)
        expired: list[FlowItem] = []
        while self._waiting:
            item = next(iter(self._waiting.values()))
            if not self._is_due(item, now_s):
                break
            waited_s = now_s - item.arrived_s
            if endpoints:
                self._bands[item.priority].is_starved = True
                final_state = QueueOutcome(Outcome.EXPIRED, waited_s, f"the pool was saturated for {waited_s:.1f} s")
            else:
                final_state = QueueOutcome(
                    Outcome.NO_ENDPOINTS, waited_s, f"the pool had no endpoint for {waited_s:.1f} s"
                )
            self._drop(item, final_state)
            expired.append(item)
        self._drop_idle_bands(now_s)
        return expired

    def abandon(self, item: FlowItem, now_s: float) -> bool:
        """The client disconnected. Whether the item was still queued."""
        if item.final_state is not None:
            return False
        self._drop(item, QueueOutcome(Outcome.ABANDONED, now_s - item.arrived_s, "the client disconnected"))
        return True

    def stop(self, now_s: float) -> list[FlowItem]:
        """Ends all queued items, and every one enqueued later."""
        self._stopped = True
        left = list(self._waiting.values())
        for item in left:
            self._drop(item, QueueOutcome(Outcome.STOPPING, now_s - item.arrived_s, "the picker is stopping"))
        return left

    def record_usage(self, item: FlowItem, prompt_tokens: int, output_tokens: int) -> None:
        """The tokens of a dispatched request, for fairness policies that share by them."""
        band = self._bands.get(item.priority)
        if band is not None:
            band.queue.record_usage(item, prompt_tokens, output_tokens)

    def _refusal(self, band: _Band, item: FlowItem) -> str:
        """Why it is not queued; empty: it is, in the place of others where the queue is full."""
        full = self._full(band, item.size)
        if not full:
            return _has_share(band, item.fairness_id)
        return "" if self._displace(band, item) else full

    def _full(self, band: _Band, size: int) -> str:
        """Which limit one more request of this size would exceed; empty: none."""
        settings, limits = self._settings, band.settings
        if limits.max_requests and band.requests >= limits.max_requests:
            return f"{band.requests} of {limits.max_requests} requests are queued at priority {band.priority}"
        if limits.max_bytes and band.bytes + size > limits.max_bytes:
            return f"{band.bytes} of {limits.max_bytes} bytes are queued at priority {band.priority}"
        if settings.max_requests and len(self._waiting) >= settings.max_requests:
            return f"{len(self._waiting)} of {settings.max_requests} requests are queued"
        if settings.max_bytes and self._bytes + size > settings.max_bytes:
            return f"{self._bytes} of {settings.max_bytes} bytes are queued"
        return ""

    def _displace(self, band: _Band, item: FlowItem) -> bool:
        settings, limits = self._settings, band.settings
        requests = max(
            _over(band.requests + 1, limits.max_requests), _over(len(self._waiting) + 1, settings.max_requests)
        )
        size = max(_over(band.bytes + item.size, limits.max_bytes), _over(self._bytes + item.size, settings.max_bytes))
        leaving = band.usage.displaced_by(item, requests, size)
        for each in leaving:
            waited_s = item.arrived_s - each.arrived_s
            why = f"the queue of priority {band.priority} is full and flow {each.fairness_id!r} has most of it"
            self._drop(each, QueueOutcome(Outcome.SATURATED, waited_s, why))
        self._displaced += leaving
        return bool(leaving)

    def _is_due(self, item: FlowItem, now_s: float) -> bool:
        ttl_s, no_endpoint_ttl_s = self._settings.ttl_s, self._settings.no_endpoint_ttl_s
        if not self._had_endpoints:
            return bool(no_endpoint_ttl_s) and now_s >= item.arrived_s + no_endpoint_ttl_s
        if not ttl_s:
            return False
        # Changing endpoints must not keep a request queued for ever.
        latest_s = item.arrived_s + no_endpoint_ttl_s if no_endpoint_ttl_s else now_s
        return now_s >= max(item.arrived_s, min(self._filled_s, latest_s)) + ttl_s

    def _observe_endpoints(self, now_s: float, endpoints: int) -> None:
        if endpoints and not self._had_endpoints:
            self._filled_s = now_s
        self._had_endpoints = endpoints > 0

    def _drop(self, item: FlowItem, final_state: QueueOutcome) -> None:
        band = self._bands[item.priority]
        self._end(item, band, final_state)
        band.queue.removed(item)

    def _end(self, item: FlowItem, band: _Band, final_state: QueueOutcome) -> None:
        item.final_state = final_state
        band.usage.remove(item)
        del self._waiting[item.number]
        band.requests -= 1
        band.bytes -= item.size
        self._bytes -= item.size

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


def _starves(band: _Band) -> str:
    """Why a request would expire as those before it; empty: it need not. A few are queued, to see when that ends."""
    if not band.is_starved or not band.settings.max_requests or band.requests * 8 < band.settings.max_requests:
        return ""
    return f"requests of priority {band.priority} expired, and none was dispatched since"


def _has_share(band: _Band, fairness_id: str) -> str:
    """Why a request must leave the rest of a queue that is nearly full to other flows; empty: it need not."""
    most = band.settings.max_requests
    if not most or band.requests * 4 < most * 3 or not band.usage.has_share(fairness_id, most):
        return ""
    return f"flow {fairness_id!r} has its share of the {most} requests that are queued at priority {band.priority}"


def _over(wanted: int, most: int) -> int:
    """By how much it is above the limit, of which 0 is none."""
    return max(0, wanted - most) if most else 0


def _share(taken: int, most: int) -> float:
    return taken / most if most else 0.0
