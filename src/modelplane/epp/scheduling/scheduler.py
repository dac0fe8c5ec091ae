"""Which endpoint serves a request.

A cycle goes: the endpoints that the proxy allows, what producers find out about the request, then rounds. In each round
the handler names profiles that have not run yet, given the results of those that have; a profile runs at most once a
cycle, so rounds end. When the handler names none it concludes: the primary profile's picks are the decision, in ranked
groups.

Every request ends in exactly one outcome. A plugin that raises, answers outside its contract or names what is not there
ends the request as FAULT and nothing else: no exception leaves this module. Profiles that only watch run last, and a
fault in one is counted and otherwise ignored. Listeners hear of a pick after it was decided; a fault in one of them is
counted and the request goes on.

Same endpoints (in any order), request, time, chance and memory of the plugins: same decision. A reporter changes
nothing.
"""

from collections.abc import Callable, Sequence

import msgspec

from modelplane.epp.scheduling.assembly import Assembly
from modelplane.epp.scheduling.conclusions import picked_of
from modelplane.epp.scheduling.cycle import Cycle, EndpointPositions
from modelplane.epp.scheduling.decisions import Decision, Outcome
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.headers import IF_AVAILABLE, PREFER, forged
from modelplane.epp.scheduling.plugins import HasShadowProfiles, Remembers, Served, Witness
from modelplane.epp.scheduling.producers.prefix import PREFIX, any_held
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.subsets import Narrower
from modelplane.framework import PluginFault, Reporter, Result, Runner, RunOutcome

_NOTHING: Result[Endpoint] = Result(RunOutcome.NOTHING_OFFERED)
_NONE_READY = Decision(Outcome.NO_ENDPOINTS, why="no endpoint is ready")


