"""The warm-up container: which pods have it, with what arguments, and where it is refused."""

from collections.abc import Mapping

import msgspec
import pytest

from modelplane.api.models import WarmUp, WarmUpCall
from modelplane.compose.contract import Remote
from modelplane.epp.sidecar.warm_up import WarmUpPlan, WarmUpRequest, parse_plan

BODY = '{"input": "a=b"}'
GIVEN = WarmUp(prompts=2, requests=(WarmUpCall(path="/v1/embeddings", body=BODY),), timeout_seconds=60)


def warmed(found, image="example/warm-up:1", given=GIVEN):
    """The scene with a warm-up, on a cluster that has its image."""
    spec = msgspec.structs.replace(found.replica.spec, warm_up=given)
    found.replica = msgspec.structs.replace(found.replica, spec=spec)
    (cluster,) = found.required["cluster"]
    backend = cluster["spec"]["backend"]
    images = {**backend.get("images", {}), **({"warmUp": image} if image else {})}
    changed = {**cluster["spec"], "backend": {**backend, "images": images}}
    found.required["cluster"] = ({**cluster, "spec": changed},)
    return found.compose()


def pods(value):
    """Every list of containers, wherever a backend writes it."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from [item] if name == "containers" else pods(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from pods(item)


def lists(result):
    targets = [item.target for key, item in result.desired.items() if key.startswith("workload-")]
    return [found for target in targets if isinstance(target, Remote) for found in pods(target.manifest)]


@pytest.mark.parametrize("backend", ["native", "kserve"])
@pytest.mark.parametrize(
    ("shape", "expected"),
    [("single-gpu", [True]), ("pipeline-2", [True, False])],
)
def test_pods_that_serve_have_it(scene, shape, backend, expected):
    found = lists(warmed(scene(shape, backend)))
    names = [[container["name"] for container in containers] for containers in found]
    assert sorted("warm-up" in each for each in names) == sorted(expected)


def test_it_gates_readiness_and_its_arguments_are_the_plan(scene):
    ((*_, container),) = lists(warmed(scene("single-gpu")))
    assert (container["name"], container["image"]) == ("warm-up", "example/warm-up:1")
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
    check = {"httpGet": {"path": "/ready", "port": 9010}, "timeoutSeconds": 5}
    assert container["readinessProbe"] == {**check, "periodSeconds": 2, "failureThreshold": 3}
    assert container["args"][:2] == ["--engine-port=8000", "--port=9010"]
    assert parse_plan(container["args"]) == WarmUpPlan(2, (WarmUpRequest("/v1/embeddings", BODY),), 60.0)


def test_no_prompts_are_sent_beside_the_requests_unless_they_are_asked_for(scene):
    own = WarmUp(requests=GIVEN.requests)
    ((*_, container),) = lists(warmed(scene("single-gpu"), given=own))
    assert parse_plan(container["args"]) == WarmUpPlan(0, (WarmUpRequest("/v1/embeddings", BODY),), 300.0)


def test_the_pod_is_one_that_a_cluster_takes(scene, problems):
    result = warmed(scene("single-gpu"))
    found = [item.target.manifest for key, item in result.desired.items() if key.startswith("workload-")]
    assert [problem for item in found for problem in problems(item)] == []


def test_a_decode_engine_is_warmed_up_behind_its_sidecar(scene):
    ports = {
        word
        for containers in lists(warmed(scene("kimi-k2-5p3d")))
        for container in containers
        if container["name"] == "warm-up"
        for word in container["args"][:1]
    }
    assert ports == {"--engine-port=8000", "--engine-port=8001"}


def test_a_cluster_that_names_no_image_gets_the_releases(scene):
    ((*_, container),) = lists(warmed(scene("single-gpu"), image=""))
    assert container["image"] == "modelplane-warm-up:v1"


def test_no_pod_has_it_unless_it_is_wanted(scene):
    assert all(container["name"] != "warm-up" for found in lists(scene("single-gpu").compose()) for container in found)
