"""What the picker keeps up from request to request equals what it would find anew, whatever happens between them."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.framework import Profile, Runner, Weighted
from modelplane.testing.picking import context_of, endpoint, make, seeded, with_prefix

SCORERS = {
    "queue-scorer": 2.0,
    "kv-cache-utilization-scorer": 2.0,
    "running-requests-size-scorer": 0.5,
    "load-aware-scorer": 0.7,
    "active-request-scorer": 1.5,
    "prefix-cache-scorer": 3.0,
}
loads = st.builds(
    EndpointMetrics,
    waiting=st.integers(0, 3).map(float),
    running=st.integers(0, 3).map(float),
    kv_cache_usage=st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0]),
    block_size=st.sampled_from([0, 16]),
    blocks=st.sampled_from([0, 4]),
    requests_at_scrape=st.integers(0, 2),
    tokens_at_scrape=st.integers(0, 64),
)
places = st.integers(0, 9)


def profile_of(names):
    return Profile(
        "p", make("max-score-picker"), (), tuple(Weighted(make(name), SCORERS[name]) for name in sorted(names))
    )


class Pool(RuleBasedStateMachine):
    @initialize(names=st.sets(st.sampled_from(sorted(SCORERS))), count=st.sampled_from([1, 2, 5, 33]))
    def begin(self, names, count):
        self.profile = profile_of(names)
        self.kept = Runner(self.profile, Endpoint.watch)
        self.named = 0
        self.endpoints = ()
        self.replace(count)
        self.seed = 0

    def at(self, place):
        return self.endpoints[place % len(self.endpoints)]

    @rule(place=places, tokens=st.integers(0, 100))
    def send(self, place, tokens):
        self.at(place).count(1, tokens)

    @rule(place=places)
    def end(self, place):
        found = self.at(place)
        found.requests_in_flight -= min(1, found.requests_in_flight)

    @rule(place=places)
    def compute(self, place):
        self.at(place).tokens_in_flight = 0

    @rule(place=places, load=loads)
    def scrape(self, place, load):
        self.at(place).metrics = load

    @rule(count=st.integers(1, 6), kept=st.integers(0, 40))
    def resize(self, count, kept):
        self.endpoints = self.endpoints[:kept]
        self.replace(count)

    def replace(self, count):
        fresh = []
        for _ in range(count):
            self.named += 1
            fresh.append(endpoint(f"e{self.named:03}"))
        self.endpoints = (*self.endpoints, *fresh)

    @rule(held=st.lists(st.integers(0, 2), min_size=12, max_size=12))
    def ask(self, held):
        self.decide(held)

    @invariant()
    def nothing_is_cached(self):
        self.decide([0] * len(self.endpoints))

    def decide(self, held):
        held = [held[at % len(held)] for at in range(len(self.endpoints))]
        self.seed += 1
        found = []
        for runner in (self.kept, Runner(self.profile)):
            context = with_prefix(context_of(self.endpoints, chance=seeded(self.seed)), held, 2)
            (one,) = runner.run(context, self.endpoints).ranked
            found.append((one.candidate, one.total))
        assert found[0] == found[1]


TestPool = Pool.TestCase
TestPool.settings = settings(max_examples=40, stateful_step_count=20)


@given(loads, st.integers(0, 3), st.integers(0, 100))
def test_numbers_of_an_endpoint_are_those_of_the_load_it_is_expected_to_have(load, requests, tokens):
    found = endpoint(metrics=load, in_flight=(requests, tokens))
    expected = found.expect()
    assert (found.waiting, found.running, found.kv_cache_usage) == (
        expected.waiting,
        expected.running,
        expected.kv_cache_usage,
    )


def test_an_endpoint_reports_its_next_change_only():
    found, heard = endpoint(), []
    found.watch(heard)
    found.count(1, 10)
    found.metrics = EndpointMetrics(waiting=1)
    assert heard == [found]


def test_watchers_of_an_endpoint_are_bounded():
    found, lists, kept = endpoint(), [[] for _ in range(100)], []
    for changed in lists:
        found.watch(changed)
        kept.append(len(found._watchers))
    assert kept[:18] == [*range(1, 17), 1, 2]
    assert max(kept) == 16
    found.count(1, 0)
    assert all(changed == [found] for changed in lists)
