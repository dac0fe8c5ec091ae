"""What placement is told agrees with what rendering does, on every shape and every backend."""

import itertools

import msgspec
import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.compose.lowering import lower
from modelplane.compose.render_check import RenderCheck, describe_rendering
from tests.compose.conftest import ADAPTERS, BACKENDS, HERE, SCHEDULERS, load_deployment, make_cluster, make_scene

SHAPES = sorted(path.stem for path in (HERE / "deployments").glob("*.yaml"))


def described(item: dict, **spec: object) -> bytes:
    return describe_rendering(decode(InferenceCluster, {**item, "spec": {**item["spec"], **spec}}))


def refuse(shape: str, rendering: bytes) -> str | None:
    deployment = load_deployment(shape)
    lowered = lower(deployment.spec)
    kinds = tuple("Adapter" if name in ADAPTERS else "Weights" for name in (cache.name for cache in lowered.caches))
    return RenderCheck(deployment, lowered).refuse(rendering, kinds)


def test_a_cache_that_placement_does_not_ask_about_is_not_mounted():
    deployment = load_deployment("tensor-8")
    answer = RenderCheck(deployment, lower(deployment.spec)).refuse(described(make_cluster()), ())
    assert answer == "engine main: no model: mount a cache of weights or name the model in the engine's args"


@pytest.mark.parametrize("shape", SHAPES)
def test_placement_hears_what_the_replica_says(shape):
    for backend, scheduler, images in itertools.product(BACKENDS, SCHEDULERS, (True, False)):
        scene = make_scene(shape, backend, scheduler)
        cluster = scene.required["cluster"][0]
        if not images:
            cluster["spec"]["backend"] = {**BACKENDS[backend], "images": {}}
        accepted = scene.compose().conditions[0]
        told = refuse(shape, described(cluster))
        said = accepted.message.removeprefix("cluster east: ").removesuffix("; running pods stay")
        assert (told or "") == said, (backend, scheduler, images)


def test_clusters_that_run_the_same_share_one_description():
    one, other = make_cluster("native", "kueue", queue="a"), make_cluster("native", "kueue", queue="b")
    other["metadata"] = {"name": "frankfurt"}
    images = {"picker": "mirror/p", "routingSidecar": "mirror/s", "warmUp": "mirror/w"}
    other["spec"]["backend"] = {**BACKENDS["native"], "images": images}
    assert described(one) is described(other)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param({"stack": "Dynamo"}, "spec.stack: Dynamo needs spec.scheduling.type: KAI", id="stack"),
        pytest.param(
            {"backend": {"type": "KServe", "kserve": {"version": "0.99"}}}, "KServe '0.99' is not", id="version"
        ),
        pytest.param(
            {"scheduling": {"type": "Kueue", "queue": "no label"}}, "spec.scheduling.queue: 'no label'", id="queue"
        ),
    ],
)
def test_what_a_cluster_lacks_is_named(change, why):
    assert refuse("single-gpu", described(make_cluster(), **change)).startswith(why)


def test_a_label_that_the_clusters_name_makes_too_long_is_refused():
    labels = {"defaultLabels": {"cost-centre": "{{ .Namespace }}", "where": "in-{{ .Cluster }}"}}
    short, long = make_cluster(), make_cluster()
    long["metadata"] = {"name": "e" * 63}
    answers = [refuse("single-gpu", described(item, scheduling=labels)) for item in (short, long)]
    assert answers[0] is None
    assert answers[1].endswith("which is no label value")


def test_a_deployment_that_nobody_can_run_is_refused_everywhere():
    deployment = load_deployment("single-gpu")
    pod = msgspec.structs.replace(deployment.spec.workers.template.spec, containers=())
    template = msgspec.structs.replace(deployment.spec.workers.template, spec=pod)
    workers = msgspec.structs.replace(deployment.spec.workers, template=template)
    spec = msgspec.structs.replace(deployment.spec, workers=workers)
    changed = msgspec.structs.replace(deployment, spec=spec)
    check = RenderCheck(changed, lower(spec))
    assert check.refuse(described(make_cluster()), ()) == "no container is named engine"


def test_a_cluster_without_a_description_runs_anything():
    assert refuse("v03-prefill-decode", b"") is None


def test_two_caches_at_one_path_are_refused():
    deployment = load_deployment("qwen3-coder-lora")
    path = "/mnt/same"
    caches = tuple(msgspec.structs.replace(each, mount_path=path) for each in deployment.spec.caches)
    spec = msgspec.structs.replace(deployment.spec, caches=caches)
    check = RenderCheck(msgspec.structs.replace(deployment, spec=spec), lower(spec))
    names = [each.name for each in caches]
    assert len(names) > 1
    assert check.refuse(described(make_cluster()), ("Weights",) * len(names)) == (
        f"spec.caches: {names[0]} and {names[1]} are both mounted at {path}"
    )
