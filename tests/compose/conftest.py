"""Scenes for rendering: a deployment of `deployments/` on a cluster with a backend and a scheduler."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from modelplane.api.codec import decode
from modelplane.api.models import ModelDeployment, ModelReplica, PodSpec, ReplicaMember
from modelplane.api.objects import Manifest
from modelplane.compose import model_replica
from modelplane.compose.contract import ComposeRequest, ComposeResult, Observed
from modelplane.compose.images import ReleaseImages
from modelplane.compose.pod_references import PodReference, references_of
from modelplane.testing.placing import placed
from tests.support.structural import Structures

HERE = Path(__file__).parent
CLUSTER = "east"
CANARY = "Y2FuYXJ5"
"""The value of every Secret: it must be in nothing that a composer returns."""
ADAPTERS = {"sql", "rust"}
SCHEDULERS = {
    "none": {"type": "None"},
    "kai": {"type": "KAI", "queue": "serving", "version": "0.17.0"},
    "kueue": {
        "type": "Kueue",
        "queue": "serving",
        "priorities": [{"name": "production", "value": 1000, "workloadPriorityClass": "serving-production"}],
    },
    "volcano": {"type": "Volcano", "queue": "serving", "version": "1.15.1"},
}
LOADER = "example/loader:1"
IMAGES_OF_HOST = ReleaseImages(loader=LOADER, version="1")
IMAGES = {"picker": "example/picker:1", "routingSidecar": "example/routing-sidecar:1"}
BACKENDS = {
    "native": {"type": "Native", "images": IMAGES},
    "kserve": {"type": "KServe", "kserve": {"version": "0.20"}},
    "kserve016": {"type": "KServe", "kserve": {"version": "v0.16.0"}},
    "pool": {"type": "Native", "routing": "InferencePool"},
    "racks": {"type": "Native", "images": IMAGES},
    "nvlink": {"type": "Native", "images": IMAGES},
    "grove": {"type": "Native", "images": IMAGES},
    "dynamo": {"type": "Dynamo"},
}
STACKS = {"grove": "Dynamo"}
_SCHEMAS = ("schemas.json", "clouds.json", "dynamo.json")
POOLS = {"prefill": "h200-prefill", "decode": "h200-decode"}
RACK = {"domain": {"topologyKey": "nvidia.com/gpu.clique", "nodeCount": 18}}
RACKS = [{"name": name, "className": "gb200", "fabric": RACK} for name in ("gpu", *POOLS.values())]
"""Every pool of the cluster where the backend is called `racks`."""
NVLINK = [{**pool, "fabric": {"domain": {**RACK["domain"], "computeDomains": True}}} for pool in RACKS]
NODE_POOLS = {"racks": RACKS, "nvlink": NVLINK}
PASSTHROUGH = {
    "defaultLabels": {"cost-centre": "{{ .Namespace }}", "modelplane.ai/engine": "not-yours"},
    "defaultAnnotations": {"example.com/where": "{{ .Cluster }}/{{ .Pool }} for {{.Name}} as '{{ .Priority }}'"},
}


@cache
def load_deployment(name: str) -> ModelDeployment:
    return decode(ModelDeployment, yaml.safe_load((HERE / "deployments" / f"{name}.yaml").read_text()))


def make_cluster(backend: str = "native", scheduler: str = "none", **scheduling: object) -> dict[str, object]:
    plain = {} if backend == "kserve016" else PASSTHROUGH
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": CLUSTER},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east"}}},
            "scheduling": {**SCHEDULERS[scheduler], **plain, **scheduling},
            "backend": BACKENDS[backend],
            **({"stack": STACKS[backend]} if backend in STACKS else {}),
            **({"nodePools": NODE_POOLS[backend]} if backend in NODE_POOLS else {}),
        },
        "status": {"gateway": {"address": "192.0.2.1"}},
    }


def make_cache(name: str, namespace: str, phase: str = "Ready") -> dict[str, object]:
    storage = {"type": "ExistingPVC", "existingPVC": {"claimName": "weights", "subPath": "kimi/k2"}}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelCache",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "artifact": {"kind": "Adapter" if name in ADAPTERS else "Weights"},
            "source": "HuggingFace",
            "huggingFace": {"repo": f"example/{name}"},
            **({"storage": storage} if name == "kimi-k2" else {}),
        },
        "status": {"clusters": [{"name": CLUSTER, "phase": phase}]},
    }


def make_original(reference: PodReference, namespace: str) -> dict[str, object]:
    """A Secret or ConfigMap that a pod names."""
    key = ".dockerconfigjson" if reference.pulls_images else reference.key or "everything"
    body = {"type": "kubernetes.io/dockerconfigjson" if reference.pulls_images else "Opaque"}
    return {
        "apiVersion": "v1",
        "kind": reference.kind,
        "metadata": {"name": reference.name, "namespace": namespace, "resourceVersion": "7"},
        "data": {key: CANARY},
        **(body if reference.kind == "Secret" else {}),
    }


def make_originals(replica: ModelReplica) -> dict[str, tuple[Manifest, ...]]:
    return {
        f"{reference.kind.lower()}-{reference.name}": (make_original(reference, replica.metadata.namespace),)
        for reference in references_of(replica)
    }


@dataclass
class Scene:
    """A replica with what it asks for, and what was observed of it."""

    replica: ModelReplica
    required: dict[str, tuple[Manifest, ...]]
    observed: dict[str, Observed] = field(default_factory=dict)

    def compose(self) -> ComposeResult:
        request = ComposeRequest(self.replica, observed=self.observed, required=self.required, images=IMAGES_OF_HOST)
        return model_replica.compose(request)


def make_scene(shape: str, backend: str = "native", scheduler: str = "none", **scheduling: object) -> Scene:
    replica = placed(load_deployment(shape), CLUSTER, pools=POOLS)
    namespace = replica.metadata.namespace
    caches = {f"cache-{mount.name}": (make_cache(mount.name, namespace),) for mount in replica.spec.caches}
    cluster = make_cluster(backend, scheduler, **scheduling)
    return Scene(replica, {"cluster": (cluster,), **caches, **make_originals(replica)})


def change_pods(made: Scene, change: Callable[[PodSpec], PodSpec]) -> Scene:
    """The scene with the spec of every pod of its replica changed."""

    def member(found: ReplicaMember) -> ReplicaMember:
        return replace(found, template=replace(found.template, spec=change(found.template.spec)))

    spec = made.replica.spec
    engines = tuple(replace(each, members=tuple(map(member, each.members))) for each in spec.engines)
    made.replica = replace(made.replica, spec=replace(spec, engines=engines))
    return made


@pytest.fixture(scope="session")
def scene() -> Callable[..., Scene]:
    return make_scene


@pytest.fixture(scope="session")
def problems() -> Callable[[Manifest], list[str]]:
    """What is wrong with an object, by the structure of the real definitions."""
    parts = [json.loads((HERE / "schemas" / name).read_text()) for name in _SCHEMAS]
    stored = {name: {key: each for part in parts for key, each in part[name].items()} for name in ("kinds", "shared")}
    structures = Structures(stored["kinds"], stored["shared"])

    def problems_of(item: Manifest) -> list[str]:
        return structures.problems(item)

    return problems_of
