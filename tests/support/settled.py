"""Composites in states that they reach: composed until nothing changes, with everything that was composed serving."""

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from modelplane.api.codec import decode, encode
from modelplane.api.labels import STAGED
from modelplane.api.models import ModelDeployment
from modelplane.crossplane.caches import FunctionCaches
from modelplane.crossplane.calls import FunctionCall, FunctionResult, answer
from modelplane.testing.placing import placed
from tests.compose import clouds
from tests.support import damage

API = "modelplane.ai/v1alpha1"
SINCE = "2026-01-01T00:00:00Z"
NOW = 1767225600.0 + 86_400.0
DEPLOYMENTS = Path(__file__).resolve().parents[1] / "compose" / "deployments"
Item = dict[str, Any]
ROUNDS = 12


@dataclass(frozen=True, eq=False)
class State:
    """A composite, its composed objects and what it requires."""

    composite: Item
    composed: Mapping[str, Item]
    required: Mapping[str, tuple[Item, ...]]
    resources: Mapping[str, Item]
    """What was desired in the end."""
    places: tuple[damage.Path, ...] = field(repr=False)
    """What may be damaged."""

    @property
    def tree(self) -> Item:
        return {"composed": self.composed, "required": self.required}

    def call(self, tree: Item | None = None) -> FunctionCall:
        tree = tree or self.tree
        return FunctionCall(self.composite, tree["composed"], tree["required"])


def settle(
    composite: Item,
    required: Callable[[Mapping[str, Item]], Mapping[str, tuple[Item, ...]]],
    places: Callable[[str, Item], Iterable[damage.Path]],
    before: Mapping[str, Item] | None = None,
    *,
    helm: bool = False,
) -> State:
    """`required` is what there is beside the composed objects; `places` are those to damage below a required object."""
    composed = dict(before or {})
    for _ in range(ROUNDS):
        found = answer(FunctionCall(composite, composed, required(composed)), NOW, helm=helm)
        composite = {**composite, "status": {**found.status, "conditions": _held("Ready")}}
        last, composed = composed, serving(found, composed)
        if last == composed:
            break
    else:
        raise AssertionError(f"{composite['kind']} does not settle")
    given = required(composed)
    below = [("required", key, *path) for key in given for path in _below(key, given[key], places)]
    statuses = [("composed", key, *path) for key, item in composed.items() for path in _statuses(item)]
    desired = {key: dict(item.manifest) for key, item in found.resources.items()}
    return State(composite, composed, given, desired, (*below, *statuses))