class Scheduler:
    """Decides for one pool. Not for several threads."""

    def __init__(self, built: Assembly) -> None:
        self.assembly = built
        self._handler = built.handler
        self._profiles = built.profiles
        self._runners = {name: Runner(profile, Endpoint.watch) for name, profile in built.profiles.items()}
        self._narrower = Narrower()
        self._places = EndpointPositions()
        self.producers = [(plugin.name, plugin.produce) for plugin in built.producers]
        """Who is asked before the profiles run, in order. A rehearsal may put others in their place."""
        self._admitters = [(plugin.name, plugin.turn_away) for plugin in built.admitters]
        self._pick_listeners = built.pick_listeners
        self._client_tellers = built.client_tellers
        self._first_byte_listeners = built.first_byte_listeners
        self._response_listeners = built.response_listeners
        self._pool_listeners = built.pool_listeners
        self._shadows = built.handler.shadows if isinstance(built.handler, HasShadowProfiles) else frozenset()
        self.reads_bodies = any(listener.reads_bodies for listener in self._response_listeners)
        """Whether a plugin needs what only response bodies tell."""
        self.faults: dict[str, int] = {}
        """Faults of plugins, by the plugin's name."""
        self.last_fault = ""

    def schedule(
        self,
        request: Request,
        endpoints: Sequence[Endpoint],
        now_s: float,
        chance: Callable[[], float],
        reporter: Reporter[Endpoint] | None = None,
    ) -> Decision:
        """Decides, and tells the plugins that listen for picks: the request is about to be sent.

        A tuple that is the same object while the pool is the same costs least: what was found of it holds.
        """
        if not endpoints:
            return _NONE_READY
        allowed = endpoints if request.subset is None else self._narrower.of(endpoints, request.subset)
        cycle = Cycle(request, allowed, now_s, chance, self._places)
        if reporter is not None and isinstance(reporter, Witness):
            return self._decide_before(reporter, cycle, endpoints)
        decision = self.decide(cycle, reporter)
        return self._send(cycle, decision) if decision.outcome is Outcome.PICKED else decision

    def decide(self, cycle: Cycle, reporter: Reporter[Endpoint] | None = None) -> Decision:
        """Decides and tells nobody: for explanations and rehearsals."""
        request = cycle.request
        if not cycle.endpoints:
            return Decision(Outcome.EXCLUDED, why="the proxy allows no endpoint that is ready")
        try:
            decision = self._decide(cycle, reporter)
        except PluginFault as fault:
            self._count(fault)
            return Decision(Outcome.FAULT, why=str(fault))
        if decision.outcome is not Outcome.PICKED:
            return decision
        if (
            PREFER in request.headers
            and IF_AVAILABLE in request.headers[PREFER]
            and not _cached_tokens(cycle, decision)
        ):
            return Decision(
                Outcome.NOT_CACHED, profile=decision.profile, why="no endpoint holds the prompt's beginning"
            )
        removed = forged(request.headers, decision.set_headers)
        return msgspec.structs.replace(decision, remove_headers=removed) if removed else decision

    def recall(self, cycle: Cycle, decision: Decision) -> None:
        """A request was sent on before: let the plugins remember it, without deciding anew."""
        for plugin, produce in self.producers:
            try:
                produce(cycle)
            except Exception as error:  # noqa: BLE001  as where it decides, but there is no request to end
                self._count(_fault(plugin, error))
        self._send(cycle, decision)

    def began(self, request: Request, decision: Decision) -> None:
        """The response to a request that was sent on has begun."""
        for listener in self._first_byte_listeners:
            try:
                listener.began(request, decision)
            except Exception as error:  # noqa: BLE001  as below
                self._count(_fault(listener.name, error))

    def ended(self, request: Request, decision: Decision, served: Served) -> None:
        """A request that was sent on has ended."""
        for listener in self._response_listeners:
            try:
                listener.ended(request, decision, served)
            except Exception as error:  # noqa: BLE001  a plugin's defect must not reach a response that is fine
                self._count(_fault(listener.name, error))

    def changed(self, endpoints: Sequence[Endpoint]) -> None:
        """The pool has these endpoints and no others."""
        for listener in self._pool_listeners:
            try:
                listener.changed(endpoints)
            except Exception as error:  # noqa: BLE001  a plugin's defect must not stop discovery
                self._count(_fault(listener.name, error))

    def _decide_before(self, witness: Witness, cycle: Cycle, endpoints: Sequence[Endpoint]) -> Decision:
        """Decides and tells the plugins; the witness is told in between, before anybody takes the pick into account."""
        request = cycle.request
        cycle.request, cycle.chance = witness.attend(request, cycle.chance)
        decision = self.decide(cycle, witness)
        witness.testify(cycle, endpoints, decision, self._memories(cycle))
        cycle.request = request
        return self._send(cycle, decision) if decision.outcome is Outcome.PICKED else decision

    def _memories(self, cycle: Cycle) -> dict[str, object]:
        found: dict[str, object] = {}
        for plugin in self.assembly.plugins.values():
            if isinstance(plugin, Remembers):
                try:
                    found[plugin.name] = plugin.remembered(cycle)
                except Exception as error:  # noqa: BLE001  what cannot be written down must not cost the request anything
                    self._count(_fault(plugin.name, error))
        return {name: memory for name, memory in found.items() if memory is not None}

    def _decide(self, cycle: Cycle, reporter: Reporter[Endpoint] | None) -> Decision:
        plugin = ""
        try:
            for plugin, produce in self.producers:  # noqa: B007  it is named where it fails
                produce(cycle)
            for plugin, turn_away in self._admitters:
                if why := turn_away(cycle):
                    return Decision(Outcome.SATURATED, why=f"{plugin}: {why}")
            plugin = self._handler.name
            return self._rounds(cycle, reporter)
        except PluginFault:
            raise
        except Exception as error:
            raise _fault(plugin, error) from error

    def _rounds(self, cycle: Cycle, reporter: Reporter[Endpoint] | None) -> Decision:
        handler, profiles, results = self._handler, self._profiles, cycle.results
        while names := handler.profiles(cycle, profiles):
            for name in names:
                if name not in profiles:
                    raise PluginFault(handler.name, f"named profile {name}, which does not exist")
                if name in results:
                    raise PluginFault(handler.name, f"named profile {name}, which has run")
                if name in self._shadows:
                    results[name] = self._watch(name, cycle, reporter)
                else:
                    results[name] = self._runners[name].run(cycle, cycle.endpoints, reporter)
        decision = handler.conclude(cycle)
        if type(decision) is not Decision:
            raise PluginFault(handler.name, f"concluded {decision!r}, which is no decision")
        if decision.outcome is Outcome.PICKED and not (decision.groups and decision.groups[0]):
            raise PluginFault(handler.name, "concluded that something is picked, and picked nothing")
        return decision

    def _watch(self, name: str, cycle: Cycle, reporter: Reporter[Endpoint] | None) -> Result[Endpoint]:
        try:
            return self._runners[name].run(cycle, cycle.endpoints, reporter)
        except PluginFault as fault:
            self._count(fault)
            return _NOTHING

    def _send(self, cycle: Cycle, decision: Decision) -> Decision:
        if self._client_tellers:
            decision = self._tell(cycle, decision)
        added: list[tuple[str, str]] = []
        for listener in self._pick_listeners:
            try:
                added.extend(listener.sent(cycle, decision))
            except Exception as error:  # noqa: BLE001  what a listener misses must not cost the request its endpoint
                self._count(_fault(listener.name, error))
        if cached := _cached_tokens(cycle, decision):
            decision = msgspec.structs.replace(decision, cached_tokens=cached)
        if not added:
            return decision
        headers = (*decision.set_headers, *added)
        removed = forged(cycle.request.headers, headers)
        return msgspec.structs.replace(decision, set_headers=headers, remove_headers=removed)

    def _tell(self, cycle: Cycle, decision: Decision) -> Decision:
        told: dict[str, str] = {}
        for teller in self._client_tellers:
            try:
                told.update(teller.tell(cycle, decision))
            except Exception as error:  # noqa: BLE001  as above
                self._count(_fault(teller.name, error))
        return msgspec.structs.replace(decision, response_headers=tuple(told.items()))

    def _count(self, fault: PluginFault) -> None:
        self.faults[fault.plugin] = self.faults.get(fault.plugin, 0) + 1
        self.last_fault = str(fault)


def _fault(plugin: str, error: Exception) -> PluginFault:
    return PluginFault(plugin, f"raised {type(error).__name__}: {error}")


def _cached_tokens(cycle: Cycle, decision: Decision) -> int:
    match = cycle.get(PREFIX)
    if match is None or not any_held(match):
        return 0
    return cycle.value(match.matched, picked_of(decision)) * match.block_size
