"""Scenarios: what happens to a fleet in virtual time, decided by the real core."""

from pathlib import Path

import pytest

from modelplane.api.errors import InputError
from modelplane.cli.manifests import read_documents
from modelplane.compose.context import Context
from modelplane.testing.world.scenario import ScenarioPlan, run_scenario
from modelplane.testing.world.scenario_file import read_scenario
from modelplane.testing.world.scenario_steps import read_step
from modelplane.views.simulation_report import report_bytes

QUICKSTART = [
    document.value
    for document in read_documents([Path(__file__).resolve().parents[3] / "examples" / "quickstart"])
    if isinstance(document.value, dict)
]
GRACE_S = 300.0
NAME = "default/qwen3-8b"


def run(*steps, seconds=200.0, seed=0, **more):
    return run_scenario(
        ScenarioPlan(QUICKSTART, [read_step(step) for step in steps], duration_s=seconds, seed=seed, **more)
    )


def row(wanted, clusters):
    placed = sum(clusters.values())
    return [NAME, wanted, placed, placed, clusters, "Ready"]


def shown(found):
    return [found.deployment, found.wanted, found.placed, found.serving, found.clusters, found.state]


def chat(rate):
    """Traffic of the service at a constant rate."""
    return {"traffic": read_scenario({"traffic": [{"service": "chat", "requestsPerSecond": rate}]}).traffic}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((), row(2, {"east": 1, "west": 1})),
        (("30 double default/qwen3-8b",), row(4, {"east": 2, "west": 2})),
        (("30 scale qwen3-8b 0",), row(0, {})),
        (("30 drain cluster east",), row(2, {"west": 2})),
        (("30 cordon cluster east", "60 scale default/qwen3-8b 3"), row(3, {"east": 1, "west": 2})),
        (
            ("30 cordon cluster east", "40 cordon cluster west", "50 uncordon cluster west", "60 double qwen3-8b"),
            row(4, {"east": 1, "west": 3}),
        ),
        (("30 drain cluster east", "60 undrain cluster east"), row(2, {"west": 2})),
        (("30 restart plane",), row(2, {"east": 1, "west": 1})),
        (("10 resize pool west/h200 0", "40 scale default/qwen3-8b 3"), row(3, {"east": 3})),
        (("30 delete cluster east", "40 resize pool west/h200 4"), row(2, {"west": 2})),
    ],
    ids=lambda value: ", ".join(value) or "nothing" if isinstance(value, tuple) else "",
)
def test_what_becomes_of_a_fleet(steps, expected):
    outcome = run(*steps)
    (found,) = outcome.deployments
    assert (outcome.violation, outcome.quiet) == ("", True)
    assert shown(found) == expected


def test_a_cluster_that_is_lost_is_replaced_after_the_grace_and_the_story_says_so():
    outcome = run("60 lose cluster east", "500 recover cluster east", seconds=600.0)
    told = [text for _, text in outcome.story]
    (found,) = outcome.deployments
    assert (shown(found), outcome.violation) == (row(2, {"west": 2}), "")
    assert [text for text in told if "serve" in text] == [
        f"{NAME}: {number} of 2 replicas serve" for number in (2, 1, 2)
    ]
    moved = [when for when, text in outcome.story if text.endswith("goes to west")]
    assert moved[-1] == pytest.approx(60.0 + GRACE_S)


def test_a_new_pool_takes_what_had_no_room():
    outcome = run("10 scale qwen3-8b 40", "100 add pool east/more h200-8x 2", seconds=200.0)
    (found,) = outcome.deployments
    assert (found.placed, found.serving, found.clusters) == (40, 40, {"east": 24, "west": 16})


def test_a_seed_is_the_same_bytes_each_time():
    once, again = (report_bytes(run("60 delete cluster east", seed=5, **chat(9))) for _ in range(2))
    assert once == again
    assert once != report_bytes(run("60 delete cluster east", seed=6, **chat(9)))


def test_a_region_that_is_lost_is_told_in_one_sentence():
    outcome = run("60 lose region us-east", "500 recover region us-east", seconds=600.0, **chat(12))
    lost, back = outcome.steps
    assert lost.summary == (
        "region us-east lost at 00:01: 1 of 2 replicas moved to west, all 2 ready after 306 s, 6 requests failed"
    )
    assert (lost.moved, lost.recovered_s, lost.counts.failed) == (1, 306.2, 6)
    assert (
        back.summary
        == f"region us-east back at 00:08:20: no replica moved, none of {back.counts.requests} requests lost"
    )
    assert [(each.cluster, each.why_left) for each in outcome.replicas] == [
        ("east", "east does not answer"),
        ("west", ""),
        ("west", ""),
    ]
    assert outcome.replicas[-1].why_here.endswith("east: refused by ClusterReady: the cluster is not ready")