def _below(key: str, items: tuple[Item, ...], places: Callable[[str, Item], Iterable[damage.Path]]) -> list[Any]:
    # A whole list is damaged as often as all that is in it.
    inside = [(index, *path) for index, item in enumerate(items) for path in _weighted(places(key, item))]
    return [()] * max(len(inside) // 4, 1) + inside


def _statuses(item: Item) -> list[damage.Path]:
    """Of an object on another cluster, what the provider observed of it; of its spec there only the whole."""
    if item["kind"] != "Object":
        return _weighted(damage.paths(item["status"], ("status",), 3))
    manifest = ("status", "atProvider", "manifest")
    inside = [*damage.paths(item["status"], ("status",), 2), *damage.paths(damage.at(item, manifest), manifest, 1)]
    below = (*manifest, "status")
    return _weighted([*inside, *damage.paths(damage.at(item, below), below, 3)])


def _weighted(found: Iterable[damage.Path]) -> list[damage.Path]:
    """What is near the top is damaged more often than one of the many places below."""
    return [path for path in found for _ in range(max(1, 8 >> len(path)))]


def _held(*kinds: str) -> list[Item]:
    return [{"type": kind, "status": "True", "reason": "X", "lastTransitionTime": SINCE} for kind in kinds]


def _status(replicas: object) -> Item:
    """A status by which an object of any kind is ready."""
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    return {
        "conditions": _held("Ready", "Available", "WorkloadReady", "RouteReady"),
        "parents": [{"conditions": _held("Accepted", "ResolvedRefs")}],
        "addresses": [{"value": "192.0.2.1"}],
        "address": "http://192.0.2.1",
        "observedGeneration": 1,
        **dict.fromkeys(counts, replicas),
    }


def serving(found: FunctionResult, before: Mapping[str, Item]) -> dict[str, Item]:
    """The composed objects of a result once everything serves. What existed keeps what was observed of it."""
    return {key: _observed(composed.manifest, before.get(key)) for key, composed in found.resources.items()}


def as_observed(manifest: Mapping[str, Any]) -> Item:
    """A new object once it serves."""
    return _observed(manifest, None)


def _observed(manifest: Mapping[str, Any], before: Item | None) -> Item:
    item = copy.deepcopy(dict(manifest))
    item["metadata"] |= {"creationTimestamp": SINCE, "generation": 1, "uid": "u"}
    if item["kind"] == "FileSystem":
        item["metadata"].setdefault("annotations", {})["crossplane.io/external-name"] = "fs-01"
    item["status"] = before.get("status") if before is not None else _status_of(item)
    return item


def _status_of(item: Item) -> Item:
    if str(item.get("apiVersion", "")).partition("/")[0].endswith(".m.upbound.io"):
        there = {"id": "i", "email": "a@example.org", "identity": {"principalId": "p"}}
        return {**_status(1), "atProvider": there}
    if item["kind"] != "Object":
        return {**_status(1), **_accepted(item)}
    there = item["spec"]["forProvider"]["manifest"]
    generated = {**there["metadata"], "generation": 1}
    status = {**_status(there.get("spec", {}).get("replicas")), **_accepted(there)}
    manifest = {**there, "metadata": generated, "status": status}
    return {"atProvider": {"manifest": manifest}, "conditions": _held("Ready", "Synced")}


def _accepted(item: Item) -> Item:
    """Of a route, by each of its gateways."""
    if item["kind"] != "HTTPRoute":
        return {}
    conditions = _held("Accepted", "ResolvedRefs")
    return {"parents": [{"parentRef": each, "conditions": conditions} for each in item["spec"]["parentRefs"]]}


def make_cluster(name: str, *, nodes: int = 2, **spec: object) -> Item:
    return {
        "apiVersion": API,
        "kind": "InferenceCluster",
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}},
            "nodePools": [{"name": "gpus", "className": "h200", "nodeCount": nodes}],
            **spec,
        },
        "status": {
            "conditions": _held("Ready"),
            "gateway": {"address": "192.0.2.1"},
            "gpuPools": [{"name": "gpus", "className": "h200", "nodes": nodes, "devices": [GPU]}],
        },
    }


GPU = {"name": "gpu", "driver": "d", "deviceClassName": "c", "count": 8}
CLASS = {"apiVersion": API, "kind": "InferenceClass", "metadata": {"name": "h200"}, "spec": {"devices": [GPU]}}


_UNREADABLE: tuple[damage.Path, ...] = ((), ("spec",), ("metadata",), ("kind",))
"""Places whose damage makes an object unreadable. Other edits of a spec or of labels are decisions of a user."""


def _anywhere(_key: str, item: Item) -> list[damage.Path]:
    return list(damage.paths(item, (), 5))


def _cluster_places(item: Item) -> list[damage.Path]:
    """All of its status but the fields of its devices, which say what a class says."""
    below = damage.paths(item.get("status"), ("status",), 4)
    return [*_UNREADABLE, *(path for path in below if path[-2:] != ("devices", 0))]


def _replica_places(item: Item) -> list[damage.Path]:
    return [path for path in damage.paths(item, (), 4) if path[:2] != ("metadata", "namespace")]


@cache
def deployment(clusters: str, replicas: int, devices: int) -> State:
    wanted = [{"name": "gpu", "count": devices, "selectors": [{"cel": 'device.driver == "d"'}]}]
    template = {"spec": {"containers": [{"name": "engine", "image": "i", "args": ["--model", "m"]}]}}
    composite = {
        "apiVersion": API,
        "kind": "ModelDeployment",
        "metadata": {"name": "chat", "namespace": "team", "uid": "u", "generation": 1},
        "spec": {"replicas": replicas, "nodeSelector": {"devices": wanted}, "workers": {"template": template}},
    }
    fleet = tuple(make_cluster(name) for name in clusters)

    def required(composed: Mapping[str, Item]) -> dict[str, tuple[Item, ...]]:
        # A cluster that came later is where a forgotten replica would go.
        later = (make_cluster("0"),) if composed else ()
        return {"clusters": (*later, *fleet), "replicas": replicas_of(composed), "caches": ()}

    def places(key: str, item: Item) -> list[damage.Path]:
        return _cluster_places(item) if key == "clusters" else _replica_places(item)

    found = settle(composite, required, places)
    assert len(replicas_of(found.composed)) == replicas
    return found


