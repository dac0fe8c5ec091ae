"""Cases about the wire: what a picker does with the messages of Envoy. Each is judged by responses."""

import asyncio
import hashlib
import json
from collections.abc import Sequence

from modelplane.conformance.epp.bench import CHAT, MALFORMED, OK, UNAVAILABLE, Bench, Failure, chat, expect, subset_of
from modelplane.conformance.epp.proxy import HEALTH, MODES, ROUTE, SUBSET_TEXT, TRAILERS
from modelplane.conformance.epp.registry import CaseLevel, case
from modelplane.conformance.epp.trailers import RETURNED, SENT, TrailerResponse, send_chunked
from modelplane.conformance.epp.upstreams import EVENTS, STRAY, Reached, meaning

DESTINATION = "x-gateway-destination-endpoint"
_ABORTS, _AT_ONCE = 30, 100
_PROMPT_BYTES = 400_000
_POLLS = 50
_AFTER, _PAUSE_S = 10, 0.05
_AGAIN = 4


@case(CaseLevel.MUST)
async def destination_in_metadata(bench: Bench) -> None:
    """Names the endpoint in the dynamic metadata of envoy.lb.

    Gateways that build on Envoy's metadata read the choice there and nowhere else.
    """
    seen = (await bench.send(headers={ROUTE: "metadata"})).reached
    expect(seen.endpoint in bench.pool, f"the request went to {seen.endpoint}, which the picker did not pick")


@case(CaseLevel.MUST)
async def destination_in_header(bench: Bench) -> None:
    """Names the endpoint in the request header.

    Gateways with a cluster that routes by header read the choice there and nowhere else.
    """
    seen = (await bench.send(headers={ROUTE: "header"})).reached
    expect(seen.endpoint in bench.pool, f"the request went to {seen.endpoint}, which the picker did not pick")


@case(CaseLevel.MUST)
async def same_destination_in_both(bench: Bench) -> None:
    """Names the same endpoint in the header and in the metadata.

    Otherwise the endpoint that serves depends on the gateway, and what the picker counts is wrong.
    """
    for number in range(10):
        seen = (await bench.send(chat(f"question {number}"), headers={ROUTE: "metadata"})).reached
        first = seen.headers.get(DESTINATION, "").partition(",")[0].strip()
        expect(first == seen.endpoint, f"the metadata led to {seen.endpoint}, the header says {first!r}")


@case(CaseLevel.MUST)
async def destinations_are_addresses(bench: Bench) -> None:
    """Writes destinations as ip:port, separated by commas. All are in the pool.

    A gateway resolves nothing: what is not an address of the pool is a 503.
    """
    seen = (await bench.send()).reached
    named = [part.strip() for part in seen.headers.get(DESTINATION, "").split(",")]
    expect(set(named) <= set(bench.pool), f"{named} are not all in the pool {list(bench.pool)}")
    expect(len(named) == len(set(named)), f"{named} names an endpoint twice")


@case(CaseLevel.MAY)
async def every_mode_is_served(bench: Bench) -> None:
    """Responds in each processing mode: full duplex, both directions, buffered, headers only.

    The mode is set in the gateway, by people who do not choose the picker. The inference extension's documents know
    full duplex only.
    """
    for mode in MODES:
        seen = (await bench.send(mode=mode)).reached
        expect(seen.endpoint in bench.pool, f"{mode}: the request went to {seen.endpoint}")


@case(CaseLevel.MUST)
async def bodies_arrive_whole(bench: Bench) -> None:
    """Forwards large bodies whole.

    Prompts are long, and Envoy sends them in pieces.
    """
    content = json.dumps(chat("x" * _PROMPT_BYTES)).encode()
    for mode in ("full", "both"):
        seen = (await bench.send(content, mode=mode)).reached
        same = seen.meaning == meaning(content)
        expect(same, f"{mode}: sent {len(content)} bytes, {seen.length} arrived, and their content differs")


