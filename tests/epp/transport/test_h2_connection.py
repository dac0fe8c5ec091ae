"""The rules of RFC 9113 for a server, one raw frame after another, and arbitrary frames that must never hurt."""

import struct

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.epp.transport.calls import BatchHandler, GrpcStatus
from modelplane.epp.transport.h2 import frames, hpack
from modelplane.epp.transport.h2.connection import H2Connection
from modelplane.epp.transport.h2.flood_guard import TokenBucket
from modelplane.epp.transport.h2.frames import PREFACE, ErrorCode, FrameType, frame
from modelplane.epp.transport.h2.limits import H2Limits
from modelplane.epp.transport.h2.request_head import RequestHead, read_request_head

PATH = "/test.Echo/Talk"
CALL = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", PATH.encode()),
    (b":authority", b"picker"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
)
LIMITS = H2Limits(
    streams=4, frame_bytes=16_384, message_bytes=50_000, header_list_bytes=1000, header_block_bytes=2000,
    stream_window=100_000, connection_window=200_000, unsent_bytes=1000, resets=5, no_op_frames=50,
)  # fmt: skip


class Echo:
    def __init__(self, call, log):
        self.call = call
        self.log = log

    def message(self, message):
        self.log.append(message)
        if message == b"fail":
            raise RuntimeError("asked to fail")
        if message == b"end":
            self.call.finish()
        elif message.startswith(b"x"):
            self.call.send(message)

    def closed(self):
        self.log.append("closed")
        self.call.finish()

    def cancelled(self):
        self.log.append("cancelled")


class EchoOfSeveral(Echo, BatchHandler):
    """The same for messages that came together."""

    def messages(self, messages):
        self.log.append(len(messages))
        for message in messages:
            self.message(message)


class Peer:
    """A client made of frames. One that was `met` begins its calls with a block that is known."""

    def __init__(self, limits=LIMITS, *, begun=True, met=False, fast=True):
        self.log = []
        self.woken = 0
        self.now_s = 0.0
        self.calls = []
        self.connection = H2Connection({PATH: self._make}, limits, now_s=0.0, on_output=self._wake, fast=fast)
        self.greeting = self.connection.take_output()
        if begun:
            self.sends(PREFACE, frame(FrameType.SETTINGS, 0, 0), frame(FrameType.SETTINGS, 1, 0))
        if met:
            # As after a first call with this block, whose stream would be in the way here.
            self.connection._decoder.read(block())
            if fast:
                self.connection._fast_path.learn(block(), self._make, -1.0)

    def _make(self, call):
        self.calls.append(call)
        return Echo(call, self.log)

    def _wake(self):
        self.woken += 1

    def sends(self, *parts):
        """Send, and hear what comes back: names of frames with what matters in them."""
        self.connection.receive(b"".join(parts), self.now_s)
        return self.hears()

    def hears(self):
        return list(told(self.connection.take_output()))


def told(data):
    """Frames in words: `DATA 1 5`, `RST_STREAM 1 CANCEL`, `GOAWAY 0 7 PROTOCOL_ERROR`."""
    while data:
        length = int.from_bytes(data[:3], "big")
        kind, flags, identity = FrameType(data[3]), data[4], int.from_bytes(data[5:9], "big")
        payload, data = data[9 : 9 + length], data[9 + length :]
        yield " ".join(str(word) for word in (kind.name, identity, *_details(kind, flags, payload)))


def _details(kind, flags, payload):
    if kind is FrameType.GOAWAY:
        return [int.from_bytes(payload[:4], "big"), ErrorCode(int.from_bytes(payload[4:8], "big")).name]
    if kind is FrameType.RST_STREAM:
        return [ErrorCode(int.from_bytes(payload, "big")).name]
    if kind is FrameType.WINDOW_UPDATE:
        return [int.from_bytes(payload, "big")]
    if kind is FrameType.HEADERS:
        headers = dict(hpack.Decoder(10_000).read(payload))
        shown = [headers[name].decode() for name in (b":status", b"grpc-status") if name in headers]
        return ["+".join(shown), *(["end"] if flags & 1 else [])]
    return [len(payload) if kind is FrameType.DATA else "ack" if flags & 1 else payload.hex()]


def block(headers=CALL, *, shrunk=True):
    return (b"\x20" if shrunk else b"") + b"".join(hpack.literal(*header) for header in headers)


def opens(identity=1, flags=4, headers=CALL):
    return frame(FrameType.HEADERS, flags, identity, block(headers))


def data(message, identity=1, flags=0):
    return frame(FrameType.DATA, flags, identity, frames.message(message))


def ends(identity=1):
    return frame(FrameType.DATA, 1, identity)


def with_header(*extra):
    return opens(headers=(*CALL, *extra))


def without(name):
    return opens(headers=tuple(header for header in CALL if header[0] != name))


def setting(number, value):
    return frame(FrameType.SETTINGS, 0, 0, struct.pack(">HI", number, value))


def test_the_greeting():
    peer = Peer(begun=False)
    assert list(told(peer.greeting)) == [
        "SETTINGS 0 000100000000000300000004000400" + "0186a0" + "0005000040000006000003e8",
        "WINDOW_UPDATE 0 134465",
    ]
    assert peer.sends(PREFACE, frame(FrameType.SETTINGS, 0, 0)) == ["SETTINGS 0 ack"]


