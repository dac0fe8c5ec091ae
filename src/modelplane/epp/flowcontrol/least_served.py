"""The fairness policy by attained service: the flow that attained the least is dispatched next.

Attained service is tokens, those generated counting twice, and decays with a half-life. A flow's score is the weighted
sum of how little it attained and how long its first request waits, both relative to the others. A request is charged an
estimate when it is dispatched and the rest when its usage is known.

Up to 64 flows are all compared. Of more, a window of 64 is compared and moves to the end of the row, so the cost of a
dispatch is bounded.
"""

from collections import deque
from typing import Annotated, Literal

import msgspec

from modelplane.epp.flowcontrol.items import FlowItem
from modelplane.epp.flowcontrol.queues import FlowQueue, too_many
from modelplane.framework.registry import Parameters

WINDOW = 64
OUTPUT_WEIGHT = 2
_ESTIMATED_OUTPUT = 256
_KEPT = 10_000

NotNegative = Annotated[float, msgspec.Meta(ge=0.0)]
Positive = Annotated[float, msgspec.Meta(gt=0.0)]


class LeastServedParameters(Parameters, frozen=True):
    strategy: Literal["las"] = "las"
    las_weight_service: NotNegative = 0.8
    las_weight_head_wait: NotNegative = 0.2
    las_half_life_seconds: NotNegative = 60.0
    """0: attained service never decays."""
    eviction_ttl_seconds: Positive = 3600.0
    """A flow that was not served for so long starts from 0."""
    eviction_sweep_seconds: Positive = 300.0


class LeastServed:
    def __init__(self, name: str, parameters: LeastServedParameters | None = None) -> None:
        self.name = name
        self._parameters = parameters or LeastServedParameters()

    def new_queue(self) -> "LeastServedQueue":
        return LeastServedQueue(self._parameters)


class _Attained:
    __slots__ = ("at_s", "tokens")

    def __init__(self) -> None:
        self.tokens = 0.0
        self.at_s = 0.0


class LeastServedQueue:
    """`_row` has each flow with a queue once; an empty one loses both when its turn comes."""

    __slots__ = ("_attained", "_empty", "_now_s", "_parameters", "_queues", "_row", "_swept_s")

    def __init__(self, parameters: LeastServedParameters) -> None:
        self._parameters = parameters
        self._queues: dict[str, FlowQueue] = {}
        self._row: deque[str] = deque()
        self._attained: dict[str, _Attained] = {}
        self._empty = 0
        self._now_s = 0.0
        self._swept_s = 0.0

    def push(self, item: FlowItem) -> None:
        queue = self._queues.get(item.fairness_id)
        if queue is None:
            queue = self._queues[item.fairness_id] = FlowQueue()
            self._row.append(item.fairness_id)
        elif not queue:
            self._empty -= 1
        queue.push(item)

    def pop(self, now_s: float) -> FlowItem | None:
        self._now_s = max(self._now_s, now_s)
        best = self._best(self._window())
        if best is None:
            return None
        item = self._queues[best].pop()
        if not self._queues[best]:
            self._empty += 1
        if item is not None:
            self._charge(best, self._estimate(item))
        self._sweep()
        return item

    def removed(self, item: FlowItem) -> None:
        queue = self._queues.get(item.fairness_id)
        if queue is None:
            return
        queue.removed()
        self._empty += not queue
        if too_many(self._empty, len(self._queues)):
            self._queues = {fairness_id: queue for fairness_id, queue in self._queues.items() if queue}
            self._row = deque(fairness_id for fairness_id in self._row if fairness_id in self._queues)
            self._empty = 0

    def record_usage(self, item: FlowItem, tokens: int, output_tokens: int) -> None:
        self._charge(item.fairness_id, tokens + OUTPUT_WEIGHT * output_tokens - self._estimate(item))

    def _window(self) -> list[tuple[str, FlowItem]]:
        """The next flows, each with its first item; they move to the end of the row."""
        found: list[tuple[str, FlowItem]] = []
        for _ in range(len(self._row)):
            fairness_id = self._row.popleft()
            first = self._queues[fairness_id].first()
            if first is None:
                del self._queues[fairness_id]
                self._empty -= 1
                continue
            self._row.append(fairness_id)
            found.append((fairness_id, first))
            if len(found) == WINDOW:
                break
        return found

    def _best(self, window: list[tuple[str, FlowItem]]) -> str | None:
        if not window:
            return None
        attained = [self._of(fairness_id) for fairness_id, _ in window]
        arrived = [first.arrived_s for _, first in window]
        least, spread = min(attained), max(attained) - min(attained)
        latest, longest = max(arrived), max(arrived) - min(arrived)
        service, wait = self._parameters.las_weight_service, self._parameters.las_weight_head_wait
        scores = [
            service * (1.0 - (tokens - least) / spread if spread else 1.0)
            + wait * ((latest - at) / longest if longest else 0.0)
            for tokens, at in zip(attained, arrived, strict=True)
        ]
        return window[scores.index(max(scores))][0]

    def _of(self, fairness_id: str) -> float:
        found = self._attained.get(fairness_id)
        if found is None:
            return 0.0
        half_life_s = self._parameters.las_half_life_seconds
        return found.tokens * 0.5 ** ((self._now_s - found.at_s) / half_life_s) if half_life_s else found.tokens

    def _charge(self, fairness_id: str, tokens: float) -> None:
        faded = self._of(fairness_id)
        found = self._attained.setdefault(fairness_id, _Attained())
        found.tokens, found.at_s = max(0.0, faded + tokens), self._now_s

    def _sweep(self) -> None:
        if self._now_s - self._swept_s < self._parameters.eviction_sweep_seconds and len(self._attained) <= _KEPT:
            return
        self._swept_s = self._now_s
        oldest_s = self._now_s - self._parameters.eviction_ttl_seconds
        self._attained = {fairness_id: each for fairness_id, each in self._attained.items() if each.at_s > oldest_s}
        if len(self._attained) > _KEPT:
            newest = sorted(self._attained.items(), key=lambda item: -item[1].at_s)
            self._attained = dict(newest[: _KEPT // 2])

    @staticmethod
    def _estimate(item: FlowItem) -> float:
        return item.tokens + OUTPUT_WEIGHT * float(item.request.max_output_tokens or _ESTIMATED_OUTPUT)