@case(CaseLevel.SHOULD)
async def bodies_keep_their_bytes(bench: Bench) -> None:
    """Forwards bodies byte for byte: a client may have signed them.

    A client may have signed them, and a number that is written anew may be another one.
    """
    content = b'{ "model": "kit",\n "messages": [{"content": "\\u0041 \xc3\xa9 <&>", "role": "user"}], "seed": 1.50 }'
    for mode in ("full", "both"):
        seen = (await bench.send(content, mode=mode)).reached
        same = (seen.length, seen.digest) == (len(content), hashlib.sha256(content).hexdigest())
        expect(same, f"{mode}: sent {len(content)} bytes, {seen.length} arrived or they differ")


@case(CaseLevel.MUST)
async def bodies_of_every_size(bench: Bench) -> None:
    """Forwards bodies whole around the sizes at which Envoy splits them.

    A piece that is too large for Envoy, or an end that is lost, shows at these sizes only.
    """
    for size in (61_900, 62_000, 62_100, 65_535, 65_536, 65_537, 131_072):
        content = json.dumps(chat("x" * (size - 66))).encode()
        seen = (await bench.send(content)).reached
        expect(seen.meaning == meaning(content), f"a body of {len(content)} bytes arrived as another")


@case(CaseLevel.MUST)
async def requests_without_a_body(bench: Bench) -> None:
    """Picks for requests that have no body.

    Clients list models before they send a prompt.
    """
    for mode in MODES:
        seen = (await bench.send(mode=mode, path="/v1/models", method="GET", headers={ROUTE: "metadata"})).reached
        expect(seen.endpoint in bench.pool, f"{mode}: GET went to {seen.endpoint}, which the picker did not pick")


@case(CaseLevel.MUST)
async def request_trailers(bench: Bench) -> None:
    """Picks for a request that ends with trailers, and forwards them.

    With trailers the last piece of the body does not end the request: who waits for that waits for ever.
    """
    for mode in ("full", "both"):
        answer = await _at_trailer_server(bench, mode, SENT)
        expect(SENT in answer.reached, f"{mode}: the server received the trailers {dict(answer.reached)}")


@case(CaseLevel.MUST)
async def response_trailers(bench: Bench) -> None:
    """Forwards the trailers of a response.

    gRPC servers report their status in trailers.
    """
    answer = await _at_trailer_server(bench, "both")
    expect(RETURNED in answer.trailers, f"the client received the trailers {dict(answer.trailers)}")


async def _at_trailer_server(bench: Bench, mode: str, trailer: str = "") -> TrailerResponse:
    """To a server that is in no pool: the kit's Envoy routes there, whatever is picked."""
    body = json.dumps(chat()).encode()
    try:
        async with asyncio.timeout(bench.soon_s):
            answer = await send_chunked(bench.proxy.port(mode), CHAT, body, {ROUTE: TRAILERS}, trailer=trailer)
    except TimeoutError:
        raise Failure(f"{mode}: no response after {bench.soon_s:g} s") from None
    except asyncio.IncompleteReadError:
        raise Failure(f"{mode}: the response was cut") from None
    expect(answer.status.startswith(str(OK)), f"{mode}: status {answer.status}")
    return answer


def _subsets(bench: Bench) -> list[tuple[str, ...]]:
    """Whole pods, for ports have a case of their own; endpoints where there is one pod. Each a few times."""
    return [*(bench.pods if len(bench.pods) > 1 else [(address,) for address in bench.pool])] * _AGAIN


def _inside(seen: Reached, allowed: Sequence[str]) -> None:
    expect(seen.endpoint in allowed, f"the subset is {', '.join(allowed)}, and {seen.endpoint} was picked")


@case(CaseLevel.MUST)
async def subset_as_a_list(bench: Bench) -> None:
    """Picks inside the subset hint, given as a list.

    A gateway that restricts endpoints, by zone or by health, has reasons that the picker does not know.
    """
    for allowed in _subsets(bench):
        _inside((await bench.send(headers=subset_of(allowed))).reached, allowed)


@case(CaseLevel.SHOULD)
async def subset_as_text(bench: Bench) -> None:
    """Picks inside the subset hint, given as text with commas.

    Some gateways can write text only.
    """
    for allowed in _subsets(bench):
        _inside((await bench.send(headers={SUBSET_TEXT: ", ".join([*allowed, "192.0.2.77:1"])})).reached, allowed)


