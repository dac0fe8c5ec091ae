"""What each tenant holds of a band's queue, and who gives way where it is full.

A queue is bounded, and shared by whoever comes: no part of it stands empty for tenants who are not there. When it is
full, a request of a tenant who holds less takes the place of the newest requests of the tenant who holds most, as long
as that one is left with no less than the newcomer gets. So one tenant can fill a queue, and cannot keep others out of
it; tenants who hold as much as each other do not push each other out.
"""

from collections.abc import Sequence

from modelplane.epp.flowcontrol.tickets import Ticket


class Holdings:
    """Tickets that wait, by tenant. Whoever holds most requests is found at once, however many tenants there are."""

    __slots__ = ("_by_count", "_bytes", "_most", "_tickets")

    def __init__(self) -> None:
        self._tickets: dict[str, dict[int, Ticket]] = {}
        self._bytes: dict[str, int] = {}
        self._by_count: dict[int, dict[str, None]] = {}
        self._most = 0

    def add(self, ticket: Ticket) -> None:
        held = self._tickets.setdefault(ticket.tenant, {})
        held[ticket.number] = ticket
        self._bytes[ticket.tenant] = self._bytes.get(ticket.tenant, 0) + ticket.size
        self._move(ticket.tenant, len(held) - 1, len(held))
        self._most = max(self._most, len(held))

    def remove(self, ticket: Ticket) -> None:
        tenant = ticket.tenant
        held = self._tickets[tenant]
        del held[ticket.number]
        self._bytes[tenant] -= ticket.size
        self._move(tenant, len(held) + 1, len(held))
        if not held:
            del self._tickets[tenant], self._bytes[tenant]
        if self._most not in self._by_count:
            # Counts change by one, so whoever held most holds one less.
            self._most -= 1

    def giving_way(self, newcomer: Ticket, requests: int, size: int) -> Sequence[Ticket]:
        """Those to end so that at least so many requests and bytes leave for the newcomer; none: it has to go."""
        if not self._tickets:
            return ()
        by_bytes = requests <= 0
        tenant = max(self._bytes, key=self._bytes.__getitem__) if by_bytes else next(iter(self._by_count[self._most]))
        if tenant == newcomer.tenant:
            return ()
        spare = self._spare_bytes(tenant, newcomer) if by_bytes else self._spare_requests(tenant, newcomer)
        leaving: list[Ticket] = []
        freed = 0
        for ticket in reversed(self._tickets[tenant].values()):
            spare -= ticket.size if by_bytes else 1
            if spare < 0:
                break
            leaving.append(ticket)
            freed += ticket.size
            if len(leaving) >= requests and freed >= size:
                return leaving
        return ()

    def _spare_requests(self, tenant: str, newcomer: Ticket) -> int:
        """How many it may lose before it holds less than the newcomer's tenant would."""
        return len(self._tickets[tenant]) - len(self._tickets.get(newcomer.tenant, ())) - 1

    def _spare_bytes(self, tenant: str, newcomer: Ticket) -> int:
        return self._bytes[tenant] - self._bytes.get(newcomer.tenant, 0) - newcomer.size

    def _move(self, tenant: str, before: int, after: int) -> None:
        if before:
            there = self._by_count[before]
            del there[tenant]
            if not there:
                del self._by_count[before]
        if after:
            self._by_count.setdefault(after, {})[tenant] = None
