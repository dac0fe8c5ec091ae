"""What runs beside the server, and how it begins and ends with it."""

import re

import aiohttp

from modelplane.epp.config.builtin import builtin_registry
from modelplane.epp.config.config import load
from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.epp.datalayer.peers import PeerOptions
from modelplane.epp.replay.snapshot import decode
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.server.observe.plugin_durations import EVERY
from modelplane.epp.server.runner import PickerRunner, RunnerOptions
from modelplane.epp.server.server import PickerSettings
from modelplane.framework.registry import NoParameters, plugin_type
from modelplane.sim.engine import EngineConfig, SimulatedEngine
from modelplane.testing.picking import chances
from tests.support.waiting import until

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
FLOWING = (
    HEAD
    + """featureGates: [flowControl]
plugins: [{type: prefix-cache-scorer}]
"""
)
DIVIDING = (
    HEAD
    + """plugins: [{type: disagg-profile-handler}, {type: decode-filter}]
schedulingProfiles: [{name: decode, plugins: [{pluginRef: decode-filter}]}]
"""
)
SETTINGS = PickerSettings(host="127.0.0.1", port=0, health_port=-1, drain_s=1.0)


class Kept:
    """Rules that note when they are started and stopped."""

    def __init__(self):
        self.steps = []
        self.priorities = {}

    def rewrite(self, _model, _chance):
        return None

    async def start(self):
        self.steps.append("start")

    async def stop(self):
        self.steps.append("stop")


async def page(program, path):
    url = f"http://127.0.0.1:{program.metrics_port}{path}"
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        return answer.status, await answer.text()


def test_metrics_health_and_rules(run):
    async def scenario():
        rules = Kept()
        options = RunnerOptions(metrics_port=0, scrapes=False, pool="p", rules=rules)
        program = PickerRunner(StaticEndpoints([Endpoint("ns/a", "10.0.0.1:80")]), load(""), SETTINGS, options)
        await program.start()
        found = [await page(program, path) for path in ("/metrics", "/healthz", "/readyz")]
        await program.stop()
        return found, rules.steps

    (metrics, health, ready), steps = run(scenario())
    assert (metrics[0], health[0], ready[0]) == (200, 200, 200)
    assert 'llm_d_epp_ready_endpoints{name="p"} 1' in metrics[1]
    assert steps == ["start", "stop"]


def test_deprecated_names_and_the_state_are_served_if_enabled(run):
    async def scenario(options):
        endpoint = Endpoint("ns/a", "10.0.0.1:80", {"llm-d.ai/role": "decode"}, requests_in_flight=3)
        program = PickerRunner(StaticEndpoints([endpoint]), load(FLOWING), SETTINGS, options)
        await program.start()
        found = [await page(program, path) for path in ("/metrics", "/debug/state")]
        await program.stop()
        return found

    metrics, state = run(scenario(RunnerOptions(metrics_port=0, scrapes=False, shows_state=True, legacy_metrics=True)))
    assert "inference_pool_ready_pods" in metrics[1]
    assert 'flow_control_pool_saturation{inference_pool="",stage="decode"} 0.03' in metrics[1]
    assert "llm_d_epp_prefix_indexer_size 0" in metrics[1]
    (endpoint,) = decode(state[1]).endpoints
    assert (endpoint.name, endpoint.labels, endpoint.requests_in_flight) == ("ns/a", {"llm-d.ai/role": "decode"}, 3)
    metrics, state = run(scenario(RunnerOptions(metrics_port=0, scrapes=False)))
    assert "inference_pool_ready_pods" not in metrics[1]
    assert state[0] == 404


def test_how_requests_are_divided_is_counted_where_a_handler_divides():
    programs = [
        PickerRunner(StaticEndpoints(), load(text), SETTINGS, RunnerOptions(metrics_port=-1, scrapes=False))
        for text in ("", DIVIDING)
    ]
    assert [program.server.director.observer.divides for program in programs] == [False, True]
    programs[1].server.reload(load(""))
    assert not programs[1].server.director.observer.divides


