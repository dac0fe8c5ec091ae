"""A release brings other images of ours: pods of engines that run keep theirs until something else changes."""

from dataclasses import replace

import msgspec
import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster, WarmUp
from modelplane.compose import model_replica
from modelplane.compose.contract import ComposeRequest, Observed
from modelplane.compose.images import OwnImages, ReleaseImages
from modelplane.compose.kept_images import kept_images
from tests.compose.conftest import make_cache, make_cluster

OLD, NEW = ReleaseImages("old.example"), ReleaseImages("new.example")


def compose(made, images, before=None, **changes):
    spec = msgspec.structs.replace(made.replica.spec, **{"warm_up": WarmUp(prompts=1), **changes})
    replica = msgspec.structs.replace(made.replica, spec=spec)
    seen = {key: Observed(item.target, ready=True) for key, item in before.desired.items()} if before else {}
    return model_replica.compose(ComposeRequest(replica, observed=seen, required=made.required, images=images))


def own_images(result):
    """Every image of ours, by the kind of what runs it."""
    found = {}
    for key, item in result.desired.items():
        kind = key.partition("-")[0]
        words = str(item.target.manifest).replace('"', "'").split("'")
        found.setdefault(kind, set()).update(word.partition("/")[0] for word in words if "/modelplane-" in word)
    return {kind: hosts for kind, hosts in found.items() if hosts}


@pytest.mark.parametrize(
    ("shape", "where", "changes"),
    [
        ("kimi-k2-5p3d", ("pool",), {}),
        ("pipeline-2", ("native",), {}),
        ("pipeline-2", ("kserve",), {}),
        ("pipeline-2", ("grove", "kai"), {}),
        ("tensor-8", ("dynamo",), {"warm_up": None}),
        ("prefill-decode", ("kserve",), {}),
        ("gpt-oss-20b", ("pool",), {}),
    ],
)
def test_a_release_changes_no_pod_of_an_engine(scene, shape, where, changes):
    made = scene(shape, *where)
    first = compose(made, OLD, **changes)
    after = compose(made, NEW, first, **changes)
    kept = {key: item.target for key, item in first.desired.items() if key.startswith("workload-")}
    assert {key: item.target for key, item in after.desired.items() if key.startswith("workload-")} == kept != {}
    assert own_images(after)["workload"] == {"old.example"}
    assert own_images(after).get("picker") in ({"new.example"}, None)
    assert own_images(compose(made, NEW, first, priority="other", **changes))["workload"] == {"new.example"}


def test_a_sidecar_that_the_cluster_names_is_the_platforms_decision(scene):
    made = scene("kimi-k2-5p3d", "pool")
    first = compose(made, OLD)
    (cluster,) = made.required["cluster"]
    backend = {**cluster["spec"]["backend"], "images": {"routingSidecar": "named.example/modelplane-sidecar:1"}}
    named = replace(
        made, required={**made.required, "cluster": ({**cluster, "spec": {**cluster["spec"], "backend": backend}},)}
    )
    assert own_images(compose(named, NEW, first))["workload"] == {"named.example", "new.example"}


def test_pods_that_were_not_checked_stay_so(scene):
    """A cache that becomes one of ours changes what the pods mount, and with that their images."""
    made = scene("gpt-oss-20b")
    existing = {"type": "ExistingPVC", "existingPVC": {"claimName": "weights"}}
    (name,) = (mount.name for mount in made.replica.spec.caches)
    bare = make_cache(name, made.replica.metadata.namespace)
    made.required[f"cache-{name}"] = ({**bare, "spec": {**bare["spec"], "storage": existing}},)
    first = compose(made, OLD)
    assert own_images(compose(made, NEW, first))["workload"] == {"old.example"}
    made.required[f"cache-{name}"] = (bare,)
    assert own_images(compose(made, NEW, first))["workload"] == {"new.example"}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(("spec", "template", "spec"), id="Deployment"),
        pytest.param(("spec", "leaderWorkerTemplate", "leaderTemplate", "spec"), id="LeaderWorkerSet, its leader"),
        pytest.param(("spec", "leaderWorkerTemplate", "workerTemplate", "spec"), id="LeaderWorkerSet, its workers"),
        pytest.param(("spec", "template"), id="LLMInferenceService"),
        pytest.param(("spec", "prefill", "template"), id="LLMInferenceService, its prefill"),
    ],
)
def test_images_are_found_in_every_pod_of_a_workload(path):
    workload = {"initContainers": [{"name": "cache-check", "image": "old.example/loader"}]}
    for name in reversed(path):
        workload = {name: workload}
    newest = OwnImages("new.example/p", "example/routing-sidecar:1", "new.example/w", "new.example/loader")
    kept = kept_images(decode(InferenceCluster, make_cluster()), newest, (workload,))
    assert kept == replace(newest, loader="old.example/loader")