# By section of RFC 9113: what a client sends after the preface and settings, and what it hears.
FAULTS = {
    # 4.1, 4.2: frames
    "4.2 a frame larger than announced": ([frames.head(FrameType.DATA, 0, 1, 16_385)], ["GOAWAY 0 0 FRAME_SIZE_ERROR"]),
    "4.1 an unknown type is ignored": ([frame(0x16, 0xFF, 7, b"abc")], []),
    "4.1 the reserved bit is ignored": ([frame(FrameType.PING, 0, 1 << 31, b"12345678")], ["PING 0 ack"]),
    "4.3 a block that cannot be read": (
        [frame(FrameType.HEADERS, 4, 1, b"\x20\xbe")],
        ["GOAWAY 0 0 COMPRESSION_ERROR"],
    ),
    # 5.1: states of a stream
    "5.1 data on an idle stream": ([data(b"a")], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "5.1 a reset of an idle stream": ([frames.reset(1, 8)], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "5.1 a window of an idle stream": ([frames.window_update(1, 5)], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "5.1 a continuation of an idle stream": ([frame(FrameType.CONTINUATION, 4, 1)], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "5.1 data after the end": (
        [opens(flags=5), data(b"a")],
        ["HEADERS 1 200+0 end", "RST_STREAM 1 STREAM_CLOSED"],
    ),
    "5.1 headers after the end": (
        [opens(flags=5), frame(FrameType.HEADERS, 5, 1, b"\x82")],
        ["HEADERS 1 200+0 end", "GOAWAY 0 1 STREAM_CLOSED"],
    ),
    "5.1 data after a reset by the peer": (
        [opens(), frames.reset(1, 8), data(b"a")],
        ["RST_STREAM 1 STREAM_CLOSED"],
    ),
    "5.1 headers after a reset by the peer": (
        [opens(), frames.reset(1, 8), frame(FrameType.HEADERS, 5, 1, b"\x82")],
        ["GOAWAY 0 1 STREAM_CLOSED"],
    ),
    "5.1 a window of a closed stream is ignored": (
        [opens(flags=5), frames.window_update(1, 5)],
        ["HEADERS 1 200+0 end"],
    ),
    "5.1 data and trailers on their way when we ended it": (
        [opens(), data(b"end"), data(b"a"), frame(FrameType.HEADERS, 5, 1, b"\x00\x01a\x01b")],
        ["HEADERS 1 200+0 end"],
    ),
    "5.1.1 an even stream": ([opens(2)], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "5.1.1 stream 0": ([opens(0)], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "5.1.1 a stream below the last": (
        [opens(5), frame(FrameType.HEADERS, 4, 3, block(shrunk=False))],
        ["GOAWAY 0 5 STREAM_CLOSED"],
    ),
    "5.1.2 more streams than announced": (
        [opens(1), *(frame(FrameType.HEADERS, 4, n, block(shrunk=False)) for n in (3, 5, 7, 9))],
        ["RST_STREAM 9 REFUSED_STREAM"],
    ),
    # 6.1 DATA
    "6.1 data of the connection": ([data(b"a", 0)], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "6.1 more padding than frame": (
        [opens(), frame(FrameType.DATA, 8, 1, b"\x05abc")],
        ["GOAWAY 0 1 PROTOCOL_ERROR"],
    ),
    "6.1 padded, without its length": ([opens(), frame(FrameType.DATA, 8, 1)], ["GOAWAY 0 1 PROTOCOL_ERROR"]),
    # 6.2 HEADERS
    "6.2 too short for a priority": ([frame(FrameType.HEADERS, 0x24, 1, b"123")], ["GOAWAY 0 0 FRAME_SIZE_ERROR"]),
    "6.2 more padding than frame": ([frame(FrameType.HEADERS, 0xC, 1, b"\x09123")], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "6.2 another frame inside a block": (
        [frame(FrameType.HEADERS, 0, 1, b"\x20"), frame(FrameType.PING, 0, 0, b"12345678")],
        ["GOAWAY 0 0 PROTOCOL_ERROR"],
    ),
    "6.2 an unknown frame inside a block": (
        [frame(FrameType.HEADERS, 0, 1, b"\x20"), frame(0x16, 0, 0)],
        ["GOAWAY 0 0 PROTOCOL_ERROR"],
    ),
    # 6.3 PRIORITY
    "6.3 a priority is ignored": ([frame(FrameType.PRIORITY, 0, 9, b"12345")], []),
    "6.3 a priority of the connection": ([frame(FrameType.PRIORITY, 0, 0, b"12345")], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "6.3 a priority of four bytes": ([frame(FrameType.PRIORITY, 0, 9, b"1234")], ["RST_STREAM 9 FRAME_SIZE_ERROR"]),
    # 6.4 RST_STREAM
    "6.4 a reset of the connection": ([frames.reset(0, 8)], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "6.4 a reset of three bytes": (
        [opens(), frame(FrameType.RST_STREAM, 0, 1, b"123")],
        ["GOAWAY 0 1 FRAME_SIZE_ERROR"],
    ),
    # 6.5 SETTINGS
    "6.5 settings of a stream": ([frame(FrameType.SETTINGS, 0, 1)], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "6.5 an acknowledgement with settings": ([frame(FrameType.SETTINGS, 1, 0, b"1")], ["GOAWAY 0 0 FRAME_SIZE_ERROR"]),
    "6.5 settings of five bytes": ([frame(FrameType.SETTINGS, 0, 0, b"12345")], ["GOAWAY 0 0 FRAME_SIZE_ERROR"]),
    "6.5.2 push of 2": ([setting(2, 2)], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "6.5.2 a window of 2^31": ([setting(4, 1 << 31)], ["GOAWAY 0 0 FLOW_CONTROL_ERROR"]),
    "6.5.2 frames of 16383": ([setting(5, 16_383)], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "6.5.2 frames of 2^24": ([setting(5, 1 << 24)], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "6.5.2 an unknown setting is ignored": ([setting(0x99, 7)], ["SETTINGS 0 ack"]),
    "6.5.3 settings are acknowledged": ([setting(5, 20_000)], ["SETTINGS 0 ack"]),
    # 6.6 to 6.8
    "6.6 a push": ([frame(FrameType.PUSH_PROMISE, 4, 1, b"1234")], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "6.7 a ping": ([frame(FrameType.PING, 0, 0, b"12345678")], ["PING 0 ack"]),
    "6.7 the answer to a ping": ([frame(FrameType.PING, 1, 0, b"12345678")], []),
    "6.7 a ping of a stream": ([frame(FrameType.PING, 0, 1, b"12345678")], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "6.7 a ping of seven bytes": ([frame(FrameType.PING, 0, 0, b"1234567")], ["GOAWAY 0 0 FRAME_SIZE_ERROR"]),
    "6.8 a stream goes away": ([frame(FrameType.GOAWAY, 0, 1, b"12345678")], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "6.8 a goaway of seven bytes": ([frame(FrameType.GOAWAY, 0, 0, b"1234567")], ["GOAWAY 0 0 FRAME_SIZE_ERROR"]),
    # 6.9 WINDOW_UPDATE
    "6.9 a window grows by 0": ([opens(), frames.window_update(1, 0)], ["RST_STREAM 1 PROTOCOL_ERROR"]),
    "6.9 the connection's window grows by 0": ([frames.window_update(0, 0)], ["GOAWAY 0 0 PROTOCOL_ERROR"]),
    "6.9 a window update of three bytes": (
        [frame(FrameType.WINDOW_UPDATE, 0, 0, b"123")],
        ["GOAWAY 0 0 FRAME_SIZE_ERROR"],
    ),
    "6.9.1 a window of 2^31": (
        [opens(), frames.window_update(1, frames.LARGEST_WINDOW)],
        ["RST_STREAM 1 FLOW_CONTROL_ERROR"],
    ),
    "6.9.1 the connection's window of 2^31": (
        [frames.window_update(0, frames.LARGEST_WINDOW)],
        ["GOAWAY 0 0 FLOW_CONTROL_ERROR"],
    ),
    "6.9.2 settings that make a window overflow": (
        [opens(), frames.window_update(1, 5), setting(4, frames.LARGEST_WINDOW)],
        ["GOAWAY 0 1 FLOW_CONTROL_ERROR"],
    ),
    # 6.10 CONTINUATION
    "6.10 a continuation of nothing": (
        [opens(), frame(FrameType.CONTINUATION, 4, 1, b"\x82")],
        ["GOAWAY 0 1 PROTOCOL_ERROR"],
    ),
    "6.10 a continuation of another stream": (
        [frame(FrameType.HEADERS, 0, 1, b"\x20"), frame(FrameType.CONTINUATION, 4, 3, b"\x82")],
        ["GOAWAY 0 0 PROTOCOL_ERROR"],
    ),
    "6.10 a block without end": (
        [frame(FrameType.HEADERS, 0, 1, b"\x20"), *([frame(FrameType.CONTINUATION, 0, 1, b"a" * 900)] * 3)],
        ["GOAWAY 0 0 ENHANCE_YOUR_CALM"],
    ),
    # 8.1 to 8.3: malformed requests
    "8.1 trailers that end nothing": (
        [opens(), frame(FrameType.HEADERS, 4, 1, b"\x00\x01a\x01b")],
        ["RST_STREAM 1 PROTOCOL_ERROR"],
    ),
    "8.1 a pseudo-header in trailers": (
        [opens(), frame(FrameType.HEADERS, 5, 1, b"\x82")],
        ["RST_STREAM 1 PROTOCOL_ERROR"],
    ),
    "8.1.1 content-length 5, one byte": (
        [with_header((b"content-length", b"5")), frame(FrameType.DATA, 1, 1, b"a")],
        ["RST_STREAM 1 PROTOCOL_ERROR"],
    ),
    "8.2.1 an upper-case name": ([with_header((b"X-a", b"b"))], ["RST_STREAM 1 PROTOCOL_ERROR"]),
    "8.2.1 a new line in a value": ([with_header((b"x-a", b"b\nc"))], ["RST_STREAM 1 PROTOCOL_ERROR"]),
    "8.2.1 a space before a value": ([with_header((b"x-a", b" b"))], ["RST_STREAM 1 PROTOCOL_ERROR"]),
    "8.2.2 a header of connections": ([with_header((b"connection", b"close"))], ["RST_STREAM 1 PROTOCOL_ERROR"]),
    "8.2.2 te: gzip": ([with_header((b"te", b"gzip"))], ["RST_STREAM 1 PROTOCOL_ERROR"]),
    "8.3 a pseudo-header after a header": ([with_header((b":path", b"/b"))], ["RST_STREAM 1 PROTOCOL_ERROR"]),
    "8.3 a pseudo-header that is unknown": (
        [opens(headers=((b":odd", b"1"), *CALL))],
        ["RST_STREAM 1 PROTOCOL_ERROR"],
    ),
    "8.3 a pseudo-header of responses": (
        [opens(headers=((b":status", b"200"), *CALL))],
        ["RST_STREAM 1 PROTOCOL_ERROR"],
    ),
    "8.3.1 no method": ([without(b":method")], ["RST_STREAM 1 PROTOCOL_ERROR"]),
    "8.3.1 no scheme": ([without(b":scheme")], ["RST_STREAM 1 PROTOCOL_ERROR"]),
    "8.3.1 no path": ([without(b":path")], ["RST_STREAM 1 PROTOCOL_ERROR"]),
    "8.3.1 two methods": ([opens(headers=(CALL[0], *CALL))], ["RST_STREAM 1 PROTOCOL_ERROR"]),
    "8.3.1 an empty path": (
        [opens(headers=tuple((n, b"" if n == b":path" else v) for n, v in CALL))],
        ["RST_STREAM 1 PROTOCOL_ERROR"],
    ),
    # gRPC
    "gRPC: not POST": (
        [opens(headers=((b":method", b"GET"), *CALL[1:]), flags=5)],
        ["HEADERS 1 405 end"],
    ),
    "gRPC: no content type of gRPC": ([without(b"content-type")], ["HEADERS 1 415 end"]),
    "gRPC: a timeout that is none": (
        [with_header((b"grpc-timeout", b"soon"))],
        ["HEADERS 1 400 end"],
    ),
    "gRPC: a path that is not served": (
        [opens(headers=tuple((n, b"/b" if n == b":path" else v) for n, v in CALL), flags=5)],
        ["HEADERS 1 200+12 end"],
    ),
    "gRPC: a compressed message": (
        [opens(), frame(FrameType.DATA, 0, 1, b"\x01\x00\x00\x00\x01a")],
        ["HEADERS 1 200+12 end"],
    ),
    "gRPC: a message that is too large": (
        [opens(), frame(FrameType.DATA, 0, 1, b"\x00\x00\x01\x00\x00a")],
        ["HEADERS 1 200+8 end"],
    ),
    "gRPC: the end inside a message": (
        [opens(), frame(FrameType.DATA, 1, 1, b"\x00\x00\x00\x00\x02a")],
        ["HEADERS 1 200+13 end"],
    ),
    "gRPC: a handler that fails": (
        [opens(), data(b"fail")],
        ["HEADERS 1 200+13 end"],
    ),
    "a header list that is too long": (
        [with_header((b"x-long", b"a" * 900)), frame(FrameType.HEADERS, 5, 3, block(shrunk=False))],
        ["RST_STREAM 1 ENHANCE_YOUR_CALM", "HEADERS 3 200+0 end"],
    ),
}


@pytest.mark.parametrize("met", [False, True], ids=["strange", "met before"])
@pytest.mark.parametrize(("sent", "heard"), FAULTS.values(), ids=FAULTS.keys())
def test_what_a_frame_leads_to(sent, heard, met, caplog):
    caplog.set_level("CRITICAL")
    peer = Peer(met=met)
    assert peer.sends(*sent) == heard
    assert peer.connection.closing is any(word.startswith("GOAWAY") for word in heard)


def test_a_table_that_was_not_given_up():
    assert Peer().sends(frame(FrameType.HEADERS, 4, 1, b"\x82")) == ["GOAWAY 0 0 COMPRESSION_ERROR"]


@pytest.mark.parametrize("size", [1, 2, 7, 100])
@pytest.mark.parametrize("case", ["6.7 a ping", "5.1 data after the end", "8.1.1 content-length 5, one byte"])
def test_how_bytes_are_cut_does_not_matter(case, size):
    sent, heard = FAULTS[case]
    peer = Peer(begun=False)
    whole = b"".join([PREFACE, frame(FrameType.SETTINGS, 0, 0), frame(FrameType.SETTINGS, 1, 0), *sent])
    for place in range(0, len(whole), size):
        peer.connection.receive(whole[place : place + size], 0.0)
    assert peer.hears() == ["SETTINGS 0 ack", *heard]


@pytest.mark.parametrize(
    ("sent", "heard"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", ["GOAWAY 0 0 PROTOCOL_ERROR"]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX", ["GOAWAY 0 0 PROTOCOL_ERROR"]),
        (PREFACE + frame(FrameType.PING, 0, 0, b"12345678"), ["GOAWAY 0 0 PROTOCOL_ERROR"]),
        (PREFACE + frame(FrameType.SETTINGS, 1, 0), ["GOAWAY 0 0 PROTOCOL_ERROR"]),
        (PREFACE[:10], []),
    ],
    ids=["HTTP/1", "almost HTTP/2", "a ping first", "an acknowledgement first", "not all yet"],
)
def test_how_connections_begin(sent, heard):
    assert Peer(begun=False).sends(sent) == heard


def test_a_call_before_our_settings_were_read_may_use_the_table():
    peer = Peer(begun=False)
    first = b"".join(b"\x40" + hpack.literal(*header)[1:] for header in CALL)
    again = bytes(0x80 | 62 + place for place in range(len(CALL) - 1, -1, -1))
    sent = [frame(FrameType.HEADERS, 5, 1, first), frame(FrameType.HEADERS, 5, 3, again)]
    assert peer.sends(PREFACE, frame(FrameType.SETTINGS, 0, 0), *sent) == [
        "SETTINGS 0 ack",
        "HEADERS 1 200+0 end",
        "HEADERS 3 200+0 end",
    ]


def test_a_message_in_pieces_and_padding_and_several_in_one_frame():
    peer = Peer()
    message = frames.message(b"xab")
    padded = frame(FrameType.DATA, 8, 1, b"\x03" + message + b"\x00\x00\x00")
    pieces = [
        frame(FrameType.DATA, 0, 1, message[:3]),
        frame(FrameType.DATA, 0, 1, message[3:6]),
        frame(FrameType.DATA, 0, 1, b"ab"),
    ]
    assert peer.sends(opens(), padded, *pieces, frame(FrameType.DATA, 1, 1, message + message)) == [
        "HEADERS 1 200",
        *["DATA 1 8"] * 4,
        "HEADERS 1 0 end",
    ]
    assert peer.log == [b"xab"] * 4 + ["closed"]


def test_trailers_end_a_call_too():
    peer = Peer()
    assert peer.sends(opens(), data(b"a"), frame(FrameType.HEADERS, 5, 1, b"\x00\x01a\x01b")) == ["HEADERS 1 200+0 end"]
    assert peer.log == [b"a", "closed"]


def test_a_block_in_pieces():
    peer = Peer()
    whole = block()
    sent = [frame(FrameType.HEADERS, 1, 1, whole[:9]), frame(FrameType.CONTINUATION, 0, 1, whole[9:20])]
    assert peer.sends(*sent, frame(FrameType.CONTINUATION, 4, 1, whole[20:])) == ["HEADERS 1 200+0 end"]


def test_a_priority_and_padding_before_a_block():
    peer = Peer()
    payload = b"\x02" + b"\x00\x00\x00\x00\x10" + block() + b"\x00\x00"
    assert peer.sends(frame(FrameType.HEADERS, 0x2D, 1, payload)) == ["HEADERS 1 200+0 end"]


def test_what_is_sent_waits_for_the_windows():
    peer = Peer()
    assert peer.sends(setting(4, 10), opens(), data(b"x" * 30)) == ["SETTINGS 0 ack", "HEADERS 1 200", "DATA 1 10"]
    assert peer.sends(frames.window_update(1, 5)) == ["DATA 1 5"]
    assert peer.sends(setting(4, 0)) == ["SETTINGS 0 ack"]
    assert peer.sends(frames.window_update(1, 5)) == []
    assert peer.sends(frames.window_update(1, 8), frame(FrameType.DATA, 1, 1)) == ["DATA 1 3"]
    assert peer.sends(setting(4, 100)) == ["DATA 1 17", "HEADERS 1 0 end", "SETTINGS 0 ack"]
    assert peer.connection._streams.count == 0


def test_streams_share_the_window_of_the_connection():
    peer = Peer()
    peer.sends(setting(4, 1_000_000), opens(1), frame(FrameType.HEADERS, 4, 3, block(shrunk=False)))
    big = b"x" * 40_000
    heard = []
    for identity in (1, 3):
        whole = frames.message(big)
        heard += peer.sends(
            *(frame(FrameType.DATA, 0, identity, whole[at : at + 16_000]) for at in (0, 16_000, 32_000))
        )
    sent = sum(int(word.split()[2]) for word in heard if word.startswith("DATA"))
    assert sent == 65_535
    assert peer.sends(frames.window_update(0, 1)) == ["DATA 3 1"]
    after = peer.sends(frames.window_update(0, 100_000))
    assert sent + 1 + sum(int(word.split()[2]) for word in after) == 2 * 40_005


def test_frames_are_as_large_as_the_peer_takes():
    peer = Peer()
    message = frames.message(b"x" * 40_000)
    pieces = [frame(FrameType.DATA, 0, 1, message[at : at + 16_000]) for at in (0, 16_000, 32_000)]
    assert peer.sends(opens(), *pieces) == ["HEADERS 1 200", "DATA 1 16384", "DATA 1 16384", "DATA 1 7237"]


def test_the_peer_may_send_on_as_long_as_it_reads():
    peer = Peer()
    peer.sends(setting(4, 0), opens())
    step = b"x" * 10_000
    heard = [word for _ in range(9) for word in peer.sends(data(step))]
    assert heard == ["HEADERS 1 200"]
    assert peer.sends(data(step)) == ["WINDOW_UPDATE 0 100050", "RST_STREAM 1 FLOW_CONTROL_ERROR"]
    peer = Peer()
    peer.sends(setting(4, 0), opens())
    for _ in range(6):
        peer.sends(data(step))
    assert peer.sends(frames.window_update(1, 70_000), frames.window_update(0, 70_000)) == [
        *("DATA 1 16384", "DATA 1 16384", "DATA 1 16384", "DATA 1 10878", "WINDOW_UPDATE 1 60030")
    ]


def test_more_than_the_connection_allows():
    peer = Peer(H2Limits(connection_window=70_000, stream_window=1_000_000, frame_bytes=65_536))
    unread = frames.head(FrameType.DATA, 0, 1, 34_000) + frames.message(b"a" * 60_000)[:34_000]
    peer.sends(opens(), unread)
    assert peer.sends(frames.head(FrameType.DATA, 0, 1, 36_001) + b"a" * 36_001) == ["GOAWAY 0 1 FLOW_CONTROL_ERROR"]


@pytest.mark.parametrize(
    ("flood", "limit"),
    [
        (frame(FrameType.PING, 0, 0, b"12345678"), 50),
        (frame(FrameType.SETTINGS, 0, 0), 50),
        (frame(FrameType.PRIORITY, 0, 9, b"12345"), 50),
        (frame(0x20, 0, 0), 50),
        (frames.window_update(0, 1), 50),
        (frames.window_update(1, 1), 50),
        (frame(FrameType.DATA, 0, 1), 50),
    ],
    ids=["pings", "settings", "priorities", "unknown", "the connection's windows", "windows", "empty data"],
)
def test_floods_end_the_connection(flood, limit):
    peer = Peer()
    peer.sends(opens())
    heard = peer.sends(flood * (limit * 3))
    assert heard[-1] == "GOAWAY 0 1 ENHANCE_YOUR_CALM"
    assert len(heard) <= limit + 1
    assert peer.log == ["cancelled"]


def test_rapid_resets_end_the_connection_and_slow_ones_do_not():
    peer = Peer()
    heard = []
    peer.sends(opens())
    for number in range(3, 100, 2):
        peer.now_s += 2.0
        heard += peer.sends(frame(FrameType.HEADERS, 4, number, block(shrunk=False)), frames.reset(number, 8))
    assert heard == []
    for number in range(101, 201, 2):
        heard += peer.sends(frame(FrameType.HEADERS, 4, number, block(shrunk=False)), frames.reset(number, 8))
    assert heard == ["GOAWAY 0 109 ENHANCE_YOUR_CALM"]


def test_what_a_reset_cancels():
    peer = Peer()
    peer.sends(opens(), data(b"a"), frames.reset(1, 8))
    assert peer.log == [b"a", "cancelled"]
    peer.calls[0].send(b"late")
    peer.calls[0].finish()
    assert peer.hears() == []


def test_unsolicited_messages_notify_the_driver():
    peer = Peer()
    peer.sends(opens(), data(b"a"))
    assert peer.woken == 0
    peer.calls[0].send(b"one", b"two")
    peer.calls[0].finish(GrpcStatus.UNAVAILABLE, "nö")
    peer.calls[0].finish()
    assert peer.woken == 2
    assert peer.hears() == ["HEADERS 1 200", "DATA 1 16", "HEADERS 1 14 end"]


def test_a_peer_that_sends_after_our_end_is_reset():
    peer = Peer()
    assert peer.sends(opens(), data(b"end")) == ["HEADERS 1 200+0 end"]
    assert peer.sends(data(b"more")) == []
    peer.connection.tick(0.9)
    assert peer.hears() == []
    peer.connection.tick(1.1)
    assert peer.hears() == ["RST_STREAM 1 NO_ERROR"]
    assert peer.sends(data(b"still more", flags=1)) == []


@pytest.mark.parametrize(
    "last", [data(b"a", flags=1), frames.reset(1, 0), frame(FrameType.HEADERS, 5, 1, b"\x00\x01a\x01b")]
)
def test_a_peer_that_ends_after_our_end_is_left_alone(last):
    peer = Peer()
    peer.sends(opens(), data(b"end"), last)
    peer.connection.tick(10.0)
    assert peer.hears() == []


def test_a_reset_after_each_call_is_no_offence():
    peer = Peer()
    for identity in range(1, 401, 2):
        heard = peer.sends(opens(identity), data(b"x", identity), ends(identity), frames.reset(identity, 0))
        assert heard == [f"HEADERS {identity} 200", f"DATA {identity} 6"]
    assert peer.log == [b"x", "closed"] * 200


def test_a_call_that_is_reset_right_after_its_end_gets_no_trailers_and_one_that_is_reset_later_does():
    peer = Peer(met=True)
    peer.sends(opens(), data(b"x"), opens(3), data(b"x", 3))
    assert peer.sends(ends(), frames.reset(1, 8), ends(3)) == ["HEADERS 3 0 end"]
    assert peer.sends(frames.reset(3, 8)) == []
    assert peer.log == [b"x", b"x", "closed", "closed"]
    assert peer.connection._streams.count == 0


@pytest.mark.parametrize(
    ("sent", "heard", "log"),
    [
        pytest.param(
            [opens(), data(b"x"), ends(), frames.reset(3, 0)], ["HEADERS 1 0 end", "GOAWAY"], ["closed"],
            id="another stream",
        ),
        pytest.param([opens(), ends(), frames.reset(1, 0)], ["HEADERS 1 200+0 end"], ["closed"], id="no answer"),
        pytest.param(
            [opens(), data(b"x"), data(b"x")[:-1], frame(FrameType.DATA, 1, 1), frames.reset(1, 0)], ["GOAWAY"], [],
            id="a frame that is not whole",
        ),
        pytest.param(
            [opens(), data(b"x"), frame(FrameType.DATA, 0, 1, b"\0"), ends(), frames.reset(1, 0)], ["HEADERS 1 13 end"],
            ["cancelled"],
            id="half a message",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("met", [False, True], ids=["strange", "met before"])
def test_ends_with_a_reset_that_are_not_usual(sent, heard, log, met):
    peer = Peer(met=met)
    found = [words for words in peer.sends(*sent) if not words.startswith(("DATA", "HEADERS 1 200 ", "RST"))]
    shown = [words.split(" ")[0] if words.startswith("GOAWAY") else words for words in found]
    assert [words for words in shown if words != "HEADERS 1 200"][: len(heard)] == heard
    assert [word for word in peer.log if isinstance(word, str)][: len(log)] == log


def test_an_unfinished_handler_is_cancelled_by_the_reset():
    peer = Peer(met=True)
    peer.sends(opens(), data(b"x"))
    peer.calls[0]._handler.closed = lambda: peer.log.append("heard")
    peer.sends(ends(), frames.reset(1, 8))
    assert peer.log == [b"x", "heard", "cancelled"]
    assert peer.connection._streams.active == 0


def test_a_handler_that_fails_at_its_end_ends_nothing_else(caplog):
    caplog.set_level("CRITICAL")
    peer = Peer(met=True)
    peer.sends(opens(), data(b"x"), opens(3), data(b"x", 3))
    peer.calls[0]._handler.closed = lambda: 1 / 0
    assert peer.sends(ends(), frames.reset(1, 8), data(b"x2", 3)) == ["DATA 3 7"]
    assert list(peer.connection._streams._streams) == [3]


def test_messages_that_come_with_the_beginning_are_taken_together_by_those_who_want_to():
    peer = Peer(met=True)
    make = lambda call: EchoOfSeveral(call, peer.log)  # noqa: E731  what a method's maker is
    peer.connection._fast_path.learn(block(), make, -1.0)
    heard = peer.sends(opens(), data(b"x"), data(b"y"), data(b"xz"), opens(3), opens(5), data(b"x", 5)[:-1])
    assert heard == ["HEADERS 1 200", "DATA 1 6", "DATA 1 7"]
    assert peer.log == [3, b"x", b"y", b"xz"]
    peer.sends(data(b"x", 5)[-1:])
    assert peer.log[4:] == [b"x"]


def test_nothing_after_the_end_reaches_a_handler():
    peer = Peer(met=True)
    assert peer.sends(opens(), data(b"x"), data(b"end"), data(b"x")) == [
        "HEADERS 1 200",
        "DATA 1 6",
        "HEADERS 1 0 end",
    ]
    assert peer.log == [b"x", b"end"]


def test_a_known_block_is_remembered_with_its_deadline():
    peer = Peer()
    call = opens(headers=(*CALL, (b"grpc-timeout", b"1500m")))
    peer.sends(call, ends())
    peer.sends(frame(FrameType.HEADERS, 4, 3, block((*CALL, (b"grpc-timeout", b"1500m")))))
    assert [timeout_s for _, timeout_s in peer.connection._fast_path._known.values()] == [1.5]
    peer.connection.tick(1.6)
    assert peer.hears() == ["HEADERS 3 200+4 end"]


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({"streams": 1}, id="streams"),
        pytest.param({"stream_window": 40}, id="a stream's window"),
        pytest.param({"message_bytes": 10}, id="a message"),
    ],
)
def test_limits_hold_for_calls_that_begin_as_usual(limits):
    small = msgspec.structs.replace(LIMITS, **limits)
    calls = [opens(), data(b"x" * 20), data(b"x" * 20), opens(3), data(b"x", 3)]
    strange, known = Peer(small), Peer(small, met=True)
    assert strange.sends(*calls) == known.sends(*calls)
    assert strange.log == known.log


def test_resets_of_what_is_over_are_an_offence_beyond_one_a_call():
    peer = Peer()
    peer.sends(opens(), data(b"x"), ends(), *[frames.reset(1, 0)] * LIMITS.no_op_frames)
    assert peer.sends(frames.reset(1, 0)) == []
    assert peer.sends(frames.reset(1, 0)) == ["GOAWAY 0 1 ENHANCE_YOUR_CALM"]


def test_a_connection_is_idle_while_all_its_calls_are():
    peer = Peer()
    assert not peer.connection.idle
    seen = []

    def sends(*parts):
        peer.sends(*parts)
        seen.append((peer.connection._streams.count, peer.connection.idle))

    sends(opens())
    sends(data(b"x"))
    peer.calls[0].mark_idle()
    peer.calls[0].mark_idle()
    sends(opens(3))
    sends(data(b"x", 3)[:10])
    peer.calls[1].mark_idle()
    sends()
    sends(data(b"x", 3)[10:])
    sends(ends(), frames.reset(3, 8))
    sends(opens(5))
    sends(frames.reset(5, 8))
    assert seen == [
        (1, False),
        (1, False),
        (2, False),
        (2, False),
        (2, False),
        (2, True),
        (0, False),
        (1, False),
        (0, False),
    ]


def test_a_connection_that_drains_is_not_idle():
    peer = Peer()
    peer.sends(opens(), data(b"x"))
    peer.calls[0].mark_idle()
    assert peer.connection.idle
    peer.connection.drain()
    assert not peer.connection.idle


def test_a_deadline():
    peer = Peer()
    peer.sends(with_header((b"grpc-timeout", b"1500m")))
    peer.connection.tick(1.0)
    assert peer.hears() == []
    peer.connection.tick(1.5)
    assert peer.hears() == ["HEADERS 1 200+4 end"]
    assert peer.log == ["cancelled"]


@pytest.mark.parametrize(
    ("begun", "sent", "after_s"),
    [
        (False, b"", LIMITS.begin_s),
        (False, PREFACE, LIMITS.begin_s),
        (True, b"\x00\x00\x08", LIMITS.stall_s),
        (True, frame(FrameType.HEADERS, 0, 1, b"\x20"), LIMITS.stall_s),
    ],
    ids=["nothing", "no settings", "part of a frame", "part of a block"],
)
def test_peers_that_stall(begun, sent, after_s):
    peer = Peer(begun=begun)
    peer.sends(sent)
    peer.connection.tick(after_s)
    assert not peer.connection.closing
    peer.connection.tick(after_s + 0.1)
    assert peer.connection.closing
    assert peer.hears()[-1].endswith("ENHANCE_YOUR_CALM")


def test_an_idle_connection_may_stay():
    peer = Peer()
    peer.sends(opens())
    peer.connection.tick(1e6)
    assert not peer.connection.closing


def test_a_graceful_end():
    peer = Peer()
    peer.sends(opens())
    peer.connection.drain()
    assert peer.hears() == [f"GOAWAY 0 {frames.LAST_STREAM} NO_ERROR", "PING 0 " + b"drained?".hex()]
    on_its_way = frame(FrameType.HEADERS, 4, 3, block(shrunk=False))
    assert peer.sends(on_its_way) == []
    assert peer.sends(frame(FrameType.PING, 1, 0, b"drained?")) == ["GOAWAY 0 3 NO_ERROR"]
    assert peer.sends(frame(FrameType.HEADERS, 4, 5, block(shrunk=False))) == []
    assert peer.sends(frame(FrameType.DATA, 1, 1)) == ["HEADERS 1 200+0 end"]
    assert not peer.connection.closing
    peer.calls[1].finish()
    assert not peer.connection.closing
    peer.connection.tick(2.0)
    assert peer.connection.closing
    assert peer.hears() == ["HEADERS 3 200+0 end", "RST_STREAM 3 NO_ERROR"]
    assert peer.log == ["closed"]


def test_a_connection_without_calls_closes_after_the_ping_is_acknowledged():
    peer = Peer()
    peer.connection.drain()
    peer.sends(frames.window_update(0, 1))
    assert not peer.connection.closing
    peer.sends(frame(FrameType.PING, 1, 0, b"drained?"))
    assert peer.connection.closing


def test_a_peer_that_goes_away_is_served_to_the_end():
    peer = Peer()
    peer.sends(opens(), frames.goaway(0, 0))
    assert not peer.connection.closing
    assert peer.sends(frame(FrameType.DATA, 1, 1)) == ["HEADERS 1 200+0 end"]
    assert peer.connection.closing


def test_a_connection_that_is_lost_cancels_its_calls_once():
    peer = Peer()
    peer.sends(opens(1), frame(FrameType.HEADERS, 4, 3, block(shrunk=False)))
    peer.connection.connection_lost()
    peer.connection.connection_lost()
    assert peer.log == ["cancelled", "cancelled"]
    assert peer.sends(data(b"a")) == []


def test_a_tenth_of_the_tokens_comes_back_every_second():
    bucket = TokenBucket(10, 0.0)
    assert [bucket.try_spend(0.0) for _ in range(11)] == [True] * 10 + [False]
    assert [bucket.try_spend(2.0) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"5S", 5.0),
        (b"2H", 7200.0),
        (b"3M", 180.0),
        (b"7m", 0.007),
        (b"8u", 8e-6),
        (b"9n", 9e-9),
        (b"99999999S", 1e8 - 1),
    ],
)
def test_timeouts(value, expected):
    assert read_request_head((*CALL, (b"grpc-timeout", value))) == RequestHead(PATH, pytest.approx(expected))


@pytest.mark.parametrize("value", [b"", b"5", b"S", b"123456789S", b"-1S", b"1 S"])
def test_timeouts_that_are_none(value):
    assert read_request_head((*CALL, (b"grpc-timeout", value))).refused == 400


@pytest.mark.parametrize("values", [[b"a"], [b"-1"], [b"1", b"2"], [b"1" * 16]])
def test_lengths_that_are_none(values):
    headers = (*CALL, *((b"content-length", value) for value in values))
    assert read_request_head(headers).malformed == "a content-length that is not one number"


anything = st.one_of(
    st.builds(
        frame,
        st.integers(0, 12),
        st.integers(0, 255),
        st.sampled_from([0, 1, 2, 3, 5, 7, 9, 1 << 31, (1 << 31) - 1]),
        st.binary(max_size=40),
    ),
    st.builds(opens, st.sampled_from([1, 3, 5, 7, 9, 11]), st.sampled_from([0, 1, 4, 5])),
    st.builds(data, st.binary(max_size=50), st.sampled_from([1, 3, 5, 7]), st.sampled_from([0, 1])),
    st.builds(lambda size: data(b"x" * size), st.integers(0, 10_000)),
    st.builds(setting, st.integers(0, 7), st.sampled_from([0, 1, 10, 16_384, 65_535, frames.LARGEST_WINDOW, 1 << 31])),
    st.builds(frames.window_update, st.sampled_from([0, 1, 3]), st.integers(0, frames.LARGEST_WINDOW)),
    st.builds(frames.reset, st.sampled_from([1, 3, 5]), st.integers(0, 14)),
    st.builds(lambda identity: ends(identity) + frames.reset(identity, 0), st.sampled_from([1, 3, 5, 7])),
    st.builds(
        lambda identity, sent: opens(identity) + b"".join(data(message, identity) for message in sent),
        st.sampled_from([1, 3, 5, 7, 9, 11]),
        st.lists(st.sampled_from([b"", b"x", b"y", b"end", b"fail", b"x" * 9000]), max_size=9),
    ),
    st.binary(max_size=30),
)


@given(st.lists(anything, max_size=40), st.integers(1, 400), st.booleans())
@settings(max_examples=200)
def test_whatever_comes_nothing_breaks_and_little_is_held(parts, cut, met):
    peer = Peer(met=met)
    whole = b"".join(parts)
    for place in range(0, len(whole), cut):
        peer.now_s += 0.01
        peer.connection.receive(whole[place : place + cut], peer.now_s)
        peer.connection.tick(peer.now_s)
        assert held(peer.connection) <= LIMITS.frame_bytes * 2 + LIMITS.streams * 2 * LIMITS.stream_window
        assert peer.connection._streams.count <= LIMITS.streams
    list(told(peer.connection.take_output()))
    peer.connection.connection_lost()
    opened = len(peer.calls)
    assert peer.log.count("closed") + peer.log.count("cancelled") <= 2 * opened


def held(connection):
    block = len(connection._unfinished_block[2]) if connection._unfinished_block else 0
    return connection._reader.held_bytes + connection._streams.held_bytes + block


@given(st.lists(anything, max_size=40), st.booleans())
def test_bytes_in_one_piece_or_in_many_lead_to_the_same(parts, met):
    """But for trailers of a stream that is reset: they are left out where the reset came with the end."""
    whole = b"".join(parts)
    one, many = Peer(met=met), Peer(met=met)
    one.connection.receive(whole, 0.0)
    for place in range(0, len(whole), 13):
        many.connection.receive(whole[place : place + 13], 0.0)
    assert without_trailers(many.hears(), whole) == without_trailers(one.hears(), whole)
    assert many.log == one.log
    assert many.connection.closing == one.connection.closing


def test_nothing_is_read_after_the_frame_that_ends_the_connection():
    peer = Peer()
    peer.connection.receive(frame(7, 0, 0, bytes(8)) + frame(4, 0, 0, bytes(6)), 0.0)
    assert peer.connection.closing
    assert "SETTINGS 0 ack" not in peer.hears()


def without_trailers(heard, sent):
    resets = {f"HEADERS {identity} 0 end" for identity in (1, 3, 5, 7) if frames.reset(identity, 0)[:9] in sent}
    return [words for words in heard if words not in resets]


@given(st.lists(anything, max_size=40), st.integers(13, 400))
def test_the_fast_path_and_the_rules_lead_to_the_same(parts, cut):
    """But for trailers of a stream that is reset, as above."""
    whole = b"".join(parts)
    fast, slow = Peer(met=True), Peer(met=True, fast=False)
    for place in range(0, len(whole), cut):
        for peer in (fast, slow):
            peer.connection.receive(whole[place : place + cut], 0.0)
    assert without_trailers(fast.hears(), whole) == without_trailers(slow.hears(), whole)
    assert fast.log == slow.log
    assert fast.connection.closing == slow.connection.closing
    assert fast.connection._streams.active == slow.connection._streams.active
