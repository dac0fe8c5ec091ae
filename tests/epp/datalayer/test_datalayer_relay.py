"""What one process reads of a pool and its workers are sent, through the encoding that they use."""

import msgspec
import pytest

from modelplane.epp.datalayer.discovery.datastore import Datastore, DiscoveredEndpoint
from modelplane.epp.datalayer.discovery.policies import PolicyDocument
from modelplane.epp.datalayer.discovery.policy_file import read_policies
from modelplane.epp.datalayer.relay import PoolRelay, PoolUpdate, RelayedPolicies, RelayedPool
from modelplane.epp.datalayer.shared_state import SentPrompt
from modelplane.epp.scheduling.metrics import Adapters, EndpointMetrics
from modelplane.epp.server.worker_messages import FromWorker, ToWorker, encode, from_worker_decoder, to_worker_decoder

POLICIES = b"""\
apiVersion: llm-d.ai/v1alpha2
kind: InferenceObjective
metadata: {name: batch}
spec: {priority: -1}
---
apiVersion: llm-d.ai/v1alpha2
kind: InferenceModelRewrite
metadata: {name: canary}
spec: {rules: [{matches: [{model: {value: llama}}], targets: [{modelRewrite: llama-v2, weight: 1}]}]}
"""
METRICS = EndpointMetrics(
    waiting=3, running=2, kv_cache_usage=0.5, block_size=16, blocks=100, adapters=Adapters(frozenset({"lora"}), most=4),
    models=frozenset({"m"}), scraped_s=12.5, requests_at_scrape=7, tokens_at_scrape=9,
)  # fmt: skip


class Source(Datastore):
    known = True

    def list(self, *names, **labels):
        self.replace([DiscoveredEndpoint(name, f"{name}:80", "", labels) for name in names])


class Rules:
    document = PolicyDocument()


class Group:
    """A process that reads, and its workers."""

    def __init__(self, workers=2, *names):
        self.source, self.rules = Source(), Rules()
        self.source.list(*names or ("a", "b"))
        self.relay = PoolRelay(self.source, self.rules)
        self.relay.start()
        self.pools, self.policies = {}, RelayedPolicies()
        for number in range(workers):
            self.join(number)

    def join(self, number):
        self.relay.join(number)
        self.pools[number] = RelayedPool()
        self.pools[number].state.follow()

    def sync(self):
        """Each worker reports, then each is sent what changed: who was."""
        for number, pool in self.pools.items():
            loads = pool.state.changed_loads(pool.state.own_loads())
            report = from_worker_decoder.decode(encode(FromWorker(loads=loads, prompts=pool.state.take_prompts())))
            self.relay.receive(number, report.loads, report.prompts)
        self.relay.collect_changes()
        return [number for number in self.pools if self._send(number)]

    def _send(self, number):
        update = self.relay.update_for(number)
        if update is not None:
            sent = to_worker_decoder.decode(encode(ToWorker(update))).pool
            self.pools[number].apply(sent)
            if sent.policies is not None:
                self.policies.apply(sent.policies)
        return update is not None

    def endpoint(self, number, name):
        return next(endpoint for endpoint in self.pools[number].current if endpoint.name == name)

    def loads(self, name="a"):
        """In flight there, as the reader and every worker see it."""
        here = next(endpoint for endpoint in self.source.current if endpoint.name == name)
        seen = [here, *(self.endpoint(number, name) for number in self.pools)]
        return [(endpoint.requests_in_flight, endpoint.tokens_in_flight) for endpoint in seen]


def test_endpoints_stay_the_same_objects_unless_they_are_replaced():
    group = Group()
    unread = [pool.known for pool in group.pools.values()]
    assert group.sync() == [0, 1]
    before = group.pools[0].current
    assert (unread, group.pools[1].known, group.sync()) == ([False, False], True, [])
    group.source.list("a", "b", app="x")
    group.sync()
    assert group.pools[0].current[0] is before[0]
    assert group.pools[0].current[0].labels == {"app": "x"}
    group.source.replace([DiscoveredEndpoint("a", "a:80", "another"), DiscoveredEndpoint("b", "b:80", "")])
    group.sync()
    assert group.pools[0].current[0] is not before[0]


