"""CPU and memory of containers: users' words stay, and the engine gets what is left of the pod's share."""

import msgspec
import pytest

from modelplane.api.models import NodeResources, WarmUp
from modelplane.compose.container_requests import with_least, with_requests
from modelplane.k8s.quantity import quantity_from_json

SHARE = NodeResources(cpu="8", memory="64Gi")
ENGINE = {"name": "engine"}


def requesting(name="engine", limits=None, **requests):
    return {"name": name, "resources": {"requests": requests} | ({"limits": limits} if limits else {})}


@pytest.mark.parametrize(
    ("containers", "share", "expected"),
    [
        pytest.param([ENGINE], None, [ENGINE], id="no share"),
        pytest.param([ENGINE], SHARE, [requesting(cpu="8", memory="65536Mi")], id="all of it"),
        pytest.param([ENGINE], NodeResources(cpu="8"), [requesting(cpu="8")], id="what is known"),
        pytest.param([requesting(cpu="2")], SHARE, [requesting(cpu="2", memory="65536Mi")], id="what is missing"),
        pytest.param([requesting(cpu="2", memory="1Gi")], SHARE, [requesting(cpu="2", memory="1Gi")], id="nothing"),
        pytest.param(
            [{"name": "engine", "resources": {"limits": {"memory": "9Gi"}, "claims": [{"name": "devices"}]}}],
            SHARE,
            [
                {
                    "name": "engine",
                    "resources": {
                        "limits": {"memory": "9Gi"},
                        "claims": [{"name": "devices"}],
                        "requests": {"cpu": "8"},
                    },
                }
            ],
            id="a limit is a request",
        ),
        pytest.param(
            [ENGINE, requesting("log", cpu="1500m", memory="1G")],
            SHARE,
            [requesting(cpu="6500m", memory="64582Mi"), requesting("log", cpu="1500m", memory="1G")],
            id="less what the others request",
        ),
        pytest.param(
            [ENGINE, {"name": "warm-up"}],
            SHARE,
            [requesting(cpu="7950m", memory="65408Mi"), requesting("warm-up", cpu="50m", memory="128Mi")],
            id="our own request a little",
        ),
        pytest.param(
            [ENGINE, requesting("greedy", cpu="9")],
            SHARE,
            [requesting(memory="65536Mi"), requesting("greedy", cpu="9")],
            id="a share that is used up is none",
        ),
    ],
)
def test_requests_of_a_pod(containers, share, expected):
    assert with_requests(containers, share) == expected


def test_a_sidecar_that_comes_later_has_its_part():
    assert with_requests([ENGINE], SHARE, ["routing-sidecar"]) == [requesting(cpu="7500m", memory="65280Mi")]


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([ENGINE, {"name": "log"}], [requesting(cpu="1m"), {"name": "log"}]),
        ([ENGINE, requesting("log", memory="1Gi")], [ENGINE, requesting("log", memory="1Gi")]),
        ([ENGINE, requesting("log", cpu="1")], [ENGINE, requesting("log", cpu="1")]),
        ([requesting(limits={"cpu": "2"})], [requesting(limits={"cpu": "2"})]),
    ],
)
def test_the_least_is_for_pods_that_request_nothing(containers, expected):
    assert with_least(containers, {"cpu": "1m"}) == expected
    assert with_least(containers, {}) == containers


def shared(found, **changes):
    """The scene with a share on each member, and with a warm-up."""
    engines = tuple(
        msgspec.structs.replace(
            engine, members=tuple(msgspec.structs.replace(member, node_share=SHARE) for member in engine.members)
        )
        for engine in found.replica.spec.engines
    )
    spec = msgspec.structs.replace(found.replica.spec, engines=engines, warm_up=WarmUp(prompts=1), **changes)
    found.replica = msgspec.structs.replace(found.replica, spec=spec)
    return found.compose()


def pods(result):
    for key, item in result.desired.items():
        if not key.startswith("workload-"):
            continue
        spec = item.target.manifest["spec"]
        group = spec.get("leaderWorkerTemplate", spec)
        for name in ("template", "leaderTemplate", "workerTemplate"):
            if name in group:
                yield group[name].get("spec", group[name])


@pytest.mark.parametrize("shape", ["kimi-k2-5p3d", "single-gpu", "whole-pod"])
def test_no_pod_requests_more_than_its_share(scene, shape, problems):
    result = shared(scene(shape, "pool"))
    found = list(pods(result))
    assert found
    for pod in found:
        requests = [container.get("resources", {}).get("requests", {}) for container in pod["containers"]]
        for name, most in (("cpu", "8"), ("memory", "64Gi")):
            asked = sum(quantity_from_json(each[name]).nanos for each in requests if name in each)
            assert 0 < asked <= quantity_from_json(most).nanos
    assert [problem for item in result.desired.values() for problem in problems(item.target.manifest)] == []


def test_a_queue_that_no_scheduler_reads_changes_no_request(scene):
    plain, queued = (shared(scene("single-gpu", **given)) for given in ({}, {"queue": "serving"}))
    assert list(pods(queued)) == list(pods(plain)) != list(pods(scene("single-gpu").compose()))


@pytest.mark.parametrize("scheduler", ["kai", "kueue", "volcano"])
def test_pods_in_a_queue_request_what_their_template_does(scene, scheduler):
    found = scene("kimi-k2-5p3d", "pool", scheduler)
    plain = [pod["containers"] for pod in pods(found.compose())]
    with_share = [pod["containers"] for pod in pods(shared(found))]
    assert [[each for each in pod if each["name"] != "warm-up"] for pod in with_share] == plain
    warming = [each for pod in with_share for each in pod if each["name"] == "warm-up"]
    assert [each for each in warming if "resources" in each] == [] != warming


def test_a_scheduler_without_a_queue_is_no_reason(scene):
    found = scene("single-gpu", "pool", "volcano", queue=None)
    assert all("requests" in pod["containers"][0]["resources"] for pod in pods(shared(found)))
