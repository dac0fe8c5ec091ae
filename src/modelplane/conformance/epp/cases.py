"""The conformance cases. Each sends requests through the proxy and checks the responses."""

import asyncio
import base64
import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

import aiohttp
import msgspec

from modelplane.conformance.epp.proxy import HEALTH, MODES, ROUTE, SUBSET_TEXT, SUBSET_VALUE, Proxy
from modelplane.conformance.epp.upstreams import EVENTS, STRAY, Reached, Upstreams, meaning

DESTINATION = "x-gateway-destination-endpoint"
CHAT = "/v1/chat/completions"
_ABORTS, _AT_ONCE = 30, 100
_PROMPT_BYTES = 400_000
SOON_S = 15.0
_POLLS = 50
_OK, _MALFORMED, _UNAVAILABLE = 200, 400, 503
_SEVEN_BITS = 0x7F


class CaseLevel(StrEnum):
    """MUST is the protocol; SHOULD is what operators rely on in addition."""

    MUST = "MUST"
    SHOULD = "SHOULD"


class Failure(Exception):  # noqa: N818  a finding, not a defect of the kit
    """The picker does not conform; the message says what it did."""


class HttpResponse(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def reached(self) -> Reached:
        """The request that the upstream server received."""
        expect(self.status == _OK, f"status {self.status}: {self.body[:200]!r}")
        return msgspec.json.decode(self.body, type=Reached)


def expect(held: object, otherwise: str) -> None:
    if not held:
        raise Failure(otherwise)


class PoolControl(Protocol):
    """Changes the pool of the picker under test."""

    def replace(self, addresses: Sequence[str], /) -> None:
        """The pool has these of the kit's servers, and no others."""


class Bench:
    """The proxy, the upstream servers and an HTTP client."""

    def __init__(
        self,
        proxy: Proxy,
        upstreams: Upstreams,
        session: aiohttp.ClientSession,
        pool_control: "PoolControl | None" = None,
        *,
        soon_s: float = SOON_S,
    ) -> None:
        self.proxy = proxy
        self.upstreams = upstreams
        self.pool_control = pool_control
        self.soon_s = soon_s
        """How long a picker may take to follow a change."""
        self._session = session

    @property
    def pool(self) -> tuple[str, ...]:
        return self.upstreams.addresses

    async def send(
        self,
        body: object = None,
        *,
        mode: str = "full",
        path: str = CHAT,
        method: str = "POST",
        headers: dict[str, str] | None = None,
    ) -> HttpResponse:
        """Send bytes unchanged and other bodies as JSON. The default is a chat request."""
        content = body if isinstance(body, bytes) else json.dumps(chat() if body is None else body).encode()
        sent = {"content-type": "application/json", **(headers or {})}
        data = content if method == "POST" else None
        async with self._session.request(method, self.proxy.url(mode, path), data=data, headers=sent) as response:
            found = {name.lower(): text for name, text in response.headers.items()}
            return HttpResponse(response.status, found, await response.read())

    def stream(self, mode: str, headers: dict[str, str] | None = None) -> "aiohttp.client._RequestContextManager":
        body = json.dumps({**chat(), "stream": True}).encode()
        headers = {"content-type": "application/json", **(headers or {})}
        return self._session.post(self.proxy.url(mode, CHAT), data=body, headers=headers)


def chat(words: str = "hello") -> dict[str, object]:
    return {"model": "kit", "messages": [{"role": "user", "content": words}]}


class ConformanceCase(NamedTuple):
    name: str
    level: CaseLevel
    run: Callable[[Bench], Awaitable[None]]
    changes_pool: bool = False

    @property
    def title(self) -> str:
        return (self.run.__doc__ or "").strip().splitlines()[0]


CASES: list[ConformanceCase] = []


def case(
    level: CaseLevel, *, changes_pool: bool = False
) -> Callable[[Callable[[Bench], Awaitable[None]]], Callable[[Bench], Awaitable[None]]]:
    def listed(run: Callable[[Bench], Awaitable[None]]) -> Callable[[Bench], Awaitable[None]]:
        CASES.append(ConformanceCase(run.__name__.replace("_", "-"), level, run, changes_pool))
        return run

    return listed


@case(CaseLevel.MUST)
async def destination_in_metadata(bench: Bench) -> None:
    """Names the endpoint in the dynamic metadata of envoy.lb."""
    seen = (await bench.send(headers={ROUTE: "metadata"})).reached
    expect(seen.endpoint in bench.pool, f"the request went to {seen.endpoint}, which the picker did not pick")


@case(CaseLevel.MUST)
async def destination_in_header(bench: Bench) -> None:
    """Names the endpoint in the request header."""
    seen = (await bench.send(headers={ROUTE: "header"})).reached
    expect(seen.endpoint in bench.pool, f"the request went to {seen.endpoint}, which the picker did not pick")


@case(CaseLevel.MUST)
async def same_destination_in_both(bench: Bench) -> None:
    """Names the same endpoint in the header and in the metadata."""
    for number in range(10):
        seen = (await bench.send(chat(f"question {number}"), headers={ROUTE: "metadata"})).reached
        first = seen.headers.get(DESTINATION, "").partition(",")[0].strip()
        expect(first == seen.endpoint, f"the metadata led to {seen.endpoint}, the header says {first!r}")


@case(CaseLevel.MUST)
async def destinations_are_addresses(bench: Bench) -> None:
    """Writes destinations as ip:port, separated by commas. All are in the pool."""
    seen = (await bench.send()).reached
    named = [part.strip() for part in seen.headers.get(DESTINATION, "").split(",")]
    expect(set(named) <= set(bench.pool), f"{named} are not all in the pool {list(bench.pool)}")
    expect(len(named) == len(set(named)), f"{named} names an endpoint twice")


@case(CaseLevel.MUST)
async def every_mode_is_served(bench: Bench) -> None:
    """Responds in each processing mode: full duplex, both directions, buffered, headers only."""
    for mode in MODES:
        seen = (await bench.send(mode=mode)).reached
        expect(seen.endpoint in bench.pool, f"{mode}: the request went to {seen.endpoint}")


@case(CaseLevel.MUST)
async def bodies_arrive_whole(bench: Bench) -> None:
    """Forwards large bodies whole."""
    content = json.dumps(chat("x" * _PROMPT_BYTES)).encode()
    for mode in ("full", "both"):
        seen = (await bench.send(content, mode=mode)).reached
        same = seen.meaning == meaning(content)
        expect(same, f"{mode}: sent {len(content)} bytes, {seen.length} arrived, and their content differs")


@case(CaseLevel.SHOULD)
async def bodies_keep_their_bytes(bench: Bench) -> None:
    """Forwards bodies byte for byte: a client may have signed them."""
    content = b'{ "model": "kit",\n "messages": [{"content": "\\u0041 \xc3\xa9 <&>", "role": "user"}], "seed": 1.50 }'
    for mode in ("full", "both"):
        seen = (await bench.send(content, mode=mode)).reached
        same = (seen.length, seen.digest) == (len(content), hashlib.sha256(content).hexdigest())
        expect(same, f"{mode}: sent {len(content)} bytes, {seen.length} arrived or they differ")


@case(CaseLevel.MUST)
async def bodies_of_every_size(bench: Bench) -> None:
    """Forwards bodies whole around the sizes at which Envoy splits them."""
    for size in (61_900, 62_000, 62_100, 65_535, 65_536, 65_537, 131_072):
        content = json.dumps(chat("x" * (size - 66))).encode()
        seen = (await bench.send(content)).reached
        expect(seen.meaning == meaning(content), f"a body of {len(content)} bytes arrived as another")


@case(CaseLevel.MUST)
async def requests_without_a_body(bench: Bench) -> None:
    """Picks for requests that have no body."""
    for mode in MODES:
        seen = (await bench.send(mode=mode, path="/v1/models", method="GET", headers={ROUTE: "metadata"})).reached
        expect(seen.endpoint in bench.pool, f"{mode}: GET went to {seen.endpoint}, which the picker did not pick")


@case(CaseLevel.MUST)
async def request_trailers(bench: Bench) -> None:
    """Picks for a request that ends with trailers."""
    body = json.dumps(chat()).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: kit\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n"
    chunk = b"%x\r\n%b\r\n0\r\nx-kit-trailer: last\r\n\r\n" % (len(body), body)
    for mode in ("full", "both"):
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.proxy.port(mode))
        try:
            writer.write(head.encode() + b"connection: close\r\n\r\n" + chunk)
            async with asyncio.timeout(bench.soon_s):
                status = (await reader.readline()).decode()
        except TimeoutError:
            raise Failure(f"{mode}: no response after {bench.soon_s:g} s") from None
        finally:
            writer.close()
        expect(f" {_OK} " in status, f"{mode}: {status.strip()!r}")


