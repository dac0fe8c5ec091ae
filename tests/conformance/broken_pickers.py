"""Our own picker, broken on purpose: one defect each, as somebody may write it.

A picker is broken in its configuration, in its pool, in its end, or in its messages (`broken_messages`).
"""

import msgspec

from modelplane.conformance.epp import PodState
from modelplane.conformance.epp.own import CONFIG
from modelplane.epp.config.builtin import builtin_registry
from modelplane.epp.config.config import load
from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.server.messages import METHOD
from modelplane.epp.transport.h2.server import H2Server
from modelplane.framework import Refusal, RefusalCode
from modelplane.framework.registry import NoParameters, plugin_type

replaced = msgspec.structs.replace


# Configurations.


class Inverted:
    """Prefers the longest queue."""

    def __init__(self, name, _parameters):
        self.name = name

    def score(self, _context, endpoints):
        most = max(endpoint.waiting for endpoint in endpoints)
        return [endpoint.waiting / most if most else 1.0 for endpoint in endpoints]


class FirstOnly:
    """Admits one endpoint, whatever it is asked."""

    def __init__(self, name, _parameters):
        self.name = name

    def refuse(self, context, candidate):
        if candidate is min(context.endpoints, key=lambda endpoint: endpoint.name):
            return None
        return Refusal(self.name, RefusalCode.UNRESOLVABLE, "{} is not the first", (candidate.name,))


REGISTRY = builtin_registry().extended(
    [
        plugin_type("inverted", Inverted, NoParameters),
        plugin_type("first-only", FirstOnly, NoParameters),
    ]
)


def configured(*changes):
    """The configuration with texts replaced."""

    def broken(parts):
        text = CONFIG
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        return replaced(parts, config=load(text, "broken.yaml", REGISTRY))

    return broken


def without(plugin, weight):
    """Without one scorer."""
    return configured((f"- type: {plugin}\n", ""), (f"  - {{pluginRef: {plugin}, weight: {weight}}}\n", ""))


def at_random(parts):
    text = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{type: random-picker}]\n"
    profile = "schedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]\n"
    return replaced(parts, config=load(text + profile))


def scrapes_nothing(parts):
    return replaced(parts, scrapes=False)


# Pools.


class NeverCounts(Endpoint):
    def count(self, requests, tokens):
        pass


class NeverFalls(Endpoint):
    def count(self, requests, tokens):
        super().count(max(0, requests), max(0, tokens))


class ScrapedOnce(Endpoint):
    @property
    def metrics(self):
        return self._metrics

    @metrics.setter
    def metrics(self, metrics):
        if self._metrics.scraped_s < 0:
            Endpoint.metrics.fset(self, metrics)


class NeverAges(Endpoint):
    """Believes the last scrape for as long as there is no other."""

    @property
    def metrics(self):
        return self._metrics

    @metrics.setter
    def metrics(self, metrics):
        if metrics.scraped_s != self._metrics.scraped_s:
            Endpoint.metrics.fset(self, metrics)


class ChangedEndpoints(StaticEndpoints):
    """Makes another pool of the one that is discovered: `change` gets the endpoints before and those found."""

    def __init__(self, source, change):
        super().__init__()
        self._source, self._change = source, change
        source.on_change(self._take)

    @property
    def known(self):
        return self._source.known

    def _take(self, found):
        self.replace(self._change(self.current, found))

    async def start(self):
        await self._source.start()
        self._take(self._source.current)

    async def stop(self):
        await self._source.stop()


def discovering(change):
    return lambda parts: replaced(parts, make_source=lambda: ChangedEndpoints(parts.make_source(), change))


def of_endpoints(kind):
    twins = {}

    def change(_before, found):
        return [twins.setdefault(each, kind(each.name, each.address, each.labels)) for each in found]

    return discovering(change)


def following(follows):
    """Follows only such changes of a pool as `follows` allows."""
    return discovering(lambda before, found: found if not before or follows(before, found) else before)


def one_port_a_pod(parts):
    """Takes endpoints with one address for one."""

    def change(_before, found):
        return list({endpoint.address.rpartition(":")[0]: endpoint for endpoint in found}.values())

    return discovering(change)(parts)


class BlindTo:
    """A pool in which nothing shows a state of pods."""

    has_pods = True

    def __init__(self, pool, state):
        self._pool, self._state = pool, state

    def replace(self, members):
        shown = [each._replace(state=PodState.READY) if each.state is self._state else each for each in members]
        self._pool.replace(shown)


def blind_to(state):
    return lambda parts: replaced(parts, pool=BlindTo(parts.pool, state))


# The end.


def cuts_at_its_end(parts):
    return replaced(parts, drain_s=0.0)


class EndsWithoutError(H2Server):
    """Ends the calls that are open when it is stopped as if nothing were to be done for them."""

    def __init__(self, methods, settings):
        self._calls = []

        def handler(call):
            self._calls.append(call)
            return methods[METHOD](call)

        super().__init__({**methods, METHOD: handler}, settings)

    async def stop(self, grace_s):
        for call in self._calls:
            call.finish()
        await super().stop(grace_s)


def holds_its_port(parts):
    """Listens on when it is stopped, and answers nobody. The next one takes its place."""
    held = []

    class Holding(H2Server):
        def __init__(self, methods, settings):
            handler = methods[METHOD]
            super().__init__({**methods, METHOD: lambda call: Silent() if self in held else handler(call)}, settings)

        async def start(self):
            for before in held:
                await H2Server.stop(before, 0.0)
            return await super().start()

        async def stop(self, grace_s):
            if held:
                await super().stop(grace_s)
            held.append(self)

    return replaced(parts, make_server=Holding)


class Silent:
    def message(self, message):
        pass

    def closed(self):
        pass

    def cancelled(self):
        pass


def served_by(server):
    return lambda parts: replaced(parts, make_server=server)
