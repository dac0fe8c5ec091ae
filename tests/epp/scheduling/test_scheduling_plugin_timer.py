"""Plugins that are timed decide as those that are not, and each has its time at its extension point."""

from itertools import count
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.config.config import load
from modelplane.epp.scheduling.assembly import Assembly
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.plugin_timer import PluginTimer
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.framework import Profile, Weighted
from modelplane.testing.picking import chances, endpoints_with, make, seeded

DIVIDED = """apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: queue-scorer}
- {type: kv-cache-utilization-scorer}
- {type: prefix-cache-scorer}
- {type: session-affinity-scorer}
- {type: latency-scorer}
- {type: shadow-profile-handler, parameters: {shadows: [trial]}}
schedulingProfiles:
- name: real
  plugins: [{pluginRef: queue-scorer}, {pluginRef: prefix-cache-scorer}, {pluginRef: session-affinity-scorer}]
- name: trial
  plugins: [{pluginRef: kv-cache-utilization-scorer}, {pluginRef: latency-scorer}]
"""


def decisions(scheduler, seed, requests):
    pool = tuple(Endpoint(f"ns/{at}", f"10.0.0.{at}:80") for at in range(4))
    chance = seeded(seed)
    found = []
    for at, (tenant, ends) in enumerate(requests):
        request = Request(
            f"r{at}", model="m", prompts=(b"%d " % tenant * 300,), headers={"x-session-token": str(tenant)}
        )
        decision = scheduler.schedule(request, pool, float(at), chance)
        found.append((decision.outcome, decision.destinations, str(decision.shadows), decision.set_headers))
        if ends:
            scheduler.response_received(request, decision)
            scheduler.response_complete(request, decision, EndpointResponse(decision.picked, 200, float(at)))
    return found


@given(
    st.integers(0, 9),
    st.sampled_from(["", DIVIDED]),
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12),
)
def test_timed_plugins_decide_the_same(seed, text, requests):
    timer = PluginTimer(lambda *_observed: None, float)
    plain = Scheduler(load(text).build())
    timed = Scheduler(timer.assembly(load(text).build()))
    assert decisions(timed, seed, requests) == decisions(plain, seed, requests)
    assert timed.reads_bodies == plain.reads_bodies


class Everything:
    """Every hook, each in one tick of the clock."""

    reads_bodies = False

    def __init__(self, name):
        self.name = name

    def nothing(self, *_arguments):
        return ()

    produce = pre_request = response_headers = response_received = response_complete = nothing

    def admit(self, _context):
        return ""

    def refuse(self, _context, _candidate):
        return None


class Breaks(Everything):
    def score(self, _context, _endpoints):
        raise RuntimeError("boom")


def test_times_are_added_up_over_a_call_and_observed_once():
    seen = []
    clock = count()
    timer = PluginTimer(lambda *observed: seen.append(observed), lambda: float(next(clock)))
    plugin = Everything("every")
    pool = endpoints_with([EndpointMetrics(waiting=waiting) for waiting in [1, 2, 3]])
    profile = Profile("p", make("max-score-picker"), (plugin,), (Weighted(make("queue-scorer")),))
    handler = make("single-profile-handler")
    timed = Scheduler(timer.assembly(Assembly(handler, {"p": profile}, {"every": plugin})))
    request = Request("r")
    decision = timed.schedule(request, pool, 0.0, chances())
    timer.flush()
    timed.response_received(request, decision)
    timed.response_complete(request, decision, EndpointResponse(decision.picked, 200, 0.0))
    timer.flush()
    timer.flush()
    named = handler.name
    assert sorted(seen) == [
        ("Admission", "every", 1.0),
        ("DataProducer", "every", 1.0),
        ("Filter", "every", 3.0),
        ("PreRequest", "every", 1.0),
        ("ProcessProfilesResults", named, 1.0),
        ("ProfilePicker", named, 2.0),
        ("ResponseComplete", "every", 1.0),
        ("ResponseHeaders", "every", 1.0),
        ("ResponseReceived", "every", 1.0),
        ("Scorer", "queue-scorer", 6.0),
    ]


def test_what_was_not_observed_can_be_forgotten():
    seen = []
    clock = count()
    timer = PluginTimer(lambda *observed: seen.append(observed), lambda: float(next(clock)))
    pool = endpoints_with([EndpointMetrics(waiting=waiting) for waiting in [1, 2]])
    profile = Profile("p", make("random-picker"), (Everything("every"),))
    timed = Scheduler(timer.assembly(Assembly(make("single-profile-handler"), {"p": profile}, {})))
    timed.schedule(Request("r"), pool, 0.0, chances())
    timer.reset()
    timer.flush()
    timed.schedule(Request("r"), pool[:1], 0.0, chances())
    timer.flush()
    timed.schedule(Request("r"), pool, 0.0, chances())
    timer.flush()
    assert [observed for observed in seen if observed[0] == "Filter"] == [
        ("Filter", "every", 1.0),
        ("Filter", "every", 2.0),
    ]


def test_a_plugin_that_raises_is_timed_and_its_fault_is_the_same():
    seen = []
    timer = PluginTimer(lambda *observed: seen.append(observed[:2]), float)
    profile = Profile("p", make("max-score-picker"), (), (Weighted(Breaks("breaks")),))
    timed = Scheduler(timer.assembly(Assembly(make("single-profile-handler"), {"p": profile}, {})))
    decision = timed.schedule(
        Request("r"), endpoints_with([EndpointMetrics(waiting=waiting) for waiting in [1, 2]]), 0.0, chances()
    )
    timer.flush()
    assert (decision.outcome, decision.why) == (Outcome.FAULT, "plugin breaks: raised RuntimeError: boom")
    assert ("Scorer", "breaks") in seen


POINTS = {
    "pick_profiles": "ProfilePicker", "process_results": "ProcessProfilesResults", "produce": "DataProducer",
    "admit": "Admission", "refuse": "Filter", "narrow": "Filter", "score": "Scorer", "read": "Scorer",
    "relative_score": "Scorer", "pick": "Picker", "order": "Picker", "take": "Picker", "pre_request": "PreRequest",
    "response_headers": "ResponseHeaders", "response_received": "ResponseReceived",
    "response_complete": "ResponseComplete",
}  # fmt: skip
UNTIMED = {"capture": 1, "restore": 2, "reads_bodies": True, "shadow_profiles": frozenset({"trial"})}


def test_each_method_is_timed_at_its_extension_point():
    seen = []
    timer = PluginTimer(lambda *observed: seen.append(observed), float)
    plugin = SimpleNamespace(name="all", other=3, **dict.fromkeys(POINTS, lambda: None), **UNTIMED)
    timed = timer.assembly(Assembly(make("single-profile-handler"), {}, {"all": plugin})).plugins["all"]
    for method in POINTS:
        getattr(timed, method)()
        timer.flush()
    assert seen == [(point, "all", 0.0) for point in POINTS.values()]
    assert {name: value for name, value in vars(timed).items() if name not in POINTS} == {"name": "all", **UNTIMED}