def test_what_was_scraped_reaches_every_worker_once():
    group = Group()
    group.sync()
    endpoint = group.source.current[0]
    endpoint.metrics, endpoint.attributes = METRICS, {"price": 2.0}
    assert (group.sync(), group.sync()) == ([0, 1], [])
    found = group.endpoint(1, "a")
    assert found.metrics == msgspec.structs.replace(METRICS, tokens_at_scrape=0)
    assert found.attributes == {"price": 2.0}
    group.join(2)
    assert group.sync() == [2]
    assert group.endpoint(2, "a").metrics.waiting == 3


def test_tokens_that_a_scrape_includes_are_those_that_the_worker_sees():
    """A proxy that shows no response headers: tokens count until the next scrape."""
    group = Group()
    group.sync()
    found = group.endpoint(0, "a")
    found.count(2, 100)
    found.count(-1, -60)
    group.source.current[0].metrics = METRICS
    group.sync()
    assert found.metrics.tokens_at_scrape == 40


def test_what_a_worker_has_in_flight_counts_for_the_others_until_it_ends():
    group = Group(3)
    group.sync()
    group.endpoint(0, "a").count(2, 50)
    group.endpoint(1, "a").count(1, 10)
    group.sync()
    assert group.loads() == [(3, 60)] * 4
    assert group.sync() == []
    group.endpoint(0, "a").count(-1, -20)
    group.sync()
    assert group.loads() == [(2, 40)] * 4
    group.join(3)
    group.sync()
    assert group.loads() == [(2, 40)] * 5
    del group.pools[3]
    group.relay.leave(3)
    del group.pools[0]
    group.relay.leave(0)
    group.sync()
    assert group.loads() == [(1, 10)] * 3


def test_an_endpoint_changes_again_after_others_did():
    """Each endpoint is watched anew after each change, whichever changed before."""
    group = Group()
    group.sync()
    for requests in range(1, 4):
        for name in "ab":
            group.endpoint(0, name).count(1, 0)
            group.sync()
            assert group.loads(name) == [(requests, 0)] * 3


def test_an_endpoint_that_comes_back_has_nothing_of_before():
    group = Group()
    group.sync()
    group.endpoint(0, "a").count(2, 50)
    group.sync()
    group.source.list("b")
    group.sync()
    group.sync()
    group.source.list("a", "b")
    group.sync()
    group.sync()
    assert group.loads() == [(0, 0)] * 3


def test_what_other_pickers_have_in_flight_is_sent_on_and_not_back():
    """The reader's endpoints have the loads of other pickers, too: `peers` adds them there."""
    group = Group()
    group.sync()
    group.source.current[0].requests_in_flight += 5
    group.endpoint(0, "a").count(1, 0)
    group.sync()
    assert group.loads() == [(6, 0)] * 3
    assert group.relay.state.own_loads() == {"a": (5, 0)}


@pytest.mark.parametrize("sender", [None, 0])
def test_prompts_reach_all_but_who_sent_them(sender):
    group = Group(3)
    group.sync()
    found = {number: [] for number in group.pools}
    for number, pool in group.pools.items():
        pool.state.on_prompts = found[number].extend
    prompt = SentPrompt("a", 64, ((1, 2),), (2,))
    if sender is None:
        group.relay.pass_on([prompt])
    else:
        group.pools[sender].state.add_prompts([prompt])
    group.sync()
    assert found == {number: [] if number == sender else [prompt] for number in group.pools}


def test_prompts_for_a_worker_that_does_not_read_are_bounded():
    group = Group(1)
    for _ in range(12):
        group.relay.pass_on([SentPrompt("a", 64, ((1,),), (1,))] * 1000)
    assert len(group.relay.update_for(0).prompts) == 10_000


def test_policies_are_sent_when_they_change():
    group = Group(1)
    group.sync()
    assert (group.policies.priorities, group.policies.rewrite("llama", 0.5)) == ({}, None)
    group.rules.document = read_policies(POLICIES, "policies.yaml")
    assert (group.sync(), group.sync()) == ([0], [])
    assert group.policies.priorities == {"batch": -1}
    assert group.policies.rewrite("llama", 0.5).model == "llama-v2"
    assert group.policies.document == group.rules.document


def test_an_update_has_only_what_is_new():
    assert encode(PoolUpdate(known=True)) == msgspec.msgpack.encode({"known": True})