def test_a_new_configuration_keeps_what_is_remembered():
    program = PickerRunner(StaticEndpoints(), load(""), SETTINGS, RunnerOptions(metrics_port=-1, scrapes=False))
    director = program.server.director
    before = director.scheduler.assembly.plugins["approx-prefix-cache-producer"]
    program.server.reload(load(FLOWING))
    assert director.scheduler.assembly.plugins["approx-prefix-cache-producer"] is before


def test_no_metrics_port(run):
    async def scenario():
        program = PickerRunner(StaticEndpoints(), load(""), SETTINGS, RunnerOptions(metrics_port=-1, scrapes=False))
        await program.start()
        port = program.metrics_port
        await program.stop()
        return port

    assert run(scenario()) == -1


def test_the_load_of_endpoints_is_read(run):
    async def scenario():
        engine = SimulatedEngine(EngineConfig(cluster="c", namespace="ns", pod="m-0", models=("m",), speed=1000))
        address = await engine.start("127.0.0.1")
        endpoint = Endpoint("ns/m-0", f"127.0.0.1:{address.port}")
        program = PickerRunner(StaticEndpoints([endpoint]), load(""), SETTINGS, RunnerOptions(metrics_port=-1))
        await program.start()
        await until(lambda: endpoint.metrics.scraped_s > 0)
        program.server.reload(load(""))
        await program.stop()
        await engine.stop()
        return endpoint.metrics

    load_seen = run(scenario())
    assert load_seen.scraped_s > 0
    assert load_seen.block_size > 0


def test_a_picker_that_drains_is_not_ready(run):
    async def scenario():
        program = PickerRunner(StaticEndpoints([]), load(""), SETTINGS, RunnerOptions(metrics_port=0, scrapes=False))
        await program.start()
        before = await page(program, "/readyz")
        await program.server.stop()
        draining = [await page(program, path) for path in ("/readyz", "/healthz")]
        await program.stop()
        return before, draining

    before, draining = run(scenario())
    assert before == (200, "ok\n")
    assert draining == [(503, "the picker is stopping\n"), (200, "ok\n")]


def test_the_page_has_the_durations_of_plugins(run):
    async def scenario():
        source = StaticEndpoints([Endpoint("ns/a", "10.0.0.1:80")])
        program = PickerRunner(source, load(""), SETTINGS, RunnerOptions(metrics_port=0, scrapes=False))
        await program.start()
        _, before = await page(program, "/metrics")
        for at in range(EVERY):
            program.server.director.scheduler.schedule(Request(f"r{at}"), source.current, 0.0, chances())
        shown = await until(lambda: shows(program, "llm_d_epp_plugin_duration_seconds_count"))
        await program.stop()
        return before, shown

    before, shown = run(scenario())
    assert "# TYPE llm_d_epp_plugin_duration_seconds histogram" in before
    labels = 'extension_point="Scorer",plugin_type="prefix-cache-scorer",plugin_name="prefix-cache-scorer"'
    assert f"llm_d_epp_plugin_duration_seconds_count{{{labels}}} 1" in shown


async def shows(program, text):
    """The page once it has the text: it is kept for a while after it was made."""
    _, found = await page(program, "/metrics")
    return found if text in found else ""


class Breaks:
    reads_bodies = False

    def __init__(self, name, _parameters):
        self.name = name

    def endpoints_changed(self, *_given):
        raise RuntimeError("boom")

    response_complete = pre_request = endpoints_changed


BROKEN = (
    HEAD
    + """plugins: [{type: breaks}, {type: queue-scorer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}]}]
"""
)


def test_a_listener_that_raises_at_a_reload_is_logged_with_its_traceback(caplog):
    """It learns of the pool before the first request."""
    registry = builtin_registry().extended([plugin_type("breaks", Breaks, NoParameters)])
    program = PickerRunner(StaticEndpoints(), load(""), SETTINGS, RunnerOptions(metrics_port=-1, scrapes=False))
    program.server.reload(load(BROKEN, "config.yaml", registry))
    messages = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert messages == ["plugin breaks: raised RuntimeError: boom"]
    assert 'raise RuntimeError("boom")' in caplog.text


