"""Messages of external processing, compared with what the protobuf library reads and writes."""

import base64

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.server import messages
from modelplane.epp.server.messages import UNCHANGED
from modelplane.epp.server.processing_request import ProcessingPhase, ProcessingRequest
from modelplane.epp.transport.wire import WireError, fields, nested, number, varint
from tests.support.extproc_protos import load

PROTOS = load()
REQUEST = PROTOS["ProcessingRequest"]
RESPONSE = PROTOS["ProcessingResponse"]

names = st.from_regex(r"\A:?[a-z][a-z0-9-]{0,20}\Z") | st.just("x" * 200)
values = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40) | st.just("v" * 300)
pairs = st.lists(st.tuples(names, values, st.booleans()), max_size=12)


def _fill(headers, entries):
    for name, value, raw in entries:
        headers.add(key=name, **({"raw_value": value.encode()} if raw else {"value": value}))


def _joined(entries):
    found = {}
    for name, value, _ in entries:
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


@given(pairs, st.booleans(), st.none() | st.tuples(st.integers(0, 5), st.integers(0, 5)), st.booleans())
def test_headers_are_read_as_the_library_writes_them(entries, ends, modes, observed):
    request = REQUEST()
    request.request_headers.SetInParent()
    _fill(request.request_headers.headers.headers, entries)
    request.request_headers.end_of_stream = ends
    request.observability_mode = observed
    request.unknown = "from a later version"
    if modes is not None:
        request.protocol_config.SetInParent()
        request.protocol_config.request_body_mode, request.protocol_config.response_body_mode = modes
    assert messages.read(request.SerializeToString()) == ProcessingRequest(
        phase=ProcessingPhase.REQUEST_HEADERS,
        headers=_joined(entries),
        ends=ends,
        observed=observed,
        request_mode=-1 if modes is None else modes[0],
        response_mode=-1 if modes is None else modes[1],
    )


@given(st.binary(max_size=300), st.sampled_from(["", "end_of_stream", "end_of_stream_without_message"]))
@pytest.mark.parametrize("phase", [ProcessingPhase.REQUEST_BODY, ProcessingPhase.RESPONSE_BODY])
def test_bodies_are_read_as_the_library_writes_them(phase, body, end):
    request = REQUEST()
    part = getattr(request, phase.name.lower())
    part.SetInParent()
    part.body = body
    if end:
        setattr(part, end, True)
    assert messages.read(request.SerializeToString()) == ProcessingRequest(phase=phase, body=body, ends=bool(end))


@pytest.mark.parametrize("phase", [ProcessingPhase.REQUEST_TRAILERS, ProcessingPhase.RESPONSE_TRAILERS])
def test_trailers(phase):
    request = REQUEST()
    _fill(getattr(request, phase.name.lower()).trailers.headers, [("a", "b", True)])
    assert messages.read(request.SerializeToString()) == ProcessingRequest(phase=phase, ends=True)


