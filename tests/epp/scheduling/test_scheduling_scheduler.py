"""One request, one outcome: decisions, their ends, and what a broken plugin can do to them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.config.config import load
from modelplane.epp.scheduling.assembly import Assembly
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.scheduling.results import decision_from
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.framework import Profile, Refusal, RefusalCode, Result, RunOutcome, StepRecorder, Weighted
from modelplane.testing.picking import chances, context_of, endpoint, endpoints_with, make, seeded, with_prefix

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"


def scheduler(text=""):
    return Scheduler(load(HEAD + text if text else "").build())


def names(decision):
    return [[found.name for found in group] for group in decision.groups]


class Refuses:
    def __init__(self, name, code):
        self.name = name
        self._code = code

    def refuse(self, _context, candidate):
        return Refusal(self.name, self._code, "{} is not wanted", (candidate.name,))


class Breaks:
    """Does everything, and nothing right."""

    name = "breaks"
    reads_bodies = False

    def __call__(self, *_arguments):
        raise RuntimeError("boom")

    refuse = score = pick = produce = admit = pre_request = response_complete = endpoints_changed = __call__


class Scores:
    name = "scores"

    def __init__(self, value):
        self._value = value

    def score(self, _context, endpoints):
        return [self._value] * len(endpoints)


class Handler:
    """Names the same profiles in every round."""

    name = "handler"

    def __init__(self, *named):
        self._named = named

    def pick_profiles(self, context, _profiles):
        return self._named[len(context.results)] if len(context.results) < len(self._named) else ()

    def process_results(self, context):
        ((profile, result),) = context.results.items()
        return decision_from(profile, result)


class Concludes:
    name = "concludes"

    def __init__(self, decision):
        self._decision = decision

    def pick_profiles(self, _context, _profiles):
        return ()

    def process_results(self, _context):
        return self._decision


def built(*, filters=(), scorers=(), picker=None, handler=None, plugins=()):
    profile = Profile("p", picker or make("max-score-picker"), filters, tuple(Weighted(each) for each in scorers))
    return Scheduler(
        Assembly(handler or make("single-profile-handler"), {"p": profile}, {each.name: each for each in plugins})
    )


POOL = endpoints_with(
    [
        EndpointMetrics(waiting=3, kv_cache_usage=0.5),
        EndpointMetrics(waiting=0, kv_cache_usage=0.5),
        EndpointMetrics(waiting=9, kv_cache_usage=0.0),
    ]
)


def test_the_default_profile_picks_the_best():
    pool = endpoints_with([EndpointMetrics()] * 3)
    for each, requests in zip(pool, (20, 0, 10), strict=True):
        each.count(requests, 0)
    found = scheduler().schedule(Request("r"), pool, 0.0, chances())
    assert (found.outcome, names(found), found.profile, found.destinations) == (
        Outcome.PICKED,
        [["b"]],
        "default",
        pool[1].address,
    )


def test_the_default_profile_leaves_an_endpoint_alone_that_fails():
    pool = endpoints_with([EndpointMetrics()] * 2)
    pool[0].failures = 5
    pool[1].count(9, 0)
    assert names(scheduler().schedule(Request("r"), pool, 0.0, chances(0.5))) == [["b"]]


def test_picks_are_ranked_groups():
    pool = endpoints_with([EndpointMetrics(waiting=3), EndpointMetrics(waiting=0), EndpointMetrics(waiting=3)])
    config = "plugins: [{type: queue-scorer}, {type: max-score-picker, parameters: {maxNumOfEndpoints: 3}}]\n"
    found = scheduler(config).schedule(Request("r"), pool, 0.0, chances(0.0))
    assert names(found) == [["b"], ["c", "a"]]
    assert found.destinations == ",".join(pool[at].address for at in (1, 2, 0))


@pytest.mark.parametrize(
    ("filters", "outcome", "status", "why"),
    [
        pytest.param(
            (Refuses("role", RefusalCode.UNRESOLVABLE),),
            Outcome.EXCLUDED,
            503,
            "profile p admits no endpoint: role: a is not wanted",
            id="unresolvable",
        ),
        pytest.param(
            (Refuses("load", RefusalCode.UNSCHEDULABLE),),
            Outcome.SATURATED,
            429,
            "profile p admits no endpoint: load: a is not wanted",
            id="unschedulable",
        ),
    ],
)
def test_none_admitted_has_two_outcomes(filters, outcome, status, why):
    found = built(filters=filters).schedule(Request("r"), POOL, 0.0, chances())
    assert (found.outcome, found.outcome.status, found.why) == (outcome, status, why)


def test_no_endpoint_at_all():
    found = scheduler().schedule(Request("r"), (), 0.0, chances())
    assert (found.outcome, found.why) == (Outcome.NO_ENDPOINTS, "no endpoint is ready")


@pytest.mark.parametrize("subset", [(), ("10.9.9.9:1",)])
def test_a_subset_without_endpoints_is_a_503(subset):
    found = scheduler().schedule(Request("r", subset=subset), POOL, 0.0, chances())
    assert (found.outcome, found.outcome.status, found.why) == (
        Outcome.EXCLUDED,
        503,
        "no ready endpoint is in the proxy's subset",
    )


def test_routing_headers_of_the_client_are_removed():
    headers = {"x-prefiller-host-port": "6.6.6.6:80", "x-gateway-destination-endpoint": "6.6.6.6:80", "accept": "*/*"}
    found = scheduler().schedule(Request("r", headers=headers), POOL, 0.0, chances())
    assert found.remove_headers == ("x-gateway-destination-endpoint", "x-prefiller-host-port")


class AddsHeader:
    name = "adds"

    def pre_request(self, _context, _decision):
        return (("x-kv-cache-source-host-port", "10.0.0.1:8000"),)


def test_a_listener_may_add_headers_and_writes_over_those_of_the_client():
    found = built(plugins=(AddsHeader(),)).schedule(
        Request("r", headers={"x-kv-cache-source-host-port": "6.6.6.6:1", "x-prefiller-host-port": "6.6.6.6:1"}),
        POOL,
        0.0,
        chances(),
    )
    assert (found.set_headers, found.remove_headers) == (
        (("x-kv-cache-source-host-port", "10.0.0.1:8000"),),
        ("x-prefiller-host-port",),
    )


@pytest.mark.parametrize(
    ("make_scheduler", "why"),
    [
        pytest.param(lambda: built(filters=(Breaks(),)), "plugin breaks: raised RuntimeError: boom", id="a filter"),
        pytest.param(lambda: built(scorers=(Breaks(),)), "plugin breaks: raised RuntimeError: boom", id="a scorer"),
        pytest.param(lambda: built(picker=Breaks()), "plugin breaks: raised RuntimeError: boom", id="a picker"),
        pytest.param(lambda: built(plugins=(Breaks(),)), "plugin breaks: raised RuntimeError: boom", id="a producer"),
        pytest.param(
            lambda: built(scorers=(Scores(float("nan")),)),
            "plugin scores: scored nan, which is not in [0, 1]",
            id="a score that is no number",
        ),
        pytest.param(
            lambda: built(handler=Handler(("q",))),
            "plugin handler: picked profile q, which does not exist",
            id="a profile that is not there",
        ),
        pytest.param(
            lambda: built(handler=Handler(("p",), ("p",))),
            "plugin handler: picked profile p, which has run",
            id="a profile again and again",
        ),
        pytest.param(
            lambda: built(handler=Handler()),
            "plugin handler: raised ValueError: not enough values to unpack (expected 1, got 0)",
            id="a handler that cannot conclude",
        ),
        pytest.param(
            lambda: built(handler=Concludes(None)),
            "plugin concludes: returned None, which is no Decision",
            id="no decision at all",
        ),
        pytest.param(
            lambda: built(handler=Concludes(Decision(Outcome.PICKED))),
            "plugin concludes: returned the outcome Picked without an endpoint",
            id="a pick of nothing",
        ),
    ],
)
def test_a_broken_plugin_ends_its_request_and_nothing_else(make_scheduler, why):
    found = make_scheduler()
    decision = found.schedule(Request("r"), POOL, 0.0, chances())
    assert (decision.outcome, decision.outcome.status, decision.why) == (Outcome.FAULT, 500, why)
    assert found.last_fault == why
    assert sum(found.faults.values()) == 1


class BreaksLater:
    name = "later"
    reads_bodies = True

    def pre_request(self, *_arguments):
        raise RuntimeError("boom")

    response_complete = endpoints_changed = pre_request


@pytest.mark.parametrize("reads", [(), (False,), (False, True), (True, True)])
def test_bodies_are_read_where_a_plugin_needs_them(reads):
    plugins = []
    for at, needs in enumerate(reads):
        plugin = Notes()
        plugin.name, plugin.reads_bodies = f"notes-{at}", needs
        plugins.append(plugin)
    assert built(plugins=plugins).reads_bodies is any(reads)


class Knows:
    """The second endpoint has three blocks of the prompt cached."""

    name = "knows"

    def produce(self, context):
        with_prefix(context, [0, 3, 0], 4, block_size=16)


def test_a_decision_says_how_many_tokens_are_cached_where_it_sends_the_request():
    scorers = [make("queue-scorer")]
    found = [
        built(scorers=scorers, plugins=plugins).schedule(Request("r"), POOL, 0.0, chances())
        for plugins in ((), (Knows(),))
    ]
    assert [(names(decision), decision.cached_tokens) for decision in found] == [([["b"]], 0), ([["b"]], 48)]


def test_failing_response_plugins_fail_no_request():
    found = built(plugins=(BreaksLater(),))
    decision = found.schedule(Request("r"), POOL, 0.0, chances())
    found.endpoints_changed(POOL)
    found.response_complete(Request("r"), decision, EndpointResponse(POOL[0], 200, 0.0))
    assert (decision.outcome, found.faults, found.reads_bodies) == (Outcome.PICKED, {"later": 3}, True)


class BreaksWhileSent(BreaksLater):
    produce = response_received = capture = restore = BreaksLater.pre_request


def test_plugins_that_fail_around_a_request_that_was_sent_are_counted_and_reported():
    found, seen = built(plugins=(BreaksWhileSent(),)), []
    found.on_fault = lambda fault: seen.append(str(fault))
    decision = Decision(Outcome.PICKED, ((POOL[0],),))
    found.record_sent(context_of(POOL), decision)
    found.response_received(Request("r"), decision)
    assert (found.faults, seen) == ({"later": 3}, ["plugin later: raised RuntimeError: boom"] * 3)


class Notes:
    """Notes each request that it sees."""

    name = "notes"
    reads_bodies = False

    def __init__(self):
        self.seen = []

    def pre_request(self, context, _decision):
        self.seen.append(("sent", context.request.id))
        return ()

    def response_received(self, request, _decision):
        self.seen.append(("received", request.id))

    def response_complete(self, request, _decision, served):
        self.seen.append(("complete", request.id, served.status))


def test_a_sampled_call_is_the_work_of_the_other_scheduler():
    plain, timed = Notes(), Notes()
    found, other = built(plugins=(plain,)), built(plugins=(timed,))
    served = EndpointResponse(POOL[1], 200, 0.0)
    for name, sampled in (("first", None), ("second", other)):
        found.sampler = lambda sampled=sampled: sampled
        request = Request(name)
        decision = found.schedule(request, POOL, 0.0, chances())
        found.response_received(request, decision)
        found.response_complete(request, decision, served)
    assert plain.seen == [("sent", "first"), ("received", "first"), ("complete", "first", 200)]
    assert timed.seen == [("sent", "second"), ("received", "second"), ("complete", "second", 200)]


class Reads:
    """A metric scorer that notes what it reads."""

    name = "reads"

    def __init__(self):
        self.read_names = []

    def read(self, candidate):
        self.read_names.append(candidate.name)
        return 0.5

    def score(self, _context, endpoints):
        return [self.read(each) for each in endpoints]


def test_a_scheduler_that_caught_up_reads_only_later_changes():
    pool, scorer = endpoints_with([EndpointMetrics()] * 3), Reads()
    found = built(scorers=(scorer,))
    for _ in range(2):
        found.schedule(Request("r"), pool, 0.0, chances())
    pool[0].count(1, 1)
    scorer.read_names.clear()
    found.catch_up()
    pool[2].count(1, 1)
    found.schedule(Request("r"), pool, 0.0, chances())
    assert scorer.read_names == ["a", "c"]


class Keeps:
    """Scores by its own state, and changes it with each request."""

    def __init__(self, name, state):
        self.name = name
        self.state = state

    def capture(self, _context):
        if self.state == "broken":
            raise RuntimeError("boom")
        return self.state

    def restore(self, _context, captured):
        self.state = captured

    def pre_request(self, _context, _decision):
        self.state = "sent"
        return ()


class Recorder:
    """Begins with another id and one random number, and records the state before the request is sent."""

    def refused(self, *_step):
        pass

    scored = picked = refused

    def begin(self, request, chance):
        return request.changed(id=f"recorded {request.id}"), lambda: 0.25 + 0.0 * chance()

    def record(self, context, endpoints, decision, captured):
        self.recorded = (context.request.id, context.chance(), endpoints, decision.outcome, captured)


def test_a_recorder_gets_the_inputs_of_a_decision_before_the_request_is_sent():
    kept, recorder = Keeps("keeps", {"a": 1}), Recorder()
    notes = Notes()
    found = built(plugins=(kept, Keeps("nothing", None), Keeps("breaks", "broken"), notes))
    decision = found.schedule(Request("r"), POOL, 0.0, chances(0.5), recorder)
    assert recorder.recorded == ("recorded r", 0.25, POOL, Outcome.PICKED, {"keeps": {"a": 1}})
    assert (decision.outcome, kept.state, notes.seen) == (Outcome.PICKED, "sent", [("sent", "r")])
    assert found.faults == {"breaks": 1}


def test_a_recorded_decision_without_a_pick_sends_nothing():
    notes, recorder = Notes(), Recorder()
    found = built(filters=(Refuses("load", RefusalCode.UNSCHEDULABLE),), plugins=(notes,))
    assert found.schedule(Request("r"), POOL, 0.0, chances(), recorder).outcome is Outcome.SATURATED
    assert (recorder.recorded[3], notes.seen) == (Outcome.SATURATED, [])


def test_a_shadow_that_breaks_is_counted_and_ignored():
    real = Profile("real", make("max-score-picker"), (), (Weighted(make("queue-scorer")),))
    trial = Profile("trial", make("max-score-picker"), (), (Weighted(Breaks()),))
    handler = make("shadow-profile-handler", shadows=["trial"])
    found = Scheduler(Assembly(handler, {"real": real, "trial": trial}, {}))
    decision = found.schedule(Request("r"), POOL, 0.0, chances())
    assert (names(decision), decision.shadows, found.faults) == ([["b"]], (("trial", ()),), {"breaks": 1})


def test_only_if_the_prompt_is_cached():
    found = scheduler()
    prompt = Request("r", model="m", prompts=(b"tides " * 100,), headers={"prefer": "if-available"})
    refused = found.schedule(prompt, POOL, 0.0, chances())
    assert (refused.outcome, refused.profile, refused.why) == (
        Outcome.NOT_CACHED,
        "default",
        "no endpoint has a prefix of the prompt cached",
    )
    free = Request("r", model="m", prompts=(b"tides " * 100,))
    served = found.schedule(free, POOL, 0.0, chances()).picked
    assert found.schedule(prompt, POOL, 0.0, chances()).picked is served


def test_another_preference_is_not_that_the_prompt_is_cached():
    waits = Request("r", model="m", prompts=(b"tides " * 100,), headers={"prefer": "wait=10"})
    assert scheduler().schedule(waits, POOL, 0.0, chances()).outcome is Outcome.PICKED


def test_a_sent_request_is_recorded_by_record_sent():
    found = scheduler()
    request = Request("r", model="m", prompts=(b"tides " * 100,))
    found.record_sent(context_of(POOL, request), Decision(Outcome.PICKED, ((POOL[2],),)))
    assert found.schedule(request, POOL, 0.0, chances()).picked is POOL[2]


@pytest.mark.parametrize(
    ("priority", "loads", "chance", "outcome"),
    [
        pytest.param(0, [EndpointMetrics(waiting=99, scraped_s=0.0)], 0.0, Outcome.PICKED, id="not sheddable"),
        pytest.param(-1, [EndpointMetrics(waiting=0, scraped_s=0.0)], 0.0, Outcome.PICKED, id="idle"),
        pytest.param(-1, [EndpointMetrics(waiting=5, scraped_s=0.0)], 0.99, Outcome.SATURATED, id="full"),
        pytest.param(-1, [EndpointMetrics()], 0.99, Outcome.SATURATED, id="never seen counts as full"),
        pytest.param(
            -1, [EndpointMetrics(waiting=1, scraped_s=0.0)], 0.0959, Outcome.SATURATED, id="a fifth full, unlucky"
        ),
        pytest.param(-1, [EndpointMetrics(waiting=1, scraped_s=0.0)], 0.0961, Outcome.PICKED, id="a fifth full, lucky"),
        pytest.param(-1, [EndpointMetrics(waiting=1e300, scraped_s=0.0)], 0.99, Outcome.SATURATED, id="beyond measure"),
    ],
)
def test_admission_by_chance(priority, loads, chance, outcome):
    found = scheduler("plugins: [{type: probabilistic-admitter}, {type: random-picker}]\n")
    decision = found.schedule(Request("r", priority=priority), endpoints_with(loads), 0.0, chances(chance))
    assert decision.outcome is outcome


@pytest.mark.parametrize(
    ("loads", "saturation"),
    [
        pytest.param([EndpointMetrics()], 1.0, id="never seen"),
        pytest.param([EndpointMetrics(waiting=2, scraped_s=0.0)], 0.4, id="the queue"),
        pytest.param([EndpointMetrics(kv_cache_usage=0.2, scraped_s=0.0)], 0.25, id="the KV cache"),
        pytest.param([EndpointMetrics(waiting=2, kv_cache_usage=0.4, scraped_s=0.0)], 0.5, id="the worse of both"),
        pytest.param([EndpointMetrics(), EndpointMetrics(scraped_s=0.0)], 0.5, id="the mean of the endpoints"),
    ],
)
def test_the_chance_to_be_admitted_falls_with_the_saturation(loads, saturation):
    found = scheduler(
        "plugins: [{type: probabilistic-admitter, parameters: {power: 1, k: 0.9}}, {type: random-picker}]\n"
    )
    sheddable, pool = Request("r", priority=-1), endpoints_with(loads)
    below, above = (found.schedule(sheddable, pool, 0.0, chances(0.9 * saturation + by)) for by in (-0.01, 0.01))
    why = f"probabilistic-admitter: the saturation is {saturation:.2f} and the priority is -1, below 0"
    assert (below.outcome, below.why, above.outcome) == (Outcome.SATURATED, why, Outcome.PICKED)


ROLE = "llm-d.ai/role"
CONFIGS = (
    "",
    HEAD + "plugins: [{type: random-picker}]\n",
    HEAD + "plugins: [{type: weighted-random-picker}, {type: queue-scorer}, {type: decode-filter}]\n",
    HEAD
    + """
