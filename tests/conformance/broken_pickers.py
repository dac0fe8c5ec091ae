"""Our own picker, broken on purpose: one defect each, as somebody may write it.

A picker is broken in its configuration, in its pool, or in the messages between it and Envoy.
"""

import contextlib

import msgspec

from modelplane.conformance.epp.own import CONFIG, OwnPool
from modelplane.epp.config.builtin import builtin_registry
from modelplane.epp.config.config import load
from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.server.messages import (
    METHOD,
    REPLY_FIELDS,
    UNCHANGED,
    mutate_request,
    mutate_response,
    read,
    stream_body,
)
from modelplane.epp.server.processing_request import ProcessingPhase
from modelplane.epp.transport.h2.server import H2Server
from modelplane.epp.transport.wire import fields, nested, whole
from modelplane.framework import Refusal, RefusalCode
from modelplane.framework.registry import NoParameters, plugin_type

replaced = msgspec.structs.replace
DESTINATION = b"x-gateway-destination-endpoint"


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


def of_endpoints(kind):
    def broken(parts):
        pool = OwnPool([kind(endpoint.name, endpoint.address) for endpoint in parts.source.current])
        return replaced(parts, pool=pool, source=pool.source)

    return broken


class StuckEndpoints(StaticEndpoints):
    """Follows only such changes of a pool as `follows` allows."""

    def __init__(self, source, follows):
        super().__init__(source.current)
        source.on_change(lambda found: self.replace(found) if follows(self.current, found) else None)


def following(follows):
    return lambda parts: replaced(parts, source=StuckEndpoints(parts.source, follows))


def one_port_a_pod(parts):
    """Takes endpoints with one address for one."""
    by_host = {endpoint.address.rpartition(":")[0]: endpoint for endpoint in parts.source.current}
    return replaced(parts, source=StaticEndpoints(list(by_host.values())))


# Messages.


class BrokenCall:
    """Changes what a handler sends; nothing is sent for an empty message."""

    def __init__(self, call, change):
        self._call, self._change = call, change

    def send(self, *messages):
        changed = [self._change(message) for message in messages]
        self._call.send(*[message for message in changed if message])

    def finish(self, *arguments):
        self._call.finish(*arguments)

    def mark_idle(self):
        self._call.mark_idle()


class BrokenHandler:
    """Changes what a handler gets."""

    def __init__(self, handler, change):
        self._handler, self._change = handler, change

    def message(self, message):
        self._handler.message(self._change(message))

    def closed(self):
        self._handler.closed()

    def cancelled(self):
        self._handler.cancelled()


class MissesAborts(BrokenHandler):
    """Learns that a request is over from the end of its response alone."""

    _ended = False

    def message(self, message):
        found = read(message)
        self._ended = self._ended or (found.phase is ProcessingPhase.RESPONSE_BODY and found.ends)
        super().message(message)

    def closed(self):
        if self._ended:
            super().closed()

    def cancelled(self):
        if self._ended:
            super().cancelled()


def same(message):
    return message


def messages(replies=None, requests=None, kind=BrokenHandler):
    """`replies` and `requests` make the changes of one call, from the parts of the picker."""

    def broken(parts):
        def serve(methods, settings):
            def handler(call):
                reply = replies(parts) if replies else same
                request = requests(parts) if requests else same
                return kind(methods[METHOD](BrokenCall(call, reply)), request)

            return H2Server({**methods, METHOD: handler}, settings)

        return replaced(parts, make_server=serve)

    return broken


def text_replaced(before, after, times=-1):
    assert len(before) == len(after)
    return lambda _parts: lambda message: message.replace(before, after, times)


def status(before, after):
    """Rejects with another status."""
    return messages(text_replaced(nested(1, whole(1, before)), nested(1, whole(1, after))))


def any_port_of_a_subset(parts):
    """Takes the first endpoint of the pool that has the address of the subset, whatever its port."""
    first, *others = [endpoint.address.encode() for endpoint in parts.source.current]

    def change(message):
        head, hint, tail = message.partition(b"envoy.lb.subset_hint")
        for address in others:
            tail = tail.replace(address, first)
        return head + hint + tail

    return change


