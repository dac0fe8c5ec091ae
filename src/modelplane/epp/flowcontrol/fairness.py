"""Fairness policies: which flow of a priority band is dispatched next.

A policy makes a queue for each band. Within a flow, items are dispatched in the order of their keys (`ordering`).

    Strict        one order over all flows: the lowest key
    RoundRobin    flows take turns, one request each
    TokenFair     flows get equal shares of tokens, or shares by weight, independent of request sizes
    LeastServed   the flow with the least attained service, weighed against how long it waits (`least_served`)

TokenFair is start-time fair queueing. A flow has a virtual time: the tokens charged to it over its weight. The lowest
is next, and one that comes back after a pause starts at the band's virtual time, so no flow saves up turns.
A request is charged an estimate when it is dispatched and the rest when its usage is known.
"""

from collections import deque
from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Annotated, Protocol, runtime_checkable

import msgspec

from modelplane.epp.flowcontrol.items import FlowItem
from modelplane.epp.flowcontrol.queues import FlowQueue, too_many
from modelplane.framework.registry import NoParameters, Parameters

_KEPT_TAGS = 1024
_MAX_TAGS = 50_000


class BandQueue(Protocol):
    """The queued items of one band."""

    def push(self, item: FlowItem, /) -> None: ...

    def pop(self, now_s: float, /) -> FlowItem | None:
        """The next to be dispatched; None: the queue is empty."""

    def removed(self, item: FlowItem, /) -> None:
        """An item of this queue got its final state while it was queued."""

    def record_usage(self, item: FlowItem, tokens: int, output_tokens: int, /) -> None:
        """The tokens of a dispatched request."""


@runtime_checkable
class FairnessPolicy(Protocol):
    @property
    def name(self) -> str: ...

    def new_queue(self) -> BandQueue: ...


class Strict:
    def __init__(self, name: str, _parameters: NoParameters | None = None) -> None:
        self.name = name

    def new_queue(self) -> BandQueue:
        return _StrictQueue()


class RoundRobin:
    def __init__(self, name: str, _parameters: NoParameters | None = None) -> None:
        self.name = name

    def new_queue(self) -> BandQueue:
        return _RoundRobinQueue()


class TokenFairParameters(Parameters, frozen=True):
    weights: Mapping[str, Annotated[float, msgspec.Meta(gt=0.0)]] = {}
    """Flows whose share is not 1, by fairness ID."""
    output_token_weight: Annotated[float, msgspec.Meta(ge=0.0)] = 2.0
    """The cost of an output token, relative to an input token."""
    estimated_output_tokens: Annotated[int, msgspec.Meta(ge=0)] = 256
    """Charged at dispatch where the request sets no maximum."""


class TokenFair:
    def __init__(self, name: str, parameters: TokenFairParameters | None = None) -> None:
        self.name = name
        self._parameters = parameters or TokenFairParameters()

    def new_queue(self) -> BandQueue:
        return _TokenFairQueue(self._parameters)


class _StrictQueue:
    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue = FlowQueue()

    def push(self, item: FlowItem) -> None:
        self._queue.push(item)

    def pop(self, _now_s: float) -> FlowItem | None:
        return self._queue.pop()

    def removed(self, _item: FlowItem) -> None:
        self._queue.removed()

    def record_usage(self, _item: FlowItem, _tokens: int, _output_tokens: int) -> None:
        pass


class _RoundRobinQueue:
    """`_turns` has each flow with a queue once; an empty one loses both when its turn comes."""

    __slots__ = ("_empty", "_queues", "_turns")

    def __init__(self) -> None:
        self._queues: dict[str, FlowQueue] = {}
        self._turns: deque[str] = deque()
        self._empty = 0

    def push(self, item: FlowItem) -> None:
        queue = self._queues.get(item.fairness_id)
        if queue is None:
            queue = self._queues[item.fairness_id] = FlowQueue()
            self._turns.append(item.fairness_id)
        elif not queue:
            self._empty -= 1
        queue.push(item)

    def pop(self, _now_s: float) -> FlowItem | None:
        turns = self._turns
        while turns:
            fairness_id = turns.popleft()
            queue = self._queues[fairness_id]
            item = queue.pop()
            if queue:
                turns.append(fairness_id)
            else:
                del self._queues[fairness_id]
            if item is not None:
                return item
            self._empty -= 1
        return None

    def removed(self, item: FlowItem) -> None:
        queue = self._queues.get(item.fairness_id)
        if queue is None:
            return
        queue.removed()
        self._empty += not queue
        if too_many(self._empty, len(self._queues)):
            self._queues = {fairness_id: queue for fairness_id, queue in self._queues.items() if queue}
            self._turns = deque(fairness_id for fairness_id in self._turns if fairness_id in self._queues)
            self._empty = 0

    def record_usage(self, _item: FlowItem, _tokens: int, _output_tokens: int) -> None:
        pass


