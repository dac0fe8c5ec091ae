"""Cases about features that a picker may lack: sessions, disaggregated prefill, aids of the extension's own suite."""

from modelplane.conformance.epp.bench import Bench, chat, expect, subset_of
from modelplane.conformance.epp.controls import KitEndpoint
from modelplane.conformance.epp.proxy import ELSEWHERE, ROUTE
from modelplane.conformance.epp.registry import CaseLevel, CaseNeed, case
from modelplane.conformance.epp.sending import HELD, expect_soon, fresh_number, streams_at

SESSION_ID, SESSION_TOKEN = "x-session-id", "x-session-token"
PREFILLER = "x-prefiller-host-port"
SELECTION, SERVED_BY = "test-epp-endpoint-selection", "x-conformance-test-served-endpoint"
_TURNS, _REPEATS = 6, 6
_LONG = "a document that nobody has cached, "
_LONG_TIMES = 1500


@case(CaseLevel.MAY)
async def sessions_return(bench: Bench) -> None:
    """Sends the requests of a session to its endpoint, though others have fewer in flight.

    A plugin of llm-d (`session-affinity-filter`), for servers that keep what a prefix does not show. The client sends a
    header `x-session-id`, and returns the `x-session-token` of the last response if there was one.
    """
    home = bench.pool[-1]
    headers = {SESSION_ID: f"session-{fresh_number()}"}
    async with streams_at(bench, [home], HELD):
        for turn in range(_TURNS):
            hint = {} if turn else subset_of([home])
            answer = await bench.send(chat(f"question {fresh_number()}"), mode="both", headers={**headers, **hint})
            reached = answer.reached.endpoint
            token = "with" if SESSION_TOKEN in headers else "without"
            expect(
                reached == home, f"turn {turn + 1} of a session, {token} a token, reached {reached} instead of {home}"
            )
            if SESSION_TOKEN in answer.headers:
                headers[SESSION_TOKEN] = answer.headers[SESSION_TOKEN]


@case(CaseLevel.MAY, CaseNeed.POOL)
async def prefill_endpoints_are_named(bench: Bench) -> None:
    """Sends long prompts to an endpoint that decodes, with a header that names one that prefills; short ones without.

    Plugins of llm-d (`disagg-profile-handler`): the sidecar of the decoding pod reads `x-prefiller-host-port`.
    """
    prefills = bench.pods[-1]
    roles = [KitEndpoint(address, role="prefill" if address in prefills else "decode") for address in bench.pool]

    async def names() -> bool:
        seen = (await bench.send(_document())).reached
        return seen.endpoint not in prefills and seen.headers.get(PREFILLER, "") in prefills

    async with bench.pool_of(roles):
        await expect_soon(bench, names, "no prefill endpoint is named for a long prompt")
        for _ in range(_REPEATS):
            seen = (await bench.send(_document())).reached
            expect(seen.endpoint not in prefills, f"{seen.endpoint}, which prefills, served a request")
            expect(seen.headers.get(PREFILLER) in prefills, f"{PREFILLER} is {seen.headers.get(PREFILLER)!r}")
            seen = (await bench.send(chat(f"question {fresh_number()}"))).reached
            expect(seen.endpoint not in prefills, f"{seen.endpoint}, which prefills, served a request")
            expect(PREFILLER not in seen.headers, f"a short prompt has {PREFILLER} {seen.headers.get(PREFILLER)!r}")


def _document() -> dict[str, object]:
    return chat(f"document {fresh_number()}: " + _LONG * _LONG_TIMES)


@case(CaseLevel.MAY)
async def served_endpoint_is_reported(bench: Bench) -> None:
    """Reads which endpoint served from the gateway's metadata, though it picked another.

    Gateways fall back to other endpoints, and a picker that does not learn of it counts for the wrong one. It shows in
    a header of the extension's conformance suite (`destination-endpoint-served-verifier`).
    """
    answer = await bench.send(mode="both", headers={SELECTION: ",".join(bench.pool)})
    found, served = answer.headers.get(SERVED_BY), answer.reached.endpoint
    expect(found == served, f"{served} served, and {SERVED_BY} is {found!r}")
    answer = await bench.send(mode="both", headers={SELECTION: ",".join(bench.pool), ROUTE: ELSEWHERE})
    found, served = answer.headers.get(SERVED_BY), bench.upstreams.stray_address
    expect(found == served, f"{served} served, which was not picked, and {SERVED_BY} is {found!r}")