def subset_of(addresses: Sequence[str]) -> dict[str, str]:
    """The headers that make the proxy hint at these endpoints."""
    return {SUBSET_VALUE: _value(addresses)}


def _value(addresses: Sequence[str]) -> str:
    """A list value as protobuf, in base64: what a gateway puts into metadata."""
    items = b"".join(_field(1, _field(3, address.encode())) for address in addresses)
    return base64.b64encode(_field(6, items)).decode()


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > _SEVEN_BITS:
        out.append(value & _SEVEN_BITS | 0x80)
        value >>= 7
    return bytes([*out, value])


@case(CaseLevel.MUST)
async def subset_as_a_list(bench: Bench) -> None:
    """Picks inside the subset hint, given as a list."""
    for address in bench.pool:
        seen = (await bench.send(headers={SUBSET_VALUE: _value([address])})).reached
        expect(seen.endpoint == address, f"the subset is {address}, {seen.endpoint} was picked")


@case(CaseLevel.SHOULD)
async def subset_as_text(bench: Bench) -> None:
    """Picks inside the subset hint, given as text with commas."""
    for address in bench.pool:
        seen = (await bench.send(headers={SUBSET_TEXT: f"{address}, 192.0.2.77:1"})).reached
        expect(seen.endpoint == address, f"the subset is {address}, {seen.endpoint} was picked")


