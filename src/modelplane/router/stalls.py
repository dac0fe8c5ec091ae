"""Finds endpoints that are silent: requests that were sent on and got no response within their service's idle time.

Checked every half second, so a stall is found that much late at most. The response's headers end the watch: a stream
that pauses later is Envoy's to cut.
"""

from modelplane.router.front_values import RoutedTo, StalledCall


class Stalls:
    """The calls that wait for a response, each with the time by which it has to come."""

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due: dict[StalledCall, float] = {}

    def __len__(self) -> int:
        return len(self._due)

    def sent(self, call: StalledCall, routed: RoutedTo, now_s: float) -> None:
        idle_s = routed.request.service.plan.timeouts.idle_s
        if idle_s > 0.0:
            self._due[call] = now_s + idle_s

    def ended(self, call: StalledCall) -> None:
        self._due.pop(call, None)

    def sweep(self, now_s: float) -> int:
        """End the calls that are due; how many."""
        due = [call for call, by_s in self._due.items() if by_s <= now_s]
        for call in due:
            self._due.pop(call, None)
            call.stalled()
        return len(due)
