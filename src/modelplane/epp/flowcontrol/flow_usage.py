"""The share of each flow in its band's queue, and the items that are displaced when the queue is full.

The last quarter of a queue is for flows that have less than an equal share of it: a request of another is refused at
once. When it is full all the same, a request of a flow with less in it displaces the newest requests of the flow with
most, as long as that flow keeps no less than the other gets. So a flow that is alone can fill a queue and cannot keep
others out; flows with equal usage do not displace each other. Without that quarter a place that became free went to
whoever came next, and one in twenty refusals was of a request that had been queued for a while.
"""

from collections.abc import Sequence

from modelplane.epp.flowcontrol.items import FlowItem


class FlowUsage:
    """Queued items by flow. The flow with most requests is found in constant time."""

    __slots__ = ("_by_count", "_bytes", "_items", "_max_requests")

    def __init__(self) -> None:
        self._items: dict[str, dict[int, FlowItem]] = {}
        self._bytes: dict[str, int] = {}
        self._by_count: dict[int, dict[str, None]] = {}
        self._max_requests = 0

    def add(self, item: FlowItem) -> None:
        usage = self._items.setdefault(item.fairness_id, {})
        usage[item.number] = item
        self._bytes[item.fairness_id] = self._bytes.get(item.fairness_id, 0) + item.size
        self._move(item.fairness_id, len(usage) - 1, len(usage))
        self._max_requests = max(self._max_requests, len(usage))

    def remove(self, item: FlowItem) -> None:
        fairness_id = item.fairness_id
        usage = self._items[fairness_id]
        del usage[item.number]
        self._bytes[fairness_id] -= item.size
        self._move(fairness_id, len(usage) + 1, len(usage))
        if not usage:
            del self._items[fairness_id], self._bytes[fairness_id]
        if self._max_requests not in self._by_count:
            # Counts change by one, so the flow with most has one less.
            self._max_requests -= 1

    def has_share(self, fairness_id: str, max_requests: int) -> bool:
        """Whether a flow has an equal share of so many, among the flows that are queued."""
        usage = self._items.get(fairness_id)
        return usage is not None and len(usage) >= max_requests // len(self._items)

    def displaced_by(self, newcomer: FlowItem, requests: int, size: int) -> Sequence[FlowItem]:
        """The items to end so that at least so many requests and bytes leave; none: the newcomer is rejected."""
        if not self._items:
            return ()
        by_bytes = requests <= 0
        fairness_id = (
            max(self._bytes, key=self._bytes.__getitem__)
            if by_bytes
            else next(iter(self._by_count[self._max_requests]))
        )
        if fairness_id == newcomer.fairness_id:
            return ()
        spare = self._spare_bytes(fairness_id, newcomer) if by_bytes else self._spare_requests(fairness_id, newcomer)
        leaving: list[FlowItem] = []
        freed = 0
        for item in reversed(self._items[fairness_id].values()):
            spare -= item.size if by_bytes else 1
            if spare < 0:
                break
            leaving.append(item)
            freed += item.size
            if len(leaving) >= requests and freed >= size:
                return leaving
        return ()

    def _spare_requests(self, fairness_id: str, newcomer: FlowItem) -> int:
        """How many it may lose before it has fewer than the newcomer's flow would."""
        return len(self._items[fairness_id]) - len(self._items.get(newcomer.fairness_id, ())) - 1

    def _spare_bytes(self, fairness_id: str, newcomer: FlowItem) -> int:
        return self._bytes[fairness_id] - self._bytes.get(newcomer.fairness_id, 0) - newcomer.size

    def _move(self, fairness_id: str, before: int, after: int) -> None:
        if before:
            there = self._by_count[before]
            del there[fairness_id]
            if not there:
                del self._by_count[before]
        if after:
            self._by_count.setdefault(after, {})[fairness_id] = None
