"""Each of our picker's parts, broken on purpose, is found by a case of the conformance kit."""

import asyncio

import pytest

from modelplane.conformance.epp import CASES, PodState, run_cases
from modelplane.conformance.epp.own import ADDRESSES, own_parts, own_picker
from modelplane.conformance.epp.upstreams import Upstreams
from modelplane.epp.server.processing_request import ProcessingPhase
from tests.conformance import broken_messages as wire
from tests.conformance import broken_pickers as broken

SOON_S = 6.0
"""A broken picker is given up soon. The unbroken one, which has to pass, gets the kit's own time."""

LIMIT = ("- type: utilization-filter\n  parameters: {conditions: [{metric: waiting-queue, maxValue: 1000}]}\n", "")
INVERTED = (("queue-scorer", "inverted"),)
FIRST = (
    ("- type: active", "- type: first-only\n- type: active"),
    ("  - {pluginRef: active", "  - pluginRef: first-only\n  - {pluginRef: active"),
)
PREFILLER, OTHER = b"x-prefiller-host-port", b"x-prefiller-host-pore"
SERVED, NOT_SERVED = b"x-gateway-destination-endpoint-served", b"x-gateway-destination-endpoint-reseen"
SENT_TRAILER = wire.drops_trailer(ProcessingPhase.REQUEST_TRAILERS, b"x-kit-sent")
RETURNED_TRAILER = wire.drops_trailer(ProcessingPhase.RESPONSE_TRAILERS, b"x-kit-returned")
SESSION = (("- type: session-affinity-filter\n", ""), ("  - pluginRef: session-affinity-filter\n", ""))
ANY_ROLE = (("- type: decode-filter\n", ""), ("  - pluginRef: decode-filter\n", ""))
KEY, NO_KEY = wire.DESTINATION, b"x-gateway-destination-endpoinx"

NAMED = "prefill-endpoints-are-named"