def replicas_of(composed: Mapping[str, Item]) -> tuple[Item, ...]:
    return tuple(item for item in composed.values() if item["kind"] == "ModelReplica")


BACKENDS = {
    "native": {"type": "Native"},
    "pool": {"type": "Native", "routing": "InferencePool"},
    "kserve": {"type": "KServe", "kserve": {"version": "0.20"}},
}


@cache
def replica(shape: str, backend: str, before: State | None = None) -> State:
    asked = decode(ModelDeployment, yaml.safe_load((DEPLOYMENTS / f"{shape}.yaml").read_text()))
    made = placed(asked, "east", pools={"prefill": "h200-prefill", "decode": "h200-decode"})
    item = encode(made)
    if before is not None:
        # Other devices are claimed by another template.
        item = json.loads(json.dumps(item).replace("40Gi", "80Gi"))
    composite = {"apiVersion": API, "kind": "ModelReplica", **item, "metadata": {**item["metadata"], "uid": "r"}}
    images = {"picker": "example/picker:1", "routingSidecar": "example/routing-sidecar:1"}
    loader = {"loader": "example/loader:1"}
    given = {**BACKENDS[backend], "images": loader if backend == "kserve" else {**images, **loader}}
    fixed = {"cluster": (make_cluster("east", backend=given),)}
    for mount in made.spec.caches:
        fixed[f"cache-{mount.name}"] = (_model_cache(mount.name, made.metadata.namespace),)

    def places(_key: str, item: Item) -> list[damage.Path]:
        return [*_UNREADABLE, *damage.paths(item["status"], ("status",), 4)]

    found = settle(composite, lambda _composed: fixed, places, before.composed if before is not None else None)
    assert any(key.startswith("workload") for key in found.composed)
    return found


@cache
def updated_replica(backend: str) -> State:
    """A replica whose pods are being replaced: the claims of old and new pods are there."""
    state = replica("single-gpu", backend)
    (workload,) = [key for key in state.composed if key.startswith("workload")]
    item = copy.deepcopy(state.composed[workload])
    item["status"]["atProvider"]["manifest"]["status"] |= {"observedGeneration": 0}
    before = State(state.composite, {**state.composed, workload: item}, state.required, state.resources, ())
    found = replica("single-gpu", backend, before)
    assert len([key for key in found.composed if key.startswith("claims-")]) == 2
    return found


def _model_cache(name: str, namespace: str) -> Item:
    return {
        "apiVersion": API,
        "kind": "ModelCache",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "artifact": {"kind": "Adapter" if name in {"sql", "rust"} else "Weights"},
            "source": "HuggingFace",
            "huggingFace": {"repo": f"example/{name}"},
        },
        "status": {"clusters": [{"name": "east", "phase": "Ready"}]},
    }


OLD_KEY = "0123456789abcdef"