plugins:
- type: disagg-profile-handler
  parameters: {deciders: {prefill: always-disagg-pd-decider}}
- type: always-disagg-pd-decider
- type: decode-filter
- type: prefill-filter
- type: prefix-cache-scorer
- {type: max-score-picker, parameters: {maxNumOfEndpoints: 3}}
schedulingProfiles:
- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: prefix-cache-scorer}]}
- {name: prefill, plugins: [{pluginRef: prefill-filter}]}
""",
)

endpoints = st.builds(
    lambda role, load, failures: (role, load, failures),
    st.sampled_from(["", "decode", "prefill", "both"]),
    st.builds(
        EndpointMetrics,
        waiting=st.integers(0, 3).map(float),
        kv_cache_usage=st.sampled_from([0.0, 0.5, 1.0]),
        scraped_s=st.just(0.0),
    ),
    st.integers(0, 3),
)


def pool_of(states):
    return tuple(
        Endpoint(f"e{at}", f"10.0.0.{at}:8000", {ROLE: role} if role else {}, metrics=load, failures=failures)
        for at, (role, load, failures) in enumerate(states)
    )


requests = st.builds(
    lambda prompt, subset, forged: Request(
        "r", "m", prompts=(prompt,), subset=subset, headers={"x-prefiller-host-port": "6.6.6.6:1"} if forged else {}
    ),
    st.sampled_from([b"", b"one " * 100, b"two " * 200]),
    st.none() | st.lists(st.integers(0, 9).map(lambda at: f"10.0.0.{at}:8000"), max_size=4).map(tuple),
    st.booleans(),
)


def run_all(config, states, asked, seed, order=None, reporter=None):
    pool = pool_of(states)
    listed = pool if order is None else tuple(pool[at] for at in order)
    found = Scheduler(load(config).build())
    chance = seeded(seed)
    return [told(found.schedule(request, listed, 0.0, chance, reporter)) for request in asked]


def told(decision):
    return (
        decision.outcome,
        decision.why,
        decision.destinations,
        decision.set_headers,
        decision.remove_headers,
        [(profile, [each.name for each in picks]) for profile, picks in decision.others],
    )


@given(
    st.sampled_from(CONFIGS),
    st.lists(endpoints, max_size=8),
    st.lists(requests, min_size=1, max_size=4),
    st.integers(0, 2**32),
    st.randoms(use_true_random=False),
)
def test_decisions_repeat_for_any_endpoint_order_and_reporter(config, states, asked, seed, random):
    order = list(range(len(states)))
    random.shuffle(order)
    first = run_all(config, states, asked, seed)
    assert run_all(config, states, asked, seed) == first
    assert run_all(config, states, asked, seed, reporter=StepRecorder()) == first
    mixed = run_all(config, states, asked, seed, order)
    # The sentence may quote another endpoint first.
    assert [(one[0], *one[2:]) for one in mixed] == [(one[0], *one[2:]) for one in first]


@given(
    st.sampled_from(CONFIGS),
    st.lists(endpoints, max_size=8),
    st.lists(requests, min_size=1, max_size=4),
    st.integers(0, 2**32),
)
def test_every_pick_is_allowed_and_no_header_of_the_client_survives(config, states, asked, seed):
    found = Scheduler(load(config).build())
    pool = pool_of(states)
    for request in asked:
        decision = found.schedule(request, pool, 0.0, seeded(seed))
        allowed = {each.address for each in pool if request.subset is None or each.address in request.subset}
        addresses = {*filter(None, decision.destinations.split(","))}
        for _, value in decision.set_headers:
            addresses.update(value.split(","))
        assert addresses <= allowed
        assert (decision.outcome is Outcome.PICKED) == bool(decision.groups)
        assert decision.outcome is not Outcome.FAULT, decision.why
        if decision.outcome is Outcome.PICKED:
            written = {name for name, _ in decision.set_headers}
            assert set(request.headers) <= written.union(decision.remove_headers)


class Named:
    """Names profiles at random, for ever."""

    name = "named"

    def __init__(self, rounds):
        self._rounds = iter(rounds)

    def pick_profiles(self, _context, profiles):
        wanted = next(self._rounds, ("p",))
        return [name for name in wanted if name in profiles] or ["p"]

    def process_results(self, context):
        profile, result = next(iter(context.results.items()))
        return decision_from(profile, result)


@given(st.lists(st.lists(st.sampled_from("pqr"), max_size=3), max_size=6))
def test_rounds_end_whatever_a_handler_names(rounds):
    profiles = {name: Profile(name, make("max-score-picker")) for name in "pqr"}
    found = Scheduler(Assembly(Named(rounds), profiles, {}))
    decision = found.schedule(Request("r"), POOL, 0.0, chances())
    assert decision.outcome is Outcome.FAULT
    assert "which has run" in decision.why


def test_a_cycle_reads_loads_once_and_aligns_columns():
    context = SchedulingContext(Request("r"), POOL, 0.0, chances())
    assert context.metrics(POOL) is context.metrics(POOL)
    assert context.aligned([1, 2, 3], POOL) == [1, 2, 3]
    assert context.aligned([1, 2, 3], (POOL[2], POOL[0])) == [3, 1]


def test_a_decision_without_a_pick_has_a_reason():
    assert decision_from("p", Result(RunOutcome.NOTHING_OFFERED)).outcome is Outcome.NO_ENDPOINTS


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        (EndpointMetrics(kv_cache_usage=1.7), (0.0, 0.0, 1.0)),
        (EndpointMetrics(kv_cache_usage=-0.1), (0.0, 0.0, 0.0)),
        (EndpointMetrics(kv_cache_usage=float("nan"), waiting=float("nan"), running=float("nan")), (0.0, 0.0, 1.0)),
        (EndpointMetrics(waiting=float("inf"), running=-3.0), (1e12, 0.0, 0.0)),
        (EndpointMetrics(2.0, 3.0, 0.5), (2.0, 3.0, 0.5)),
    ],
)
def test_a_load_holds_numbers_in_their_range(given_, expected):
    assert (given_.waiting, given_.running, given_.kv_cache_usage) == expected


def test_an_endpoint_is_itself_only():
    assert endpoint("a") != endpoint("a")