def test_the_page_counts_the_faults_of_plugins_also_of_those_that_change_no_decision(run, caplog):
    async def scenario():
        registry = builtin_registry().extended([plugin_type("breaks", Breaks, NoParameters)])
        source = StaticEndpoints([Endpoint("ns/a", "10.0.0.1:80")])
        options = RunnerOptions(metrics_port=0, scrapes=False)
        program = PickerRunner(source, load(BROKEN, "config.yaml", registry), SETTINGS, options)
        await program.start()
        decision = program.server.director.scheduler.schedule(Request("r"), source.current, 0.0, chances())
        _, shown = await page(program, "/metrics")
        await program.stop()
        return decision, shown

    decision, shown = run(scenario())
    assert decision.destinations == "10.0.0.1:80"
    assert re.findall(r"^llm_d_epp_plugin_faults_total.*", shown, re.MULTILINE) == [
        'llm_d_epp_plugin_faults_total{plugin_name="breaks"} 1'
    ]
    assert caplog.text.count('raise RuntimeError("boom")') == 1


FULL = (
    HEAD
    + """featureGates: [flowControl]
plugins: [{type: full}, {type: queue-scorer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}]}]
flowControl: {saturationDetector: {pluginRef: full}}
"""
)


class Full:
    def __init__(self, name, _parameters):
        self.name = name

    def saturation(self, _endpoints, _now_s, _grown):
        return 7.0


def test_a_saturation_detector_of_another_package():
    registry = builtin_registry().extended([plugin_type("full", Full, NoParameters).serving_as("detector")])
    config = load(FULL, "config.yaml", registry)
    source = StaticEndpoints([Endpoint("ns/a", "10.0.0.1:80")])
    program = PickerRunner(source, config, SETTINGS, RunnerOptions(metrics_port=-1, scrapes=False))
    assert program.server.director.saturation == {"decode": 7.0}


def test_pickers_with_peers_share_loads_and_prompts_until_the_configuration_says_no(run):
    prompt = b"The same beginning of every conversation. " * 100

    def runner(everyone):
        async def find():
            return set(everyone)

        source = StaticEndpoints([Endpoint("pool/a", "127.0.0.1:9"), Endpoint("pool/b", "127.0.0.1:10")])
        config = load(HEAD + "plugins: [{type: prefix-cache-scorer}, {type: active-request-scorer}]\n")
        options = RunnerOptions(metrics_port=0, scrapes=False, peers=PeerOptions(find, 0, "127.0.0.1", 0.02))
        return PickerRunner(source, config, SETTINGS, options)

    def picked(program):
        director = program.server.director
        request = Request("r", "m", prompts=(prompt,))
        return director.scheduler.schedule(request, program.server.source.current, 0.0, chances(0.7)).picked

    async def scenario():
        everyone = set()
        one, two = runner(everyone), runner(everyone)
        for each in (one, two):
            await each.start()
            everyone.add(("127.0.0.1", each.peers.port))
        try:
            await until(lambda: one.peers.peers == two.peers.peers == 1)
            first = picked(one)
            await until(lambda: [each.requests_in_flight for each in two.server.source.current].count(1) == 1)
            again = picked(two)
            _, text = await page(two, "/metrics")
            alone = HEAD + (
                "plugins: [{type: prefix-cache-scorer}, {type: active-request-scorer},"
                " {type: inflight-load-producer, parameters: {syncCrossReplicaState: false}}]\n"
            )
            shared = again.requests_in_flight
            two.server.reload(load(alone))
            return first.name == again.name, "llm_d_epp_peers 1\n" in text, shared, again.requests_in_flight
        finally:
            await one.stop()
            await two.stop()

    assert run(scenario()) == (True, True, 2, 1)
