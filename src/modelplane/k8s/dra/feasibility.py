"""A quick proof that nothing fits, for searches that take long.

Every solution gives each request its number of distinct devices out of those that suit it, and no whole device to
two requests. Leaving out constraints, counters and amounts, that is a matching; where even the matching does not
exist, neither does a solution, and the search may stop.

The proof may only replace the search if the search could not have ended in an error instead. Requests are checked in
the order of the search, and it is enough that the first few of them cannot be served together: then no later request is
reached. If a selector fails on a device, or a request for all devices has a constraint, the proof stops there.
"""

from collections.abc import Iterator

from modelplane.k8s.dra.allocation_state import AllocationState
from modelplane.k8s.dra.nodes import UnreadableSelector
from modelplane.k8s.dra.plan import Aborted, AllocationPlan, RequestPlan, SubRequestPlan, Wanted, count_of

_MAX_DEMANDS = 500


def is_hopeless(plan: AllocationPlan, state: AllocationState, wanted: Wanted) -> bool:
    """Whether it is certain that the search will find no solution and meet no error."""
    matching = _Matching()
    try:
        for request in _certain_requests(plan):
            count, devices = _demand(request, state, wanted)
            if request.subrequests[0].admin_access:
                continue
            exclusive = frozenset(index for index in devices if not state.candidates[index].offer.shareable)
            needed = count - (len(devices) - len(exclusive))
            if count > len(devices) or not all(matching.add(exclusive) for _ in range(needed)):
                return True
            if matching.size > _MAX_DEMANDS:
                return False
    except (Aborted, UnreadableSelector):
        return False
    return False


def _certain_requests(plan: AllocationPlan) -> Iterator[RequestPlan]:
    """Requests in search order, up to the first that could end the search with an error of its own."""
    for claim in plan.claims:
        for request in claim.requests:
            if claim.constraints and any(subrequest.wants_all for subrequest in request.subrequests):
                return
            yield request


def _suitable(subrequest: SubRequestPlan, state: AllocationState, wanted: int | tuple[int, ...]) -> frozenset[int]:
    if not isinstance(wanted, int):
        return frozenset(wanted)
    return frozenset(index for index in range(len(state.candidates)) if state.could_serve(subrequest, index))


def _demand(request: RequestPlan, state: AllocationState, wanted: Wanted) -> tuple[int, frozenset[int]]:
    """The minimum number of devices of the request, and their candidates, over all alternatives."""
    smallest = min(count_of(wanted[subrequest.index]) for subrequest in request.subrequests)
    devices = (_suitable(subrequest, state, wanted[subrequest.index]) for subrequest in request.subrequests)
    return smallest, frozenset().union(*devices)


class _Matching:
    """Demands that each have a device of their own, grown by shortest augmenting paths."""

    def __init__(self) -> None:
        self._demands: list[frozenset[int]] = []
        self._device_of: list[int | None] = []
        self._owner: dict[int, int] = {}

    @property
    def size(self) -> int:
        return len(self._demands)

    def add(self, devices: frozenset[int]) -> bool:
        """Serve one more demand, moving others as needed; False where that is impossible."""
        self._demands.append(devices)
        self._device_of.append(None)
        reached_from: dict[int, int] = {}
        waiting = [len(self._demands) - 1]
        for demand in waiting:
            for device in self._demands[demand] - reached_from.keys():
                reached_from[device] = demand
                if device not in self._owner:
                    self._move(device, reached_from)
                    return True
                waiting.append(self._owner[device])
        return False

    def _move(self, device: int, reached_from: dict[int, int]) -> None:
        """Give the free device to the demand that reached it, and what that one had to the demand before it."""
        free: int | None = device
        while free is not None:
            demand = reached_from[free]
            self._owner[free] = demand
            self._device_of[demand], free = free, self._device_of[demand]