@cache
def model_cache(stage: str) -> State:
    """A cache on two clusters: `fetching`, `staged`, `relayed`, or `beside` an older volume that a replica mounts."""
    composite = _model_cache("qwen", "team") | {"status": {}}
    composite["metadata"] |= {"uid": "c", "creationTimestamp": SINCE}
    composite["spec"] |= {"storage": {"sizeGiB": 1}}
    composite["spec"]["huggingFace"] |= {"authSecret": {"name": "hf"}}
    loader = {"type": "Native", "images": {"loader": "example/loader:1"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hf", "namespace": "team"}}
    fixed = {
        "clusters": tuple(make_cluster(name, backend=loader) for name in ("east", "west")),
        "replicas": tuple(_mounting_replica(name, stage) for name in ("east", "west")),
        "caches": (_model_cache("other", "team") | {"status": {}},),
        "secret": (secret | {"data": {"HF_TOKEN": "eA=="}},),
    }
    if stage == "relayed":
        composite["spec"]["relay"] = {"cluster": "east", "url": "https://c.example", "authSecretRef": {"name": "relay"}}
        named = {"name": "relay", "namespace": "team"}
        fixed |= {"relay-secret": (secret | {"metadata": named, "data": {"token": "eA=="}},), "gateway": ()}
    found = settle(composite, lambda _composed: fixed, _cache_places)
    if stage == "relayed":
        found = settle(found.composite, lambda _composed: fixed, _cache_places, _staged_volumes(found, stage))
        assert {"relay-east", "relayservice-east"} <= found.composed.keys()
    assert {key.partition("-")[0] for key in found.composed} >= {"namespace", "volume", "job", "secret"}
    if stage == "fetching":
        return found
    found = settle(found.composite, lambda _composed: fixed, _cache_places, _staged_volumes(found, stage))
    # Long ago, so that no time of retention hides what leaves.
    for entry in found.composite["status"]["clusters"]:
        entry["lastHydratedAt"] = SINCE
    return found


def _cache_places(key: str, item: Item) -> list[damage.Path]:
    return _cluster_places(item) if key == "clusters" else _anywhere(key, item)


def _mounting_replica(cluster: str, stage: str) -> Item:
    made = _tenants_replica("x", 0)
    mount = {"name": "qwen", **({"key": OLD_KEY} if stage == "beside" else {})}
    made["metadata"] = {"name": f"r-{cluster}", "namespace": "team"}
    made["spec"] |= {"clusterName": cluster, "caches": [mount]}
    return made


def _staged_volumes(found: State, stage: str) -> Mapping[str, Item]:
    """The volumes once they are complete, and those of an older source."""
    volumes = {key: copy.deepcopy(item) for key, item in found.composed.items() if key.startswith("volume-")}
    for item in volumes.values():
        for there in (item["spec"]["forProvider"]["manifest"], item["status"]["atProvider"]["manifest"]):
            there["metadata"].setdefault("annotations", {})[STAGED] = "abc"
    if stage == "beside":
        older = {f"{key.rpartition('-')[0]}-{OLD_KEY}": copy.deepcopy(item) for key, item in volumes.items()}
        volumes |= older
    return {key: item for key, item in found.composed.items() if key.startswith("namespace-")} | volumes


@cache
def cluster(scheduler: str, tenants: str, *, cordoned: bool = False) -> State:
    scheduling = {} if scheduler == "None" else {"queue": "serving"}
    composite = make_cluster("east", cordoned=cordoned, scheduling={"type": scheduler, **scheduling})
    held = [_tenants_replica(tenant, index) for index, tenant in enumerate(tenants)]
    fixed = {"class-h200": (CLASS,), "replicas": tuple(held), **_capacity()}
    return settle(composite, lambda _composed: fixed, _anywhere)


@cache
def collected_cluster() -> State:
    """A cluster with a collector for two destinations, one of which has a Secret."""
    credential = {"secretRef": {"name": "cred"}, "auth": {"bearerTokenKey": "token"}}
    sink = {"name": "prom", "type": "prometheus_remote_write", "endpoint": "https://metrics.example.org", **credential}
    other = {"name": "otlp", "type": "otlp_http", "endpoint": "https://otlp.example.org"}
    metric = {"from": "x", "to": "modelplane_x"}
    fixed = {
        "class-h200": (CLASS,),
        "replicas": (),
        "telemetry-destinations": (
            _telemetry("TelemetryDestination", "a", sinks=[sink]),
            _telemetry("TelemetryDestination", "b", sinks=[other]),
        ),
        "telemetry-mappings": (_telemetry("MetricMapping", "m", metrics=[metric]),),
        "telemetry-gateway": (
            {"apiVersion": API, "kind": "InferenceGateway", "metadata": {"name": "default"}, "spec": {}},
        ),
        "telemetry-secret-cred": ({"metadata": {"name": "cred"}, "data": {"token": "eA=="}},),
    }
    return settle(make_cluster("east"), lambda _composed: fixed, lambda _key, _item: list(_UNREADABLE))


def _telemetry(kind: str, name: str, **spec: object) -> Item:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


@cache
def made_cluster(source: str) -> State:
    """A cluster that is made on a cloud, or one whose software is installed."""
    made = clouds.make_cloud(source, "fixed", clouds.second(source)) if source != "Existing" else make_cluster("east")
    composite = {**make_cluster("east"), "spec": made["spec"], "status": {}}
    if source == "Existing":
        made["spec"]["cluster"]["existing"]["components"] = "Managed"
    name = "h100" if source != "Existing" else "h200"
    found = clouds.machine_class(source if source != "Existing" else "GKE", name)
    fixed = {f"class-{name}": (found,), "replicas": (), "provider-config": ({"spec": {"projectID": "p"}},)}
    return settle(composite, lambda _composed: fixed, lambda _key, _item: list(_UNREADABLE), helm=True)


def _tenants_replica(tenant: str, index: int) -> Item:
    members = [{"role": "Standalone", "nodePoolName": "gpus", "template": {"spec": {"containers": []}}}]
    return {
        "apiVersion": API,
        "kind": "ModelReplica",
        "metadata": {"name": f"r{index}", "namespace": f"team-{tenant}", "labels": {"modelplane.ai/cluster": "east"}},
        "spec": {"clusterName": "east", "index": index, "engines": [{"name": "m", "members": members}]},
        "status": _status(1),
    }


def _capacity() -> dict[str, tuple[Item, ...]]:
    node = {
        "metadata": {"name": "n", "labels": {"modelplane.ai/pool": "gpus"}},
        "status": {"conditions": _held("Ready")},
    }
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{index}"} for index in range(8)]
    published = {"spec": {"driver": "d", "nodeName": "n", "pool": pool, "devices": devices}}
    queue = {"metadata": {"name": "serving"}, "spec": {"capability": {"nvidia.com/gpu": "6"}}, "status": {}}
    return {
        "observed-nodes": (node,),
        "observed-slices": (published,),
        "observed-claims": (),
        "observed-queues": (queue,),
        "observed-local-queues": (),
    }


def _endpoint(name: str, spec: Item) -> Item:
    return {
        "apiVersion": API,
        "kind": "ModelEndpoint",
        "metadata": {"name": name, "namespace": "team", "uid": name, "labels": {"app": name[0]}, "generation": 1},
        "spec": spec,
        "status": {"conditions": _held("Ready")},
    }


AUTH = {"secretRef": {"name": "keys", "key": "api"}}
URLS: dict[str, Item] = {
    "replica": {"url": "http://192.0.2.1", "replica": {"name": "r", "clusterName": "east"}},
    "named": {"url": "https://models.example/v1"},
    "credential": {"url": "https://models.example/v1", "auth": AUTH},
}


@cache
def service(endpoints: str, urls: str) -> State:
    """One group for each first letter of the names of the endpoints."""
    groups = [{"selector": {"matchLabels": {"app": letter}}, "weight": 3} for letter in sorted(set(endpoints)) or ["a"]]
    composite = {
        "apiVersion": API,
        "kind": "ModelService",
        "metadata": {"name": "chat", "namespace": "team", "uid": "s", "generation": 1},
        "spec": {"endpoints": groups},
    }
    listed = tuple(_endpoint(f"{letter}{index}", URLS[urls]) for index, letter in enumerate(endpoints))
    gateway = {"metadata": {"name": "default"}, "spec": {}, "status": {"address": "192.0.2.1"}}

    def places(key: str, item: Item) -> list[damage.Path]:
        if key == "gateways":
            return _anywhere(key, item)
        return [*_UNREADABLE, *damage.paths(item["status"], ("status",), 4)]

    return settle(composite, lambda _composed: {"endpoints": listed, "gateways": (gateway,)}, places)


@cache
def endpoint(urls: str) -> State:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "data": {"api": "azN5"}}
    front = {"apiVersion": API, "kind": "InferenceGateway", "metadata": {"name": "default"}, "spec": {}}
    replica = {
        "apiVersion": API,
        "kind": "ModelReplica",
        "metadata": {"name": "r"},
        "status": {"address": URLS[urls]["url"]},
    }
    required = {"replica": (replica,)} if urls == "replica" else {"gateway": (front,)}
    required |= {"secret": (secret,)} if urls == "credential" else {}
    return settle(_endpoint("up", URLS[urls]), lambda _composed: required, _anywhere)


@cache
def gateway(*, secure: bool) -> State:
    spec = {"tls": {"secretRef": {"name": "front"}}} if secure else {}
    composite = {
        "apiVersion": API,
        "kind": "InferenceGateway",
        "metadata": {"name": "default", "uid": "g"},
        "spec": spec,
    }
    return settle(composite, lambda _composed: {}, _anywhere)


CALLERS = {"method": "APIKey", "apiKey": {"secretSelector": {"matchLabels": {"keys": "eu"}}}}


@cache
def keyed_gateway() -> State:
    """A gateway beside the control plane with two Secrets of callers' keys."""
    composite = {
        "apiVersion": API,
        "kind": "InferenceGateway",
        "metadata": {"name": "eu", "uid": "g", "generation": 1},
        "spec": {"auth": CALLERS},
    }
    fixed = {
        "secrets": (_secret("a", ada="MQ=="), _secret("b", bob="Mg==", carl="Mw==")),
        "services": (),
        "endpoints": (),
        "clusters": (),
    }
    # Another entry of a Secret that can be read is a decision.
    found = settle(composite, lambda _composed: fixed, lambda _key, _item: [(), ("metadata",), ("kind",)])
    assert found.composed["caller-keys"]["data"] == {"ada": "MQ==", "bob": "Mg==", "carl": "Mw=="}
    return found


@cache
def cluster_gateway() -> State:
    """A gateway on a cluster, with a certificate, callers' keys, mutual TLS and a router."""
    composite = {
        "apiVersion": API,
        "kind": "InferenceGateway",
        "metadata": {"name": "eu", "uid": "g", "generation": 1},
        "spec": {
            "clusterName": "east",
            "tls": {"certificateRefs": [{"name": "front"}]},
            "auth": CALLERS,
            "mutualTLS": {},
        },
    }
    fixed = {
        "cluster": (make_cluster("east"),),
        "clusters": (make_cluster("east"),),
        "secrets": (_secret("team-keys", ada="MQ=="),),
        "certificate-front": (_secret("front", **{"tls.crt": "Yw==", "tls.key": "aw=="}),),
        "services": (),
        "endpoints": (),
    }
    found = settle(composite, lambda _composed: fixed, _anywhere)
    found = settle(found.composite, lambda _composed: fixed, _anywhere, _applied(found))
    assert {"caller-keys", "cluster/gateway", "cluster/certificate-front"} <= found.composed.keys()
    assert [key for key in found.composed if key.startswith("cluster/keys-")]
    return found


def _applied(found: State) -> dict[str, Item]:
    """All objects as they were last desired, which may be long after they were created."""
    return {key: as_observed(item) for key, item in found.resources.items()}


def _secret(name: str, **data: str) -> Item:
    metadata = {"name": name, "namespace": "modelplane-system", "resourceVersion": "1"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


@cache
def service_at_cluster(endpoints: str, urls: str, *, beside: bool) -> State:
    """A service at a gateway on a cluster, and at one `beside` the control plane, too."""
    alone = service(endpoints, urls)
    composite = {**alone.composite, "status": {}}
    gateways = [_gateway("eu", clusterName="east"), *([_gateway("default", router={"replicas": 0})] if beside else [])]
    fixed = {
        "endpoints": alone.required["endpoints"],
        "gateways": tuple(gateways),
        "gateway-eu": (gateways[0],),
        "cluster-east": (make_cluster("east"),),
        **{f"credential-{letter}{at}": (_secret("c", credential="eA=="),) for at, letter in enumerate(endpoints)},
    }

    def places(key: str, item: Item) -> list[damage.Path]:
        if key.startswith(("cluster-", "credential-")):
            return _anywhere(key, item)
        # Another spec that can be read is a decision.
        return [*(path for path in _UNREADABLE if path != ("spec",)), *damage.paths(item["status"], ("status",), 4)]

    found = settle(composite, lambda _composed: fixed, places)
    found = settle(found.composite, lambda _composed: fixed, places, _applied(found))
    assert {"eu/route", "eu/backend-a0", "eu/endpoints-a0"} <= found.composed.keys()
    return found


def _gateway(name: str, **spec: object) -> Item:
    metadata, status = {"name": name, "generation": 1}, {"address": "192.0.2.1"}
    return {"apiVersion": API, "kind": "InferenceGateway", "metadata": metadata, "spec": spec, "status": status}


CACHES = FunctionCaches()