@case(CaseLevel.MUST)
async def subset_compares_ports(bench: Bench) -> None:
    """Distinguishes endpoints of one address by their port."""
    wanted = bench.pool[-1]
    for _ in range(8):
        seen = (await bench.send(headers={SUBSET_VALUE: _value([wanted])})).reached
        expect(seen.endpoint == wanted, f"the subset is {wanted}, {seen.endpoint} was picked")


@case(CaseLevel.MUST)
async def empty_subset_is_rejected(bench: Bench) -> None:
    """Returns 503 when the subset hint is empty."""
    answer = await bench.send(headers={SUBSET_VALUE: _value([])})
    expect(answer.status == _UNAVAILABLE, f"status {answer.status}")


@case(CaseLevel.MUST)
async def subset_outside_the_pool_is_rejected(bench: Bench) -> None:
    """Returns 503 when no endpoint of the subset is in the pool."""
    host, _, port = bench.pool[0].rpartition(":")
    for outside in ("192.0.2.77:8000", f"{host}:1", f"[2001:db8::1]:{port}"):
        answer = await bench.send(headers={SUBSET_VALUE: _value([outside])})
        expect(answer.status == _UNAVAILABLE, f"{outside}: status {answer.status}")


@case(CaseLevel.SHOULD)
async def subset_with_ipv6(bench: Bench) -> None:
    """Reads a subset that has IPv6 addresses in addition to the pool's own."""
    wanted = bench.pool[0]
    seen = (await bench.send(headers={SUBSET_VALUE: _value(["[2001:db8::1]:8000", wanted])})).reached
    expect(seen.endpoint == wanted, f"the subset is {wanted}, {seen.endpoint} was picked")


@case(CaseLevel.MUST)
async def subset_holds_without_a_body(bench: Bench) -> None:
    """Applies the subset hint to requests without a body."""
    for address in bench.pool:
        headers = {SUBSET_VALUE: _value([address]), ROUTE: "metadata"}
        seen = (await bench.send(method="GET", path="/v1/models", headers=headers)).reached
        expect(seen.endpoint == address, f"the subset is {address}, {seen.endpoint} was picked")


@case(CaseLevel.MUST)
async def clients_cannot_choose(bench: Bench) -> None:
    """Ignores an endpoint that the client names."""
    stray = bench.upstreams.stray_address
    for route in ("header", "metadata"):
        seen = (await bench.send(headers={DESTINATION: stray, ROUTE: route})).reached
        expect(seen.endpoint != STRAY, f"by {route}: the client's own destination was followed")


@case(CaseLevel.SHOULD)
async def routing_headers_of_clients_are_removed(bench: Bench) -> None:
    """Removes client headers that would route inside the endpoint's pod."""
    for name in ("x-prefiller-host-port", "x-encoder-hosts-ports", "x-data-parallel-host-port"):
        seen = (await bench.send(headers={name: "192.0.2.66:80"})).reached
        expect(seen.headers.get(name) != "192.0.2.66:80", f"the client's {name} reached the server")