MUTANTS = {
    "picks at random": (broken.at_random, "requests-in-flight-count"),
    "picks at random in a conversation": (broken.at_random, "conversations-return"),
    "counts no request": (broken.of_endpoints(broken.NeverCounts), "requests-in-flight-count"),
    "counts requests for ever": (broken.of_endpoints(broken.NeverFalls), "ended-requests-do-not-count"),
    "counts aborted requests for ever": (wire.messages(kind=wire.MissesAborts), "aborted-requests-do-not-count"),
    "prefers long queues": (broken.configured(*INVERTED), "queues-are-read"),
    "does not read queues": (broken.without("queue-scorer", 3), "queues-are-read"),
    "scrapes nothing": (broken.scrapes_nothing, "queues-are-read"),
    "scrapes once": (broken.of_endpoints(broken.ScrapedOnce), "queues-are-read"),
    "believes stale metrics": (broken.of_endpoints(broken.NeverAges), "stale-metrics-are-not-believed"),
    "does not read KV caches": (broken.without("kv-cache-utilization-scorer", 2), "kv-cache-usage-is-read"),
    "does not know prefixes": (broken.without("prefix-cache-scorer", 3), "conversations-return"),
    "sheds nothing": (broken.configured(LIMIT, ("  - pluginRef: utilization-filter\n", "")), "saturated-pool-is-shed"),
    "sheds with 503": (wire.status(429, 503), "saturated-pool-is-shed"),
    "picks the first always": (broken.configured(*FIRST), "load-is-spread"),
    "knows one port a pod": (broken.one_port_a_pod, "load-is-spread"),
    "ignores ports of subsets": (wire.messages(requests=wire.any_port_of_a_subset), "subset-compares-ports"),
    "ignores what is removed": (
        broken.following(lambda before, after: len(after) >= len(before)),
        "pool-changes-are-followed",
    ),
    "ignores what is added": (
        broken.following(lambda before, after: len(after) <= len(before)),
        "pool-changes-are-followed",
    ),
    "keeps the last endpoints of an empty pool": (
        broken.following(lambda _, after: after),
        "pool-without-endpoints-is-rejected",
    ),
    "answers 500 without endpoints": (wire.status(503, 500), "pool-without-endpoints-is-rejected"),
    "answers 429 without endpoints": (wire.status(503, 429), "empty-subset-is-rejected"),
    "answers 500 to malformed bodies": (wire.status(400, 500), "malformed-body-is-rejected"),
    "ignores subsets": (wire.messages(requests=wire.text_replaced(wire.HINT, wire.NO_HINT)), "subset-as-a-list"),
    "ignores subsets outside the pool": (
        wire.messages(requests=wire.text_replaced(wire.HINT, wire.NO_HINT)),
        "subset-outside-the-pool-is-rejected",
    ),
    "writes metadata elsewhere": (
        wire.messages(wire.text_replaced(b"envoy.lb", b"envoy.lc")),
        "destination-in-metadata",
    ),
    "writes no header": (wire.messages(wire.text_replaced(KEY, NO_KEY, 1)), "destination-in-header"),
    "has two minds": (wire.messages(wire.metadata_elsewhere), "same-destination-in-both"),
    "names an endpoint twice": (wire.messages(wire.names_it_twice), "destinations-are-addresses"),
    "believes clients": (wire.believes_clients, "clients-cannot-choose"),
    "keeps routing headers": (
        wire.messages(requests=wire.text_replaced(PREFILLER, OTHER)),
        "routing-headers-of-clients-are-removed",
    ),
    "tells its mind": (wire.messages(wire.tells_its_mind), "nothing-else-is-changed"),
    "ignores trailers": (wire.messages(wire.ignores_trailers), "request-trailers"),
    "drops trailers of requests": (wire.messages(SENT_TRAILER), "request-trailers"),
    "drops trailers of responses": (wire.messages(RETURNED_TRAILER), "response-trailers"),
    "picks unready pods": (broken.blind_to(PodState.UNREADY), "unready-pods-are-not-picked"),
    "serves from an unready pool": (broken.blind_to(PodState.UNREADY), "unready-pool-is-rejected"),
    "picks pods that terminate": (broken.blind_to(PodState.TERMINATING), "terminating-pods-are-not-picked"),
    "forgets ports of a pod": (broken.one_port_a_pod, "ports-of-a-pod-are-endpoints"),
    "forgets sessions": (broken.configured(*SESSION), "sessions-return"),
    "never prefills elsewhere": (broken.configured(("nonCachedTokens: 4000", "nonCachedTokens: 0")), NAMED),
    "prefills everything elsewhere": (broken.configured(("nonCachedTokens: 4000", "nonCachedTokens: 1")), NAMED),
    "decodes anywhere": (broken.configured(*ANY_ROLE), NAMED),
    "does not read who served": (
        wire.messages(requests=wire.text_replaced(SERVED, NOT_SERVED)),
        "served-endpoint-is-reported",
    ),
    "cuts responses when it stops": (broken.cuts_at_its_end, "responses-in-flight-end-whole"),
    "ends calls without an error": (broken.served_by(broken.EndsWithoutError), "nothing-passes-unpicked"),
    "holds its port when it has ended": (broken.holds_its_port, "fail-open-passes-and-recovers"),
    "cuts bodies": (wire.messages(wire.cuts_bodies), "bodies-arrive-whole"),
    "writes bodies anew": (wire.messages(wire.writes_bodies_anew), "bodies-keep-their-bytes"),
    "collects responses": (wire.messages(wire.collects_responses), "streams-flow"),
    "needs a body": (wire.bodiless, "requests-without-a-body"),
    "knows chats alone": (wire.rejecting(lambda path: path != wire.CHAT), "every-api-is-parsed"),
    "picks nothing by buffered bodies": (wire.messages(wire.picks_nothing_by_buffered_bodies), "every-mode-is-served"),
    "cuts large pieces": (wire.messages(wire.cuts_pieces_of(62_000)), "bodies-of-every-size"),
    "mixes up bodies": (wire.messages(wire.mixes_up_bodies()), "concurrent-requests"),
    "tires of aborted requests": (wire.tires_of_aborts, "client-disconnects"),
    "reads no commas": (wire.messages(requests=wire.ignores_hints_with(b", 192.0.2.77")), "subset-as-text"),
    "reads no IPv6": (wire.messages(requests=wire.ignores_hints_with(b"[2001:db8::1]")), "subset-with-ipv6"),
    "ignores subsets without a body": (
        wire.messages(requests=wire.ignores_hints_without_a_body),
        "subset-holds-without-a-body",
    ),
    "has no health service": (wire.without_health, "grpc-health"),
}


def failures(mutate, name):
    async def story():
        (case,) = [case for case in CASES if case.name == name]
        async with (
            Upstreams().serving(ADDRESSES) as upstreams,
            own_parts(upstreams.addresses) as parts,
            own_picker(mutate(parts)) as picker,
        ):
            return [found.verdict.value async for found in run_cases(picker, upstreams, [case], soon_s=SOON_S)]

    return asyncio.run(story())


def test_every_case_has_a_broken_picker_that_it_finds():
    assert {case.name for case in CASES} - {name for _, name in MUTANTS.values()} == set()


@pytest.mark.submission
@pytest.mark.parametrize(("mutate", "case"), MUTANTS.values(), ids=MUTANTS)
def test_a_broken_picker_is_found_by_its_case(mutate, case):
    assert failures(mutate, case) == ["failed"]