def test_what_is_reported_of_clients_adds_up():
    (service,) = run("60 lose region us-east", "90 lose cluster west", seconds=200.0, **chat(12)).services
    counts = service.counts
    assert counts.requests == counts.served + counts.shed + counts.failed + counts.waiting
    assert sum(point.counts.requests for point in service.points) == counts.requests
    # 110 s without a cluster, 12 requests a second
    assert 1100 < counts.failed < 1500


def test_the_first_replicas_are_there_before_the_clients():
    (service,) = run(seconds=120.0, engine_start_s=60.0, **chat(12)).services
    assert (service.counts.failed, service.points[0].counts.requests) == (0, 0)


def test_engines_start_as_slowly_as_the_scenario_says():
    outcome = run(seconds=200.0, engine_start_s=60.0)
    assert [round(each.ready_s - each.placed_s) for each in outcome.replicas] == [61, 61]


def test_gpu_hours_and_prices_are_those_of_the_replicas():
    outcome = run("1800 scale qwen3-8b 0", seconds=3600.0)
    (found,) = outcome.deployments
    # two GPUs for half an hour, of nodes with eight at 84.80 an hour
    assert found.gpu_hours == pytest.approx(1.0, abs=0.01)
    assert found.cost == pytest.approx(10.6, abs=0.1)
    assert outcome.bill.nodes_cost == pytest.approx(339.2, abs=1.0)


def test_a_roll_out_takes_one_replica_after_the_other():
    outcome = run("60 roll qwen3-8b vllm/vllm-openai:v0.28.0", seconds=300.0, **chat(5))
    (found,) = outcome.deployments
    assert min(point.ready for point in found.points if point.at_s > 60) == 1
    assert (outcome.steps[0].moved, outcome.services[0].counts.failed) == (0, 0)


def test_a_service_that_is_not_there_is_named():
    wrong = read_scenario({"traffic": [{"service": "team/none", "requestsPerSecond": 1}]}).traffic
    with pytest.raises(InputError) as refused:
        run(traffic=wrong)
    assert str(refused.value) == ("traffic[0].service: there is no ModelService team/none; there are default/chat")


def test_a_rule_that_is_broken_ends_it(monkeypatch):
    monkeypatch.setattr(Context, "namespace", "mp-shared")
    assert run().violation.startswith("tenants: ")


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("lose cluster east", "it begins with its time"),
        ("", "it begins with its time"),
        ("60 lose region mars", "no InferenceCluster has the label region=mars"),
        ("60 traffic chat 2", "the scenario has no traffic for default/chat"),
        ("60 traffic chat much", "'much' is not a factor such as 2 or 0.5"),
        ("60 add pool east/x none 1", "there is no InferenceClass none; there are h200-8x"),
        ("60 burn cluster east", "step `burn cluster east` is none of: lose cluster NAME, "),
        ("60 loose cluster east", "step `loose cluster east`: did you mean `lose cluster NAME`? Steps are: "),
        ("60 scal default/chat 3", "did you mean `scale NAMESPACE/NAME REPLICAS`? Steps are: "),
        ("60 lose cluster", "did you mean `lose cluster NAME`? Steps are: "),
        ("60 add pool east/x h200-8x", "did you mean `add pool CLUSTER/POOL CLASS NODES`? Steps are: "),
        ("60 lose cluster eest", "there is no InferenceCluster eest; did you mean east?"),
        ("60 lose cluster nowhere", "there is no InferenceCluster nowhere; there are east, west"),
        ("60 scale qwen3-8b many", "'many' is not a whole number"),
        ("201 restart plane", "steps[0]: `restart plane` happens at 201 s, after the end at 200 s"),
        ("60 scale other/qwen3-8b 1", "there is no ModelDeployment qwen3-8b"),
        ("60 resize pool h200 1", "a pool is named as CLUSTER/POOL"),
        ("60 resize pool east/x 1", "cluster east has no pool x"),
    ],
)
def test_steps_that_are_refused(step, problem):
    with pytest.raises(InputError) as refused:
        run(step)
    assert problem in str(refused.value)
