"""The queue of one flow, in the order of keys. Items that ended elsewhere are skipped, and swept when many."""

from heapq import heapify, heappop, heappush

from modelplane.epp.flowcontrol.items import FlowItem

_SWEEP_FROM = 32


class FlowQueue:
    """The queued items of one flow, by their keys and then by arrival."""

    __slots__ = ("_dead", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, FlowItem]] = []
        self._dead = 0

    def __len__(self) -> int:
        """Queued items."""
        return len(self._heap) - self._dead

    def push(self, item: FlowItem) -> None:
        heappush(self._heap, (item.key, item.number, item))

    def pop(self) -> FlowItem | None:
        """The first queued item; None: the queue is empty."""
        heap = self._heap
        while heap:
            item = heappop(heap)[2]
            if item.final_state is None:
                return item
            self._dead -= 1
        return None

    def first(self) -> FlowItem | None:
        """The next item, without removing it."""
        heap = self._heap
        while heap and heap[0][2].final_state is not None:
            heappop(heap)
            self._dead -= 1
        return heap[0][2] if heap else None

    def removed(self) -> None:
        """An item of this queue has ended elsewhere."""
        self._dead += 1
        if too_many(self._dead, len(self._heap)):
            self._heap = [entry for entry in self._heap if entry[2].final_state is None]
            heapify(self._heap)
            self._dead = 0


def too_many(dead: int, entries: int) -> bool:
    """Whether to sweep: when more than half of the entries are dead, so sweeps cost O(1) per removed item."""
    return dead > _SWEEP_FROM and dead * 2 > entries