@case(CaseLevel.MUST)
async def subset_compares_ports(bench: Bench) -> None:
    """Distinguishes endpoints of one address by their port.

    Ranks of a data-parallel server share an address.
    """
    wanted = next((pod[-1] for pod in bench.pods if len(pod) > 1), bench.pool[-1])
    for _ in range(8):
        seen = (await bench.send(headers=subset_of([wanted]))).reached
        expect(seen.endpoint == wanted, f"the subset is {wanted}, {seen.endpoint} was picked")


@case(CaseLevel.MUST)
async def empty_subset_is_rejected(bench: Bench) -> None:
    """Returns 503 when the subset hint is empty.

    The protocol wants 503 where no endpoint is allowed, and not a pick outside.
    """
    answer = await bench.send(headers=subset_of([]))
    expect(answer.status == UNAVAILABLE, f"status {answer.status}")


@case(CaseLevel.MUST)
async def subset_outside_the_pool_is_rejected(bench: Bench) -> None:
    """Returns 503 when no endpoint of the subset is in the pool.

    A gateway with an older view of the pool must not get a pick that it excluded.
    """
    host, _, port = bench.pool[0].rpartition(":")
    for outside in ("192.0.2.77:8000", f"{host}:1", f"[2001:db8::1]:{port}"):
        answer = await bench.send(headers=subset_of([outside]))
        expect(answer.status == UNAVAILABLE, f"{outside}: status {answer.status}")


@case(CaseLevel.SHOULD)
async def subset_with_ipv6(bench: Bench) -> None:
    """Reads a subset that has IPv6 addresses in addition to the pool's own.

    Pools of two address families are hinted at in both.
    """
    for allowed in _subsets(bench):
        _inside((await bench.send(headers=subset_of(["[2001:db8::1]:8000", *allowed]))).reached, allowed)


@case(CaseLevel.MUST)
async def subset_holds_without_a_body(bench: Bench) -> None:
    """Applies the subset hint to requests without a body.

    A restriction of the gateway does not depend on the method.
    """
    for allowed in _subsets(bench):
        headers = {**subset_of(allowed), ROUTE: "metadata"}
        _inside((await bench.send(method="GET", path="/v1/models", headers=headers)).reached, allowed)


@case(CaseLevel.MUST)
async def clients_cannot_choose(bench: Bench) -> None:
    """Ignores an endpoint that the client names.

    Whoever chooses the endpoint gets around every limit, and reaches addresses outside the pool.
    """
    stray = bench.upstreams.stray_address
    for route in ("header", "metadata"):
        seen = (await bench.send(headers={DESTINATION: stray, ROUTE: route})).reached
        expect(seen.endpoint != STRAY, f"by {route}: the client's own destination was followed")


@case(CaseLevel.SHOULD)
async def routing_headers_of_clients_are_removed(bench: Bench) -> None:
    """Removes client headers that would route inside the endpoint's pod.

    The sidecar of a pod follows them, so a client could send requests to any address.
    """
    for name in ("x-prefiller-host-port", "x-encoder-hosts-ports", "x-data-parallel-host-port"):
        seen = (await bench.send(headers={name: "192.0.2.66:80"})).reached
        expect(seen.headers.get(name) != "192.0.2.66:80", f"the client's {name} reached the server")


@case(CaseLevel.SHOULD)
async def nothing_else_is_changed(bench: Bench) -> None:
    """Does not change headers of clients and servers, and adds none of its own.

    What clients and servers say to each other is not the picker's.
    """
    mine = {"x-mine": "kept", "authorization": "Bearer kept", "accept-language": "en"}
    answer = await bench.send(mode="both", headers=mine)
    seen = answer.reached
    lost = [name for name, text in mine.items() if seen.headers.get(name) != text]
    expect(not lost, f"the server did not get {lost}")
    expect("x-went-into-resp-headers" not in answer.headers, "a header for debugging reached the client")
    expect(answer.headers.get("x-upstream") == seen.endpoint, "a header of the server did not reach the client")


