"""Which endpoint serves a request.

A cycle: the subset filter, the producers, admission, then rounds. In each round the profile handler picks profiles that
have not run yet, given the results of those that have; a profile runs at most once a cycle, so rounds end. When the
handler picks none, it processes the results: the primary profile's picks are the decision, in ranked groups.

Every request ends in exactly one outcome. A plugin that raises or breaks its contract ends its request as FAULT; no
exception leaves this module. Shadow profiles run last, and a fault in one is only counted. Request and response plugins
run after the decision; a fault in one is counted and the request continues.

Same endpoints (in any order), request, time, random numbers and plugin state: same decision. Reporters change nothing.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeGuard

from modelplane.epp.scheduling.assembly import Assembly
from modelplane.epp.scheduling.context import SchedulingContext, new_positions
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.headers import IF_AVAILABLE, PREFER, spoofed_headers
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.plugins import DecisionRecorder, Replayable, ShadowProfiles
from modelplane.epp.scheduling.producers.prefix import PREFIX, any_held
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.scheduling.results import picked_of
from modelplane.epp.scheduling.subsets import SubsetFilter
from modelplane.framework import PluginFault, Reporter, Result, Runner, RunOutcome
from modelplane.framework.faults import raised

_PICKED: Final = Outcome.PICKED
_NOTHING: Final[Result[Endpoint]] = Result(RunOutcome.NOTHING_OFFERED)
_NONE_READY: Final = Decision(Outcome.NO_ENDPOINTS, why="no endpoint is ready")


class Scheduler:
    """Decides for one pool. Not thread-safe."""

    def __init__(self, built: Assembly) -> None:
        self.assembly = built
        self._handler = built.handler
        self._conclude: Callable[[SchedulingContext], object] = built.handler.process_results
        """A plugin may return anything; compiled code would refuse it without a word on who did."""
        self._profiles = built.profiles
        self._runners = {name: Runner(profile, Endpoint.watch) for name, profile in built.profiles.items()}
        self._subset_filter = SubsetFilter()
        self._positions = new_positions()
        self.producers = [(plugin.name, plugin.produce) for plugin in built.producers]
        """The producers, in order. A replay replaces them."""
        self._admitters = [(plugin.name, plugin.admit) for plugin in built.admitters]
        self._pre_request = built.pre_request
        self._response_headers = built.response_headers
        self._response_received = built.response_received
        self._response_complete = built.response_complete
        self._endpoints_changed = built.endpoints_changed
        self._shadows = built.handler.shadow_profiles if isinstance(built.handler, ShadowProfiles) else frozenset()
        self.reads_bodies = any(listener.reads_bodies for listener in self._response_complete)
        """Whether a plugin needs the token usage, which only response bodies have."""
        self.faults: dict[str, int] = {}
        """Faults of plugins, by the plugin's name."""
        self.last_fault = ""
        self.on_fault: Callable[[PluginFault], None] | None = None
        """Called with each fault, also with those that change no decision."""
        self.sampler: Callable[[], Scheduler | None] | None = None
        """A call that returns a scheduler has that one do the work: it has the same plugins, and times them."""

    def schedule(
        self,
        request: Request,
        endpoints: Sequence[Endpoint],
        now_s: float,
        chance: Callable[[], float],
        reporter: Reporter[Endpoint] | None = None,
    ) -> Decision:
        """Decides, and runs the `PreRequest` plugins: the request is about to be sent.

        Pass the same tuple while the pool is the same: memos are kept by its identity.
        """
        if not endpoints:
            return _NONE_READY
        if self.sampler is not None and (timed := self.sampler()) is not None:
            return timed.schedule(request, endpoints, now_s, chance, reporter)
        allowed = endpoints if request.subset is None else self._subset_filter.of(endpoints, request.subset)
        context = SchedulingContext(request, allowed, now_s, chance, self._positions)
        if reporter is not None and _records_inputs(reporter):
            return self._decide_recorded(reporter, context, endpoints)
        decision = self.decide(context, reporter)
        return self._send(context, decision) if decision.outcome is _PICKED else decision

    def catch_up(self) -> None:
        """Read the endpoints that changed since this scheduler decided last."""
        for runner in self._runners.values():
            runner.catch_up()

    def decide(self, context: SchedulingContext, reporter: Reporter[Endpoint] | None = None) -> Decision:
        """Decides without `PreRequest`: for explain and replay."""
        request = context.request
        if not context.endpoints:
            return Decision(Outcome.EXCLUDED, why="no ready endpoint is in the proxy's subset")
        try:
            decision = self._decide(context, reporter)
        except PluginFault as fault:
            self.count_fault(fault)
            return Decision(Outcome.FAULT, why=str(fault))
        if decision.outcome is not _PICKED:
            return decision
        if (
            PREFER in request.headers
            and IF_AVAILABLE in request.headers[PREFER]
            and not _cached_tokens(context, decision)
        ):
            return Decision(
                Outcome.NOT_CACHED, profile=decision.profile, why="no endpoint has a prefix of the prompt cached"
            )
        removed = spoofed_headers(request.headers, decision.set_headers)
        return decision.changed(remove_headers=removed) if removed else decision

    def record_sent(self, context: SchedulingContext, decision: Decision) -> None:
        """A request was sent before: let the plugins record it, without deciding again."""
        for plugin, produce in self.producers:
            try:
                produce(context)
            except Exception as error:  # noqa: BLE001  as where it decides, but there is no request to end
                self.count_fault(raised(plugin, error))
        self._send(context, decision)

    def response_received(self, request: Request, decision: Decision) -> None:
        """The headers of a response arrived."""
        if self.sampler is not None and (timed := self.sampler()) is not None:
            timed.response_received(request, decision)
            return
        for listener in self._response_received:
            try:
                listener.response_received(request, decision)
            except Exception as error:  # noqa: BLE001  as below
                self.count_fault(raised(listener.name, error))

    def response_complete(self, request: Request, decision: Decision, served: EndpointResponse) -> None:
        """A response is complete."""
        if self.sampler is not None and (timed := self.sampler()) is not None:
            timed.response_complete(request, decision, served)
            return
        for listener in self._response_complete:
            try:
                listener.response_complete(request, decision, served)
            except Exception as error:  # noqa: BLE001  a plugin's defect must not reach a response that is fine
                self.count_fault(raised(listener.name, error))

    def endpoints_changed(self, endpoints: Sequence[Endpoint]) -> None:
        """The pool has these endpoints and no others."""
        for listener in self._endpoints_changed:
            try:
                listener.endpoints_changed(endpoints)
            except Exception as error:  # noqa: BLE001  a plugin's defect must not stop discovery
                self.count_fault(raised(listener.name, error))

    def _decide_recorded(
        self, recorder: DecisionRecorder, context: SchedulingContext, endpoints: Sequence[Endpoint]
    ) -> Decision:
        """Decides, records, and runs the `PreRequest` plugins, which change what is recorded."""
        request = context.request
        context.request, context.chance = recorder.begin(request, context.chance)
        decision = self.decide(context, recorder)
        recorder.record(context, endpoints, decision, self._captured(context))
        context.request = request
        return self._send(context, decision) if decision.outcome is _PICKED else decision

    def _captured(self, context: SchedulingContext) -> dict[str, object]:
        found: dict[str, object] = {}
        for plugin in self.assembly.plugins.values():
            if isinstance(plugin, Replayable):
                try:
                    found[plugin.name] = plugin.capture(context)
                except Exception as error:  # noqa: BLE001  what cannot be written down must not cost the request anything
                    self.count_fault(raised(plugin.name, error))
        return {name: memory for name, memory in found.items() if memory is not None}

    def _decide(self, context: SchedulingContext, reporter: Reporter[Endpoint] | None) -> Decision:
        plugin = ""
        try:
            for plugin, produce in self.producers:  # noqa: B007  it is named where it fails
                produce(context)
            for plugin, admit in self._admitters:
                if why := admit(context):
                    return Decision(Outcome.SATURATED, why=f"{plugin}: {why}")
            plugin = self._handler.name
            return self._rounds(context, reporter)
        except PluginFault:
            raise
        except Exception as error:
            raise raised(plugin, error) from error

    def _rounds(self, context: SchedulingContext, reporter: Reporter[Endpoint] | None) -> Decision:
        handler, profiles, results = self._handler, self._profiles, context.results
        while names := handler.pick_profiles(context, profiles):
            for name in names:
                if name not in profiles:
                    raise PluginFault(handler.name, f"picked profile {name}, which does not exist")
                if name in results:
                    raise PluginFault(handler.name, f"picked profile {name}, which has run")
                if name in self._shadows:
                    results[name] = self._run_shadow(name, context, reporter)
                else:
                    results[name] = self._runners[name].run(context, context.endpoints, reporter)
        decision = self._conclude(context)
        if type(decision) is not Decision:
            raise PluginFault(handler.name, f"returned {decision!r}, which is no Decision")
        if decision.outcome is _PICKED and not (decision.groups and decision.groups[0]):
            raise PluginFault(handler.name, "returned the outcome Picked without an endpoint")
        return decision

    def _run_shadow(
        self, name: str, context: SchedulingContext, reporter: Reporter[Endpoint] | None
    ) -> Result[Endpoint]:
        try:
            return self._runners[name].run(context, context.endpoints, reporter)
        except PluginFault as fault:
            self.count_fault(fault)
            return _NOTHING

    def _send(self, context: SchedulingContext, decision: Decision) -> Decision:
        if self._response_headers:
            decision = self._add_response_headers(context, decision)
        added: list[tuple[str, str]] = []
        for listener in self._pre_request:
            try:
                added.extend(listener.pre_request(context, decision))
            except Exception as error:  # noqa: BLE001  what a listener misses must not cost the request its endpoint
                self.count_fault(raised(listener.name, error))
        if cached := _cached_tokens(context, decision):
            decision = decision.sent(cached)
        if not added:
            return decision
        headers = (*decision.set_headers, *added)
        removed = spoofed_headers(context.request.headers, headers)
        return decision.changed(set_headers=headers, remove_headers=removed)

    def _add_response_headers(self, context: SchedulingContext, decision: Decision) -> Decision:
        headers: dict[str, str] = {}
        for plugin in self._response_headers:
            try:
                headers.update(plugin.response_headers(context, decision))
            except Exception as error:  # noqa: BLE001  as above
                self.count_fault(raised(plugin.name, error))
        return decision.changed(response_headers=tuple(headers.items()))

    def count_fault(self, fault: PluginFault) -> None:
        """A plugin raised or broke its contract."""
        self.faults[fault.plugin] = self.faults.get(fault.plugin, 0) + 1
        self.last_fault = str(fault)
        if self.on_fault is not None:
            self.on_fault(fault)


def _records_inputs(reporter: Reporter[Endpoint]) -> TypeGuard[DecisionRecorder]:
    """`isinstance` with a protocol takes ten times as long, and the fleet router reports every request."""
    return hasattr(reporter, "begin")


def _cached_tokens(context: SchedulingContext, decision: Decision) -> int:
    match = context.get(PREFIX)
    if match is None or not any_held(match):
        return 0
    return context.value(match.matched, picked_of(decision)) * match.block_size