class _Flow:
    """A flow with queued items. `start` is its virtual time."""

    __slots__ = ("queue", "start", "weight")

    def __init__(self, weight: float, start: float) -> None:
        self.weight = weight
        self.start = start
        self.queue = FlowQueue()


class _TokenFairQueue:
    """`_order` has each flow once, at its virtual time or, where that has grown since, earlier.

    `_tags` has the virtual times of flows without items, while they are ahead of the band's.
    """

    __slots__ = ("_empty", "_flows", "_order", "_parameters", "_pushes", "_sweep_tags_from", "_tags", "_time")

    def __init__(self, parameters: TokenFairParameters) -> None:
        self._parameters = parameters
        self._flows: dict[str, _Flow] = {}
        self._order: list[tuple[float, int, str]] = []
        self._tags: dict[str, float] = {}
        self._time = 0.0
        self._pushes = 0
        self._empty = 0
        self._sweep_tags_from = _KEPT_TAGS

    def push(self, item: FlowItem) -> None:
        flow = self._flows.get(item.fairness_id)
        if flow is None:
            start = max(self._time, self._tags.pop(item.fairness_id, 0.0))
            flow = self._flows[item.fairness_id] = _Flow(self._parameters.weights.get(item.fairness_id, 1.0), start)
            heappush(self._order, self._entry(item.fairness_id, start))
        elif not flow.queue:
            self._empty -= 1
        flow.queue.push(item)

    def pop(self, _now_s: float) -> FlowItem | None:
        order = self._order
        while order:
            at, _, name = order[0]
            flow = self._flows[name]
            if flow.start > at:
                heapreplace(order, self._entry(name, flow.start))
                continue
            item = flow.queue.pop()
            if item is None:
                heappop(order)
                self._empty -= 1
                self._leave(name, flow)
                continue
            self._time = max(self._time, at)
            flow.start = at + self._estimate(item) / flow.weight
            if flow.queue:
                heapreplace(order, self._entry(name, flow.start))
            else:
                heappop(order)
                self._leave(name, flow)
            return item
        return None

    def removed(self, item: FlowItem) -> None:
        """The flow keeps its place in the order, and leaves at its turn, or when many are empty."""
        flow = self._flows.get(item.fairness_id)
        if flow is None:
            return
        flow.queue.removed()
        self._empty += not flow.queue
        if too_many(self._empty, len(self._flows)):
            for name in [name for name, each in self._flows.items() if not each.queue]:
                self._leave(name, self._flows[name])
            self._order = [entry for entry in self._order if entry[2] in self._flows]
            heapify(self._order)
            self._empty = 0

    def record_usage(self, item: FlowItem, tokens: int, output_tokens: int) -> None:
        more = tokens + output_tokens * self._parameters.output_token_weight - self._estimate(item)
        flow = self._flows.get(item.fairness_id)
        weight = flow.weight if flow else self._parameters.weights.get(item.fairness_id, 1.0)
        if flow is not None:
            # Never back: the order would show the flow later than it is.
            flow.start += max(0.0, more) / weight
        elif (tag := self._tags.get(item.fairness_id, self._time) + more / weight) > self._time:
            self._tags[item.fairness_id] = tag

    def _estimate(self, item: FlowItem) -> float:
        output = item.request.max_output_tokens or self._parameters.estimated_output_tokens
        return max(1.0, item.tokens + output * self._parameters.output_token_weight)

    def _entry(self, name: str, start: float) -> tuple[float, int, str]:
        self._pushes += 1
        return start, self._pushes, name

    def _leave(self, name: str, flow: _Flow) -> None:
        del self._flows[name]
        if not self._flows:
            # No flow waits, so what flows used so far is settled.
            self._time = max(self._time, flow.start)
            self._tags.clear()
        elif flow.start > self._time:
            self._tags[name] = flow.start
        if len(self._tags) > self._sweep_tags_from:
            self._forget_tags()

    def _forget_tags(self) -> None:
        """Tags behind the band's time are dropped. Where too many are ahead, the nearer half is dropped too."""
        if len(self._tags) >= _MAX_TAGS:
            self._time = max(self._time, sorted(self._tags.values())[len(self._tags) // 2])
        self._tags = {each: tag for each, tag in self._tags.items() if tag > self._time}
        self._sweep_tags_from = min(_MAX_TAGS, max(_KEPT_TAGS, 2 * len(self._tags)))