@case(CaseLevel.MUST)
async def streams_flow(bench: Bench) -> None:
    """Forwards a streamed response event by event, whole and in order.

    The first token is what users wait for.
    """
    for mode in ("full", "both"):
        bench.upstreams.released.clear()
        async with asyncio.timeout(bench.soon_s), bench.stream(mode) as response:
            expect(response.status == OK, f"{mode}: status {response.status}")
            first = await response.content.readuntil(b"\n\n")
            expect(b'"0"' in first, f"{mode}: the first event is {first!r}")
            bench.upstreams.released.set()
            rest = (await response.read()).decode()
        expect(rest.count("data: ") == EVENTS + 1, f"{mode}: {rest.count('data: ')} events after the first")
        expect(rest.endswith("data: [DONE]\n\n"), f"{mode}: the stream ends with {rest[-40:]!r}")


@case(CaseLevel.SHOULD)
async def malformed_body_is_rejected(bench: Bench) -> None:
    """Returns 400 and a message for a body that it cannot parse.

    A client can mend what it is shown; a 500 is retried.
    """
    for content in (b"{", b"[1, 2]", b'{"model": 7, "messages": []}', b"\xff\xfe"):
        answer = await bench.send(content)
        expect(answer.status == MALFORMED, f"{content!r}: status {answer.status}")
        expect(answer.body.strip(), f"{content!r}: the response has no message")


@case(CaseLevel.SHOULD)
async def every_api_is_parsed(bench: Bench) -> None:
    """Picks for each API that model servers offer.

    A server offers all of them at one port.
    """
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
    """Responds to 100 concurrent requests.

    Bodies that are buffered beside each other must not be mixed up.
    """
    bodies = [json.dumps(chat(f"question {number} " + "y" * (number * 50))).encode() for number in range(_AT_ONCE)]
    answers = await asyncio.gather(*(bench.send(body) for body in bodies))
    for body, answer in zip(bodies, answers, strict=True):
        expect(answer.reached.meaning == meaning(body), "a request got the body of another")


@case(CaseLevel.MUST)
async def client_disconnects(bench: Bench) -> None:
    """Survives clients that disconnect during a request.

    Users close the window while a request is sent.
    """
    head = f"POST {CHAT} HTTP/1.1\r\nhost: kit\r\ncontent-type: application/json\r\ncontent-length: 90000\r\n\r\n"
    for _ in range(_ABORTS):
        _, writer = await asyncio.open_connection("127.0.0.1", bench.proxy.port("full"))
        writer.write(head.encode() + b'{"model": "kit", "messages": [' + b" " * 30_000)
        await writer.drain()
        await asyncio.sleep(_PAUSE_S)  # so that Envoy has begun the call before it sees the end
        writer.close()
        await writer.wait_closed()
    for _ in range(_AFTER):
        seen = (await bench.send()).reached
        expect(seen.endpoint in bench.pool, f"afterwards a request went to {seen.endpoint}")
        await asyncio.sleep(_PAUSE_S)


@case(CaseLevel.MUST)
async def load_is_spread(bench: Bench) -> None:
    """Uses every endpoint of an idle pool for requests with different prompts.

    An endpoint that is never picked costs as much as the others.
    """
    sent = [
        bench.send(chat(f"{number} {hashlib.sha256(str(number).encode()).hexdigest() * 20}")) for number in range(60)
    ]
    used = {answer.reached.endpoint for answer in await asyncio.gather(*sent)}
    expect(used == set(bench.pool), f"of {len(bench.pool)} endpoints {len(used)} were used in 60 requests")


@case(CaseLevel.MUST)
async def grpc_health(bench: Bench) -> None:
    """Responds to gRPC health checks, for the server and for the service by its name.

    Gateways and kubelets decide by it whether the picker gets requests.
    """
    for service in HEALTH:
        for _ in range(_POLLS):
            if await bench.proxy.healthy(service):
                break
            await asyncio.sleep(bench.soon_s / _POLLS)
        else:
            raise Failure(f"service {service!r} is not SERVING")
