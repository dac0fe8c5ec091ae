"""From a request of the proxy to a decision: read it, wait for room where flow control is on, schedule, count.

Everything runs on one event loop and nothing here blocks. A queued request has a ticket, and its `Waiter` is called
later. Each routed request counts at its endpoint until it ends; its result goes to the scheduler that decided it. A
reload replaces the scheduler between two requests and loses none.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from modelplane.epp.datalayer.endpoints import Endpoints, EndpointSource
from modelplane.epp.flowcontrol import FULL, FlowItem
from modelplane.epp.scheduling.arithmetic import tokens_of
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.producers.in_flight import InFlightProducer
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.scheduling.results import picked_of
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.server.flow import Flow
from modelplane.epp.server.interfaces import PromptTokenizer, RequestObserver, TokenIds, Waiter
from modelplane.epp.server.parsing import ParseError
from modelplane.epp.server.request_reader import RequestReader, unread_request
from modelplane.epp.server.routing_result import RoutingResult
from modelplane.epp.server.steps import PickRequest, Rename
from modelplane.framework import PluginFault

if TYPE_CHECKING:
    from modelplane.epp.scheduling.endpoints import Endpoint

_SERVER_ERRORS: Final = 500
_PICKED: Final = Outcome.PICKED
_STOPPING: Final = Decision(Outcome.STOPPING, why="the picker is stopping")


class _Waiting:
    __slots__ = ("item", "rename", "waiter")

    def __init__(self, waiter: Waiter, item: FlowItem, renamed: Rename | None) -> None:
        self.waiter = waiter
        self.item = item
        self.rename = renamed


class Director:
    """Decides the requests of one pool. `observer` and what `reader` has may be set before the first request."""

    def __init__(
        self,
        source: EndpointSource,
        scheduler: Scheduler,
        *,
        clock: Callable[[], float],
        chance: Callable[[], float],
        flow: Flow | None = None,
    ) -> None:
        self.reader = RequestReader(chance)
        self.tokenizer: PromptTokenizer | None = None
        """Called before a decision, if decisions need tokens."""
        self.observer: RequestObserver | None = None
        self._source = source
        self._scheduler = scheduler
        self._counts = _counts(scheduler)
        self._clock = clock
        self._chance = chance
        self._flow = flow
        self._waiting: dict[int, _Waiting] = {}
        self._numbers: dict[Waiter, int] = {}
        self._tokenized: dict[Waiter, tuple[Request, Callable[[], object]]] = {}
        """Requests whose prompts are being tokenized, and how to cancel that."""
        self._evictable: dict[Request, Waiter] = {}
        """Routed requests whose priority may be evicted."""
        self._stopping = False
        self._by_address: dict[str, Endpoint] = {}
        self._endpoints: Endpoints = ()
        """The endpoints of the source; replaced at every change."""
        self._changed(source.current)
        source.on_change(self._changed)

    @property
    def scheduler(self) -> Scheduler:
        """The current scheduler."""
        return self._scheduler

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def bands(self) -> tuple[tuple[int, int, int], ...]:
        """Priority, requests and bytes of each band, highest priority first; empty without flow control."""
        return () if self._flow is None else tuple(self._flow.control.bands)

    @property
    def queues(self) -> Mapping[str, tuple[float, float]]:
        """How full the queue of each priority is, by requests and by bytes; of all together without a name."""
        return {} if self._flow is None else self._flow.control.fullness

    @property
    def saturation(self) -> Mapping[str, float]:
        """How full each stage is, 1 is full; empty without flow control."""
        return {} if self._flow is None else self._flow.gauge.by_stage(self._source.current, self._clock())

    def decide(self, pick_request: PickRequest, waiter: Waiter) -> RoutingResult | None:
        """The result, or None if `waiter` gets it later."""
        now_s = self._clock()
        if pick_request.refused is not None:
            return self._conclude(unread_request(pick_request, now_s), pick_request.refused, now_s)
        try:
            request, renamed = self.reader.read(pick_request, now_s, self.observer)
        except ParseError as error:
            return self._conclude(
                unread_request(pick_request, now_s), Decision(Outcome.MALFORMED, why=str(error)), now_s
            )
        except PluginFault as fault:
            self._scheduler.count_fault(fault)
            return self._conclude(unread_request(pick_request, now_s), Decision(Outcome.FAULT, why=str(fault)), now_s)
        if self.tokenizer is not None and pick_request.whole and pick_request.body and not self._stopping:
            body = pick_request.body if renamed is None else renamed.body
            cancel = self.tokenizer.tokenize(request.api, body, partial(self._on_tokens, waiter, request, renamed))
            if cancel is not None:
                self._tokenized[waiter] = (request, cancel)
                return None
        return self._admit(waiter, request, renamed, now_s)

    def _on_tokens(self, waiter: Waiter, request: Request, renamed: Rename | None, tokens: TokenIds) -> None:
        if self._tokenized.pop(waiter, None) is None:
            return
        if tokens:
            request = request.changed(token_ids=tokens)
        result = self._admit(waiter, request, renamed, self._clock())
        if result is not None:
            waiter.answer(result)

    def _admit(self, waiter: Waiter, request: Request, renamed: Rename | None, now_s: float) -> RoutingResult | None:
        if self._stopping:
            return self._conclude(request, _STOPPING, now_s)
        if self._flow is None:
            return self._schedule(request, renamed, now_s)
        item = self._flow.control.enqueue(request, now_s)
        if item.final_state is not None:
            return self._refuse(item, renamed, now_s)
        self._refuse_displaced(now_s)
        self._add_waiting(_Waiting(waiter, item, renamed))
        return self._dispatch(now_s, item)

    def abandon(self, waiter: Waiter) -> None:
        """The client of a waiting request disconnected."""
        now_s = self._clock()
        if waiter in self._tokenized:
            request, cancel = self._tokenized.pop(waiter)
            cancel()
            self._conclude(request, Decision(Outcome.ABANDONED, why="the client disconnected"), now_s)
            return
        waiting = self._waiting.pop(self._numbers.pop(waiter, -1), None)
        if waiting is not None and self._flow is not None and self._flow.control.abandon(waiting.item, now_s):
            self._refuse(waiting.item, waiting.rename, now_s)

    def response_received(self, result: RoutingResult) -> None:
        """The response of a routed request has started, so its prompt is computed."""
        if result.counted:
            picked_of(result.decision).count(0, -result.tokens)
        result.scheduler.response_received(result.request, result.decision)

    def ended(self, result: RoutingResult, served: EndpointResponse, *, served_by: str = "") -> None:
        """A routed request has ended. `served_by` is the address that Envoy reports."""
        request, decision, status = result.request, result.decision, served.status
        picked = endpoint = picked_of(decision)
        if result.counted:
            picked.count(-1, -result.tokens if served.first_byte_s < 0.0 else 0)
        if result.flow is not None:
            self._release_flow(result, result.flow, served.usage)
        if served_by and (other := self._by_address.get(served_by)) is not None and other is not picked:
            endpoint, served = other, served.by(other)
        if status >= _SERVER_ERRORS:
            endpoint.failures += 1
        elif status:
            endpoint.failures = 0
        result.scheduler.response_complete(request, decision, served)
        if self.observer is not None:
            self.observer.ended(request, decision, served, model=_requested_model(result.rename))
        if self._waiting:
            self.tick()

    def tick(self) -> None:
        """Dispatch what may be dispatched, evict for others, expire the rest. Cheap if the queue is empty."""
        if self._waiting:
            now_s = self._clock()
            self._dispatch(now_s, None)
            self._evict(now_s)
            self._expire(now_s)

    def reload(self, scheduler: Scheduler, flow: Flow | None) -> None:
        """Decide by another configuration from here on. Queued requests stay queued, by its rules."""
        self._scheduler = scheduler
        self._counts = _counts(scheduler)
        scheduler.endpoints_changed(self._source.current)
        now_s = self._clock()
        waiting, self._waiting = self._waiting, {}
        self._numbers.clear()
        self._flow = flow
        for entry in waiting.values():
            self._requeue(entry, now_s)
        self.tick()

    def stop(self) -> None:
        """Reject new and queued requests, so that they do not delay the stop."""
        self._stopping = True
        now_s = self._clock()
        waiting, self._waiting = self._waiting, {}
        self._numbers.clear()
        if self._flow is not None:
            self._flow.control.stop(now_s)
        for entry in waiting.values():
            entry.waiter.answer(self._refuse(entry.item, entry.rename, now_s))
        tokenized, self._tokenized = self._tokenized, {}
        for waiter, (request, cancel) in tokenized.items():
            cancel()
            waiter.answer(self._conclude(request, _STOPPING, now_s))

    def _add_waiting(self, entry: _Waiting) -> None:
        self._waiting[entry.item.number] = entry
        self._numbers[entry.waiter] = entry.item.number

    def _remove_waiting(self, item: FlowItem) -> _Waiting:
        entry = self._waiting.pop(item.number)
        self._numbers.pop(entry.waiter, None)
        return entry

    def _requeue(self, entry: _Waiting, now_s: float) -> None:
        request = entry.item.request
        if self._flow is not None:
            item = self._flow.control.enqueue(request, now_s)
            if item.final_state is None:
                self._refuse_displaced(now_s)
                self._add_waiting(_Waiting(entry.waiter, item, entry.rename))
                return
        entry.waiter.answer(self._schedule(request, entry.rename, now_s))

    def _refuse_displaced(self, now_s: float) -> None:
        """Evict the queued requests that were displaced by the one just enqueued."""
        for item in () if self._flow is None else self._flow.control.displaced():
            waiting = self._remove_waiting(item)
            waiting.waiter.answer(self._refuse(item, waiting.rename, now_s))

    def _dispatch(self, now_s: float, own: FlowItem | None) -> RoutingResult | None:
        """Dispatch what there is capacity for. Returns the result of `own`; others get theirs by their waiter."""
        answer = None
        flow = self._flow
        endpoints = self._source.current
        while flow is not None and self._waiting:
            item = flow.control.dispatch(now_s, flow.gauge.to_dispatch_by(endpoints, now_s), len(endpoints))
            if item is None:
                break
            flow.gauge.released(now_s)
            waiting = self._remove_waiting(item)
            result = self._dispatch_one(waiting, flow, now_s)
            if item is own:
                answer = result
            else:
                waiting.waiter.answer(result)
        return answer

    def _dispatch_one(self, waiting: _Waiting, flow: Flow, now_s: float) -> RoutingResult:
        item, renamed = waiting.item, waiting.rename
        if self.observer is not None and item.final_state is not None:
            self.observer.waited(item.request, item.final_state, model=_requested_model(renamed))
        result = self._schedule(item.request, renamed, now_s, item)
        if flow.evictor is not None and result.decision.outcome is _PICKED and item.priority < 0:
            flow.evictor.sent(item.request, item.priority)
            self._evictable[item.request] = waiting.waiter
        return result

    def _release_flow(self, result: RoutingResult, flow: Flow, usage: ResponseUsage) -> None:
        """Usage is not reported to flow control of a replaced configuration."""
        if flow.evictor is not None and self._evictable.pop(result.request, None) is not None:
            flow.evictor.ended(result.request)
        flow.gauge.ended()
        if flow is self._flow and result.item is not None and usage.output_tokens >= 0:
            flow.control.record_usage(result.item, max(0, usage.prompt_tokens), usage.output_tokens)

    def _evict(self, now_s: float) -> None:
        flow, endpoints = self._flow, self._source.current
        if flow is None or flow.evictor is None or not self._evictable or not endpoints:
            return
        waiting = flow.control.next_up
        if waiting is None or flow.gauge.read(endpoints, now_s) < FULL:
            return
        for request in flow.evictor.decide(waiting, now_s):
            waiter = self._evictable.get(request) if isinstance(request, Request) else None
            if waiter is not None:
                if self.observer is not None and isinstance(request, Request):
                    self.observer.evicted(request)
                waiter.evict()

    def _expire(self, now_s: float) -> None:
        if self._flow is None:
            return
        for item in self._flow.control.expire(now_s, len(self._source.current)):
            waiting = self._remove_waiting(item)
            waiting.waiter.answer(self._refuse(item, waiting.rename, now_s))

    def _refuse(self, item: FlowItem, renamed: Rename | None, now_s: float) -> RoutingResult:
        """The result of a request that was never dispatched."""
        if self.observer is not None and item.final_state is not None:
            self.observer.waited(item.request, item.final_state, model=_requested_model(renamed))
        return self._conclude(item.request, _refusal(item), now_s)

    def _schedule(
        self, request: Request, renamed: Rename | None, now_s: float, item: FlowItem | None = None
    ) -> RoutingResult:
        observer, scheduler = self.observer, self._scheduler
        steps = None if observer is None else observer.record_steps(request, self._chance())
        decision = scheduler.schedule(request, self._endpoints, now_s, self._chance, steps)
        if observer is not None:
            observer.decided(request, decision, self._clock() - now_s, steps, model=_requested_model(renamed))
        flow = None if item is None else self._flow
        if not self._counts or decision.outcome is not _PICKED:
            return RoutingResult(request, decision, scheduler, renamed, False, item, flow)
        tokens = max(0, tokens_of(request.prompts, request.token_ids) - decision.cached_tokens)
        picked_of(decision).count(1, tokens)
        return RoutingResult(request, decision, scheduler, renamed, True, item, flow, tokens)

    def _conclude(self, request: Request, decision: Decision, now_s: float) -> RoutingResult:
        """The result of a request that was not scheduled."""
        if self.observer is not None:
            self.observer.decided(request, decision, self._clock() - now_s)
        return RoutingResult(request, decision, self._scheduler)

    def _changed(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._by_address = {endpoint.address: endpoint for endpoint in endpoints}
        self._scheduler.endpoints_changed(endpoints)
        self.tick()


def _requested_model(renamed: Rename | None) -> str:
    return "" if renamed is None else renamed.requested


def _counts(scheduler: Scheduler) -> bool:
    """Whether the director counts requests in flight: not if a plugin does, which knows what is cached."""
    return not any(isinstance(plugin, InFlightProducer) for plugin in scheduler.assembly.plugins.values())


def _refusal(item: FlowItem) -> Decision:
    ending = item.final_state
    if ending is None or ending.outcome is None:
        return Decision(Outcome.FAULT, why="a dispatched request was refused")
    return Decision(ending.outcome, why=ending.why)
