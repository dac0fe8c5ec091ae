"""Each of our picker's parts, broken on purpose, is found by a case of the conformance kit."""

import asyncio

import pytest

from modelplane.conformance.epp import CASES, run_cases
from modelplane.conformance.epp.own import own_parts, own_picker
from modelplane.conformance.epp.upstreams import Upstreams
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
HINT, NO_HINT = b"envoy.lb.subset_hint", b"envoy.lb.subset_hind"
KEY, NO_KEY = broken.DESTINATION, b"x-gateway-destination-endpoinx"

MUTANTS = {
    "picks at random": (broken.at_random, "requests-in-flight-count"),
    "picks at random in a conversation": (broken.at_random, "conversations-return"),
    "counts no request": (broken.of_endpoints(broken.NeverCounts), "requests-in-flight-count"),
    "counts requests for ever": (broken.of_endpoints(broken.NeverFalls), "ended-requests-do-not-count"),
    "counts aborted requests for ever": (broken.messages(kind=broken.MissesAborts), "aborted-requests-do-not-count"),
    "prefers long queues": (broken.configured(*INVERTED), "queues-are-read"),
    "does not read queues": (broken.without("queue-scorer", 3), "queues-are-read"),
    "scrapes nothing": (broken.scrapes_nothing, "queues-are-read"),
    "scrapes once": (broken.of_endpoints(broken.ScrapedOnce), "queues-are-read"),
    "believes stale metrics": (broken.of_endpoints(broken.NeverAges), "stale-metrics-are-not-believed"),
    "does not read KV caches": (broken.without("kv-cache-utilization-scorer", 2), "kv-cache-usage-is-read"),
    "does not know prefixes": (broken.without("prefix-cache-scorer", 3), "conversations-return"),
    "sheds nothing": (broken.configured(LIMIT, ("  - pluginRef: utilization-filter\n", "")), "saturated-pool-is-shed"),
    "sheds with 503": (broken.status(429, 503), "saturated-pool-is-shed"),
    "picks the first always": (broken.configured(*FIRST), "load-is-spread"),
    "knows one port a pod": (broken.one_port_a_pod, "load-is-spread"),
    "ignores ports of subsets": (broken.messages(requests=broken.any_port_of_a_subset), "subset-compares-ports"),
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
    "answers 500 without endpoints": (broken.status(503, 500), "pool-without-endpoints-is-rejected"),
    "answers 429 without endpoints": (broken.status(503, 429), "empty-subset-is-rejected"),
    "answers 500 to malformed bodies": (broken.status(400, 500), "malformed-body-is-rejected"),
    "ignores subsets": (broken.messages(requests=broken.text_replaced(HINT, NO_HINT)), "subset-as-a-list"),
    "ignores subsets outside the pool": (
        broken.messages(requests=broken.text_replaced(HINT, NO_HINT)),
        "subset-outside-the-pool-is-rejected",
    ),
    "writes metadata elsewhere": (
        broken.messages(broken.text_replaced(b"envoy.lb", b"envoy.lc")),
        "destination-in-metadata",
    ),
    "writes no header": (broken.messages(broken.text_replaced(KEY, NO_KEY, 1)), "destination-in-header"),
    "has two minds": (broken.messages(broken.metadata_elsewhere), "same-destination-in-both"),
    "names an endpoint twice": (broken.messages(broken.names_it_twice), "destinations-are-addresses"),
    "believes clients": (broken.believes_clients, "clients-cannot-choose"),
    "keeps routing headers": (
        broken.messages(requests=broken.text_replaced(PREFILLER, OTHER)),
        "routing-headers-of-clients-are-removed",
    ),
    "tells its mind": (broken.messages(broken.tells_its_mind), "nothing-else-is-changed"),
    "ignores trailers": (broken.messages(broken.ignores_trailers), "request-trailers"),
    "cuts bodies": (broken.messages(broken.cuts_bodies), "bodies-arrive-whole"),
    "writes bodies anew": (broken.messages(broken.writes_bodies_anew), "bodies-keep-their-bytes"),
    "collects responses": (broken.messages(broken.collects_responses), "streams-flow"),
    "needs a body": (broken.bodiless, "requests-without-a-body"),
    "has no health service": (broken.without_health, "grpc-health"),
}


def failures(mutate, name):
    async def story():
        (case,) = [case for case in CASES if case.name == name]
        async with (
            Upstreams().serving(["127.0.0.1:0"] * 3) as upstreams,
            own_picker(upstreams, mutate(own_parts(upstreams.addresses))) as picker,
        ):
            return [found.verdict.value async for found in run_cases(picker, upstreams, [case], soon_s=SOON_S)]

    return asyncio.run(story())


@pytest.mark.submission
@pytest.mark.parametrize(("mutate", "case"), MUTANTS.values(), ids=MUTANTS)
def test_a_broken_picker_is_found_by_its_case(mutate, case):
    assert failures(mutate, case) == ["failed"]
