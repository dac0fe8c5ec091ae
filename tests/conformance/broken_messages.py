"""Our own picker with messages that are broken on purpose, on their way from Envoy or to it: one defect each."""

import contextlib

import msgspec

from modelplane.epp.server.messages import (
    METHOD,
    REPLY_FIELDS,
    UNCHANGED,
    immediate_response,
    mutate_request,
    mutate_response,
    read,
    stream_body,
)
from modelplane.epp.server.processing_request import ProcessingPhase
from modelplane.epp.transport.h2.server import H2Server
from modelplane.epp.transport.wire import fields, nested, whole

replaced = msgspec.structs.replace
DESTINATION = b"x-gateway-destination-endpoint"
HINT, NO_HINT = b"envoy.lb.subset_hint", b"envoy.lb.subset_hind"
CHAT = "/v1/chat/completions"
_FEW_ABORTS = 20


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
    first, *others = [address.encode() for address in parts.addresses]

    def change(message):
        head, hint, tail = message.partition(b"envoy.lb.subset_hint")
        for address in others:
            tail = tail.replace(address, first)
        return head + hint + tail

    return change


def metadata_elsewhere(parts):
    """Names another endpoint in the metadata than in the header."""
    addresses = [address.encode() for address in parts.addresses]
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

    def change(message):
        if DESTINATION not in message:
            return message
        found = next(address for address in parts.addresses if address.encode() in message)
        return mutate_request(ProcessingPhase.REQUEST_HEADERS, f"{found},{found}")

    return change


def ignores_trailers(_parts):
    def change(message):
        return b"" if message == UNCHANGED[ProcessingPhase.REQUEST_TRAILERS] else message

    return change


def drops_trailer(phase, name):
    """Takes a trailer off."""
    dropped = nested(REPLY_FIELDS[phase], nested(1, nested(2, name)))
    return lambda _parts: lambda message: dropped if message == UNCHANGED[phase] else message


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


def ignores_hints_with(text):
    """Ignores a subset hint that has this text in it."""
    return lambda _parts: lambda message: message.replace(HINT, NO_HINT) if text in message else message


def ignores_hints_without_a_body(_parts):
    def change(message):
        found = read(message)
        bodiless = found.phase is ProcessingPhase.REQUEST_HEADERS and found.ends
        return message.replace(HINT, NO_HINT) if bodiless else message

    return change


def picks_nothing_by_buffered_bodies(_parts):
    phase = ProcessingPhase.REQUEST_BODY

    def change(message):
        ((field, _), *_) = fields(message)
        return UNCHANGED[phase] if field == REPLY_FIELDS[phase] and DESTINATION in message else message

    return change


def cuts_pieces_of(size):
    """Loses the last byte of pieces of this size."""
    phase = ProcessingPhase.REQUEST_BODY

    def cut(body, ends):
        return stream_body(phase, body[:-1] if len(body) == size else body, ends=ends)

    return lambda _parts: _bodies(phase, cut)


def mixes_up_bodies():
    """Forwards the body of the request before."""
    phase, bodies = ProcessingPhase.REQUEST_BODY, []

    def change(body, ends):
        bodies.append(body)
        return stream_body(phase, bodies[-2] if bodies[1:] else body, ends=ends)

    return lambda _parts: _bodies(phase, change)


def rejecting(is_rejected):
    """Answers 400 to requests of which `is_rejected` says so, by the path."""

    def broken(parts):
        def serve(methods, settings):
            def handler(call):
                paths = []

                def request(message):
                    paths.append(read(message).headers.get(":path"))
                    return message

                def reply(message):
                    return immediate_response(400, (), b"no", "no") if is_rejected(paths[0]) else message

                return BrokenHandler(methods[METHOD](BrokenCall(call, reply)), request)

            return H2Server({**methods, METHOD: handler}, settings)

        return replaced(parts, make_server=serve)

    return broken


class NotesAborts(BrokenHandler):
    """Counts the requests that ended before they were whole."""

    noted = 0
    _is_whole = False

    def message(self, message):
        self._is_whole = self._is_whole or read(message).ends
        super().message(message)

    def closed(self):
        NotesAborts.noted += not self._is_whole
        super().closed()

    def cancelled(self):
        NotesAborts.noted += not self._is_whole
        super().cancelled()


def tires_of_aborts(parts):
    """Answers nobody any more after some requests were aborted."""
    NotesAborts.noted = 0

    def reply(message):
        return message if NotesAborts.noted < _FEW_ABORTS else immediate_response(500, (), b"no", "no")

    return messages(lambda _parts: reply, kind=NotesAborts)(parts)