def metadata_elsewhere(parts):
    """Names another endpoint in the metadata than in the header."""
    addresses = [endpoint.address.encode() for endpoint in parts.source.current]
    others = dict(zip(addresses, [*addresses[1:], addresses[0]], strict=True))

    def change(message):
        head, key, tail = message.rpartition(DESTINATION)
        for address, other in others.items():
            if key and address in tail:
                return head + key + tail.replace(address, other)
        return message

    return change


def believes_clients(parts):
    """Keeps the endpoint that the client named."""
    named = []

    def request(message):
        found = read(message).headers.get(DESTINATION.decode())
        if found:
            named.append(found)
        return message

    def reply(message):
        if named and DESTINATION in message:
            return mutate_request(ProcessingPhase.REQUEST_HEADERS, named[0])
        return message

    def serve(methods, settings):
        def handler(call):
            named.clear()
            return BrokenHandler(methods[METHOD](BrokenCall(call, reply)), request)

        return H2Server({**methods, METHOD: handler}, settings)

    return replaced(parts, make_server=serve)


def names_it_twice(parts):
    """Writes the same endpoint twice into the list."""
    known = [endpoint.address for endpoint in parts.source.current]

    def change(message):
        if DESTINATION not in message:
            return message
        found = next(address for address in known if address.encode() in message)
        return mutate_request(ProcessingPhase.REQUEST_HEADERS, f"{found},{found}")

    return change


def ignores_trailers(_parts):
    def change(message):
        return b"" if message == UNCHANGED[ProcessingPhase.REQUEST_TRAILERS] else message

    return change


def _bodies(phase, change):
    """Changes the pieces of streamed bodies in one direction."""

    def changed(message):
        ((field, value), *_) = fields(message)
        if field != REPLY_FIELDS[phase] or not isinstance(value, bytes):
            return message
        try:
            ((_, common),) = fields(value)
            ((_, mutation),) = [item for item in fields(common) if item[0] == 3]
            ((_, streamed),) = fields(mutation)
            parts = dict(fields(streamed))
        except (ValueError, TypeError):
            return message
        body, ends = parts.get(1, b""), bool(parts.get(2, 0))
        return change(body, ends)

    return changed


def cuts_bodies(_parts):
    """Loses the last byte of each request."""
    phase = ProcessingPhase.REQUEST_BODY
    return _bodies(phase, lambda body, ends: stream_body(phase, body[:-1] if ends else body, ends=ends))


def writes_bodies_anew(_parts):
    """Forwards what a body means, and not its bytes."""
    phase = ProcessingPhase.REQUEST_BODY

    def change(body, ends):
        with contextlib.suppress(msgspec.DecodeError):
            body = msgspec.json.encode(msgspec.json.decode(body))
        return stream_body(phase, body, ends=ends)

    return _bodies(phase, change)


def collects_responses(_parts):
    """Sends a response on once it has all of it."""
    phase, held = ProcessingPhase.RESPONSE_BODY, []

    def change(body, ends):
        held.append(body)
        return stream_body(phase, b"".join(held), ends=True) if ends else b""

    return _bodies(phase, change)


def tells_its_mind(_parts):
    """Leaves a header for debugging in each response."""

    def change(message):
        ((field, _), *_) = fields(message)
        if field == REPLY_FIELDS[ProcessingPhase.RESPONSE_HEADERS]:
            return mutate_response((("x-went-into-resp-headers", "true"),))
        return message

    return change


def bodiless(parts):
    """Decides by bodies, and lets pass what has none."""

    def serve(methods, settings):
        def handler(call):
            ends = []

            def request(message):
                found = read(message)
                ends.append(found.phase is ProcessingPhase.REQUEST_HEADERS and found.ends)
                return message

            def reply(message):
                return UNCHANGED[ProcessingPhase.REQUEST_HEADERS] if ends[0] and DESTINATION in message else message

            return BrokenHandler(methods[METHOD](BrokenCall(call, reply)), request)

        return H2Server({**methods, METHOD: handler}, settings)

    return replaced(parts, make_server=serve)


def without_health(parts):
    def serve(methods, settings):
        return H2Server({METHOD: methods[METHOD]}, settings)

    return replaced(parts, make_server=serve)
