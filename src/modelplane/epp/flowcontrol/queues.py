"""A queue of tickets in the order of their keys. Tickets that ended elsewhere are skipped, and swept when many."""

from heapq import heapify, heappop, heappush

from modelplane.epp.flowcontrol.tickets import Ticket

_SWEEP_FROM = 32


class TicketQueue:
    __slots__ = ("_dead", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Ticket]] = []
        self._dead = 0

    def __len__(self) -> int:
        """Tickets that wait."""
        return len(self._heap) - self._dead

    def push(self, ticket: Ticket) -> None:
        heappush(self._heap, (ticket.key, ticket.number, ticket))

    def pop(self) -> Ticket | None:
        """The first that still waits; None if there is none."""
        heap = self._heap
        while heap:
            ticket = heappop(heap)[2]
            if ticket.ending is None:
                return ticket
            self._dead -= 1
        return None

    def first(self) -> Ticket | None:
        """What `pop` would give, left in place."""
        heap = self._heap
        while heap and heap[0][2].ending is not None:
            heappop(heap)
            self._dead -= 1
        return heap[0][2] if heap else None

    def died(self) -> None:
        """A ticket of this queue has ended elsewhere."""
        self._dead += 1
        if too_many(self._dead, len(self._heap)):
            self._heap = [entry for entry in self._heap if entry[2].ending is None]
            heapify(self._heap)
            self._dead = 0


def too_many(dead: int, entries: int) -> bool:
    """Whether to sweep: each sweep is paid by as many deaths as it looks at entries, half of them."""
    return dead > _SWEEP_FROM and dead * 2 > entries