@case(CaseLevel.SHOULD)
async def nothing_else_is_changed(bench: Bench) -> None:
    """Does not change headers of clients and servers, and adds none of its own."""
    mine = {"x-mine": "kept", "authorization": "Bearer kept", "accept-language": "en"}
    answer = await bench.send(mode="both", headers=mine)
    seen = answer.reached
    lost = [name for name, text in mine.items() if seen.headers.get(name) != text]
    expect(not lost, f"the server did not get {lost}")
    expect("x-went-into-resp-headers" not in answer.headers, "a header for debugging reached the client")
    expect(answer.headers.get("x-upstream") == seen.endpoint, "a header of the server did not reach the client")


@case(CaseLevel.MUST)
async def streams_flow(bench: Bench) -> None:
    """Forwards a streamed response event by event, whole and in order."""
    for mode in ("full", "both"):
        bench.upstreams.released.clear()
        async with asyncio.timeout(bench.soon_s), bench.stream(mode) as response:
            expect(response.status == _OK, f"{mode}: status {response.status}")
            first = await response.content.readuntil(b"\n\n")
            expect(b'"0"' in first, f"{mode}: the first event is {first!r}")
            bench.upstreams.released.set()
            rest = (await response.read()).decode()
        expect(rest.count("data: ") == EVENTS + 1, f"{mode}: {rest.count('data: ')} events after the first")
        expect(rest.endswith("data: [DONE]\n\n"), f"{mode}: the stream ends with {rest[-40:]!r}")


@case(CaseLevel.SHOULD)
async def malformed_body_is_rejected(bench: Bench) -> None:
    """Returns 400 and a message for a body that it cannot parse."""
    for content in (b"{", b"[1, 2]", b'{"model": 7, "messages": []}', b"\xff\xfe"):
        answer = await bench.send(content)
        expect(answer.status == _MALFORMED, f"{content!r}: status {answer.status}")
        expect(answer.body.strip(), f"{content!r}: the response has no message")


@case(CaseLevel.SHOULD)
async def every_api_is_parsed(bench: Bench) -> None:
    """Picks for each API that model servers offer."""
    bodies = {
        "/v1/completions": {"model": "kit", "prompt": "hello"},
        "/v1/embeddings": {"model": "kit", "input": ["hello", "there"]},
        "/v1/responses": {"model": "kit", "input": "hello"},
        "/v1/messages": {"model": "kit", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]},
    }
    for path, body in bodies.items():
        seen = (await bench.send(body, path=path)).reached
        expect((seen.endpoint in bench.pool, seen.path) == (True, path), f"{path}: went to {seen.endpoint}{seen.path}")


@case(CaseLevel.MUST)
async def concurrent_requests(bench: Bench) -> None:
    """Responds to 100 concurrent requests."""
    bodies = [json.dumps(chat(f"question {number} " + "y" * (number * 50))).encode() for number in range(_AT_ONCE)]
    answers = await asyncio.gather(*(bench.send(body) for body in bodies))
    for body, answer in zip(bodies, answers, strict=True):
        expect(answer.reached.meaning == meaning(body), "a request got the body of another")


@case(CaseLevel.MUST)
async def client_disconnects(bench: Bench) -> None:
    """Survives clients that disconnect during a request."""
    head = f"POST {CHAT} HTTP/1.1\r\nhost: kit\r\ncontent-type: application/json\r\ncontent-length: 90000\r\n\r\n"
    for _ in range(_ABORTS):
        _, writer = await asyncio.open_connection("127.0.0.1", bench.proxy.port("full"))
        writer.write(head.encode() + b'{"model": "kit", "messages": [' + b" " * 30_000)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
    seen = (await bench.send()).reached
    expect(seen.endpoint in bench.pool, f"afterwards a request went to {seen.endpoint}")


@case(CaseLevel.MUST)
async def load_is_spread(bench: Bench) -> None:
    """Uses every endpoint of an idle pool for requests with different prompts."""
    sent = [
        bench.send(chat(f"{number} {hashlib.sha256(str(number).encode()).hexdigest() * 20}")) for number in range(60)
    ]
    used = {answer.reached.endpoint for answer in await asyncio.gather(*sent)}
    expect(used == set(bench.pool), f"of {len(bench.pool)} endpoints {len(used)} were used in 60 requests")


@case(CaseLevel.MUST)
async def grpc_health(bench: Bench) -> None:
    """Responds to gRPC health checks, for the server and for the service by its name."""
    for service in HEALTH:
        for _ in range(_POLLS):
            if await bench.proxy.healthy(service):
                break
            await asyncio.sleep(bench.soon_s / _POLLS)
        else:
            raise Failure(f"service {service!r} is not SERVING")