@pytest.mark.parametrize("size", [16_370, 16_380, 16_384, 20_000, 300_000])
@pytest.mark.parametrize("phase", [ProcessingPhase.REQUEST_BODY, ProcessingPhase.RESPONSE_BODY])
def test_large_bodies_are_read_as_the_library_writes_them(phase, size):
    for ends, observed in ((False, False), (True, False), (False, True)):
        request = REQUEST()
        message = getattr(request, phase.name.lower())
        message.body, message.end_of_stream = bytes(range(250)) * (size // 250) + b"x" * (size % 250), ends
        request.observability_mode = observed
        expected = ProcessingRequest(phase, body=message.body, ends=ends, observed=observed)
        written = request.SerializeToString()
        assert messages.read(written) == expected
        # Of a field that comes twice the last counts, in this message and in the one around it.
        assert messages.read(written + nested(phase.value, nested(1, b"last"))).body == b"last"
        for cut in (1, size // 2, size):
            with pytest.raises(WireError):
                messages.read(written[:-cut] if not observed else written[: -cut - 2])


def test_large_bodies_that_are_not_first_in_their_message():
    body = b"x" * 20_000
    written = nested(ProcessingPhase.REQUEST_BODY.value, b"\x10\x01" + nested(1, body))
    assert messages.read(written) == ProcessingRequest(ProcessingPhase.REQUEST_BODY, body=body, ends=True)
    assert messages.read(nested(8, b"m") + written) == ProcessingRequest(
        ProcessingPhase.REQUEST_BODY, body=body, ends=True, metadata=b"m"
    )
    with pytest.raises(WireError):
        messages.read(nested(ProcessingPhase.REQUEST_BODY.value, b"\x0a" + number(30_000) + body))


def test_a_message_about_nothing_known():
    assert messages.read(b"") == ProcessingRequest()
    assert messages.read(nested(77, b"later")) == ProcessingRequest()


def test_headers_that_were_read_before_are_read_the_same_and_few_are_kept():
    def header_map(*entries):
        made = PROTOS["HeaderMap"]()
        _fill(made.headers, entries)
        return made.SerializeToString()

    mixed = header_map(("a", "1", True), ("long", "v" * 200, True), ("b", "2", False), ("a", "3", True))
    expected = {"a": "1,3", "long": "v" * 200, "b": "2"}
    assert [messages.read_headers(mixed) for _ in range(3)] == [expected] * 3
    for number_ in range(10_000):
        assert messages.read_headers(header_map(("n", str(number_), True))) == {"n": str(number_)}
    assert len(messages._KNOWN) <= 4096
    assert messages.read_headers(mixed) == expected


def test_headers_before_the_length_that_were_read_before_are_read_the_same():
    def asked(*entries):
        request = REQUEST()
        _fill(request.request_headers.headers.headers, [(*entry, True) for entry in entries])
        return messages.read(request.SerializeToString()).headers

    first = [(":path", "/a"), ("accept", "text/plain")]
    for length, identity in (("5", "a" * 36), ("6", "b" * 36), ("6", "c" * 30)):
        last = [("content-length", length), ("x-request-id", identity)]
        assert asked(*first, *last) == dict([*first, *last])
        assert asked(*first, *last, ("accept", "image/png"))["accept"] == "text/plain,image/png"
    # A value that begins like that header.
    odd = ("x-odd", "\n\x20\n\x0econtent-length\x1a\x015")
    assert asked(*first, odd) == asked(*first, odd) == dict([*first, odd])
    messages._BEGINNINGS.clear()
    for count in range(messages._MOST_BEGINNINGS + 10):
        asked(("x-count", str(count)), ("content-length", "1"))
    assert len(messages._BEGINNINGS) <= messages._MOST_BEGINNINGS


@given(pairs, st.integers(0, 400))
def test_headers_that_are_cut_off_are_an_error_or_fewer(entries, cut):
    made = PROTOS["HeaderMap"]()
    _fill(made.headers, entries)
    whole_map = made.SerializeToString()
    messages.read_headers(whole_map)
    try:
        found = messages.read_headers(whole_map[:cut])
    except WireError:
        return
    assert set(found) <= {name for name, _, _ in entries}


def test_names_are_lower_case_and_values_any_bytes():
    request = REQUEST()
    request.response_headers.headers.headers.add(key="X-A", value="1")
    request.response_headers.headers.headers.add(key="x-b", raw_value=b"\xff\xfe")
    assert messages.read(request.SerializeToString()).headers == {"x-a": "1", "x-b": "\xff\xfe"}


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_metadata_is_read_as_the_library_writes_it(value):
    request = REQUEST()
    entry = request.metadata_context.filter_metadata.add(key="envoy.lb")
    entry.value.update({"key": value, "other": "x"})
    request.metadata_context.filter_metadata.add(key="another").value.update({"key": "wrong"})
    metadata = messages.read(request.SerializeToString()).metadata
    assert messages.read_metadata(metadata, b"envoy.lb", b"key") == value
    assert messages.read_metadata(metadata, b"envoy.lb", b"absent") is None
    assert messages.read_metadata(metadata, b"nowhere", b"key") is None


def test_attributes_are_read_as_the_library_writes_them():
    request = REQUEST()
    request.response_headers.SetInParent()
    wanted = request.attributes.add(key="envoy.filters.http.ext_proc")
    wanted.value.update({"response.code_details": "via_upstream"})
    request.attributes.add(key="another").value.update({"response.code_details": "wrong"})
    found = messages.read(request.SerializeToString())
    read = messages.read_metadata(found.attributes, b"envoy.filters.http.ext_proc", b"response.code_details")
    assert (found.phase, read) == (messages.ProcessingPhase.RESPONSE_HEADERS, "via_upstream")


def test_deep_metadata_is_cut_off():
    value = nested(3, b"end")
    for _ in range(50):
        value = nested(6, nested(1, value))
    metadata = nested(1, nested(1, b"n") + nested(2, nested(1, nested(1, b"k") + nested(2, value))))
    found = messages.read_metadata(metadata, b"n", b"k")
    depth = 0
    while isinstance(found, list):
        found, depth = found[0], depth + 1
    assert (found, depth) == (None, 8)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_message_or_an_error(data):
    try:
        incoming = messages.read(data)
        messages.read_metadata(incoming.metadata, b"envoy.lb", b"k")
        messages.read_headers(data)
    except WireError:
        return


@pytest.mark.parametrize("data", [b"\x0b", b"\x0a\x05a", b"\x80", b"\x08", b"\x09abc", b"\x08" + b"\xff" * 11])
def test_bytes_that_are_no_message(data):
    with pytest.raises(WireError):
        fields(data)


@given(st.integers(0, 2**63 - 1))
def test_numbers_come_back(value):
    coded = number(value)
    assert varint(coded, 0) == (value, len(coded))


def _told(reply):
    return MessageToDict(RESPONSE.FromString(reply), preserving_proto_field_name=True)


def _overwrites(**headers):
    return [
        {
            "header": {"key": name.replace("_", "-"), "raw_value": base64.b64encode(value.encode()).decode()},
            "append_action": 2,
        }
        for name, value in headers.items()
    ]


METADATA = {"envoy.lb": {"x-gateway-destination-endpoint": "10.0.0.1:80,[::1]:81"}}


def test_sending_on():
    reply = messages.mutate_request(
        ProcessingPhase.REQUEST_HEADERS, "10.0.0.1:80,[::1]:81", (("x-a", "b"),), ("x-c", "x-d")
    )
    assert _told(reply) == {
        "request_headers": {
            "response": {
                "header_mutation": {
                    "set_headers": _overwrites(x_gateway_destination_endpoint="10.0.0.1:80,[::1]:81", x_a="b"),
                    "remove_headers": ["x-c", "x-d"],
                },
                "clear_route_cache": True,
            }
        },
        "dynamic_metadata": METADATA,
    }


def test_sending_on_by_the_reply_to_a_body():
    told = _told(messages.mutate_request(ProcessingPhase.REQUEST_BODY, "10.0.0.1:80,[::1]:81"))
    assert told == {
        "request_body": {
            "response": {
                "header_mutation": {"set_headers": _overwrites(x_gateway_destination_endpoint="10.0.0.1:80,[::1]:81")},
                "clear_route_cache": True,
            }
        },
        "dynamic_metadata": METADATA,
    }
    changed = _told(messages.mutate_request_and_body("10.0.0.1:80,[::1]:81", (), (), b"abc"))
    assert changed["request_body"]["response"]["body_mutation"] == {"body": "YWJj"}
    assert changed["request_body"]["response"]["header_mutation"]["set_headers"] == _overwrites(
        x_gateway_destination_endpoint="10.0.0.1:80,[::1]:81", content_length="3"
    )


@given(st.binary(max_size=20_000), st.booleans())
def test_pieces_of_bodies(body, ends):
    check_piece(body, ends=ends)


@pytest.mark.parametrize("ends", [False, True])
def test_pieces_of_bodies_whose_lengths_just_fit_their_bytes(ends):
    for size in (*range(110, 135), *range(16_350, 16_390)):
        check_piece(b"x" * size, ends=ends)


def check_piece(body, *, ends):
    for phase, field in (
        (ProcessingPhase.REQUEST_BODY, "request_body"),
        (ProcessingPhase.RESPONSE_BODY, "response_body"),
    ):
        expected = RESPONSE()
        streamed = getattr(expected, field).response.body_mutation.streamed_response
        streamed.SetInParent()
        streamed.body, streamed.end_of_stream = body, ends
        assert RESPONSE.FromString(messages.stream_body(phase, body, ends=ends)) == expected


@pytest.mark.parametrize("phase", UNCHANGED)
def test_replies_that_change_nothing(phase):
    assert _told(UNCHANGED[phase]) == {phase.name.lower(): {}}


def test_other_replies():
    assert _told(messages.replace_body(ProcessingPhase.RESPONSE_BODY, b"abc")) == {
        "response_body": {"response": {"body_mutation": {"body": "YWJj"}}}
    }
    assert _told(messages.mutate_response((("x-a", "b"),), ("x-c",))) == {
        "response_headers": {
            "response": {"header_mutation": {"set_headers": _overwrites(x_a="b"), "remove_headers": ["x-c"]}}
        }
    }
    assert _told(messages.immediate_response(429, (("retry-after", "1"),), b"abc", "Saturated")) == {
        "immediate_response": {
            "status": {"code": 429},
            "headers": {"set_headers": _overwrites(retry_after="1")},
            "body": "YWJj",
            "details": "Saturated",
        }
    }
