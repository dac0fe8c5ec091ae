"""A fleet as its objects say it: what goes well and what does not, with fixed times, for the dashboard's tests."""

from collections.abc import Iterator

from modelplane.api.codec import decode
from modelplane.api.models import ModelDeployment, ModelReplica
from modelplane.api.objects import API_VERSION, GROUP, Json, manifest
from modelplane.apiserver.store.database import Database
from modelplane.compose.placed_replica import placed_replica
from modelplane.compose.revisions import template_hash, template_of
from modelplane.reconcile.clock import SystemClock
from modelplane.reconcile.store import ObjectRef

NOW = 1_788_000_000.0
"""2026-08-29T10:40:00Z."""
SINCE = "2026-08-29T10:38:00Z"
GPU = {"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com", "claim": "DRA", "count": 8}
LOST = "ClusterUnreachable"


def ready(reason="Available", message="", status="True", since="2026-08-29T09:00:00Z"):
    return {"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def not_ready(reason, message, since=SINCE):
    return ready(reason, message, "False", since)


def inference_class(name="h200-8x", price="84.80"):
    spec = {"devices": [{**GPU, "attributes": {}, "capacity": {}}], "cost": {"pricePerNodeHour": price}}
    del spec["devices"][0]["claim"]
    return manifest(API_VERSION, "InferenceClass", name, spec=spec, status={"conditions": [ready()]})


def pool(name="h200", *, nodes=2, allocated=0, price="84.80", **more):
    free = nodes * 8 - allocated - more.get("heldByOthers", 0) - more.get("missing", 0)
    device = {**GPU, "allocated": allocated, "free": free, **more}
    return {
        "name": name,
        "className": "h200-8x",
        "nodes": nodes,
        "pricePerNodeHour": price,
        "currency": "USD",
        "devices": [device],
    }


def more(type_, reason, message, status="True"):
    return {**ready(reason, message, status, SINCE), "type": type_}


def cluster(name, *pools, condition=None, more=(), spec=None, labels=None, **status):
    node_pools = [{"name": each["name"], "className": each["className"], "nodeCount": each["nodes"]} for each in pools]
    source = {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}}, "nodePools": node_pools}
    free = sum(device["free"] for each in pools for device in each["devices"])
    found = {
        "conditions": [condition or ready(), *more],
        "gateway": {"address": "127.0.0.1"},
        "nodes": sum(each["nodes"] for each in pools),
        "freeDevices": free,
        "gpuPools": list(pools),
        "kubernetesVersion": "v1.34.1",
        **status,
    }
    return manifest(
        API_VERSION, "InferenceCluster", name, labels=labels or {}, spec={**source, **(spec or {})}, status=found
    )


def deployment(name, wanted, namespace="default", **status):
    container = {"name": "engine", "image": f"vllm/vllm-openai:{name}"}
    spec = {
        "replicas": wanted,
        "nodeSelector": {"devices": [{"name": "gpu", "count": 1}]},
        "workers": {"template": {"spec": {"containers": [container]}}},
    }
    return manifest(API_VERSION, "ModelDeployment", name, namespace=namespace, spec=spec, status=status)


def rolling(name, namespace):
    """A deployment at the first step of a canary."""
    made = deployment(name, 4, namespace)
    hash_ = template_hash(template_of(decode(ModelDeployment, made).spec))
    progressing = {"type": "Progressing", "status": "True", "reason": "RolloutProgressing",
                   "message": "revision 2: 1 of 4 replicas updated; step 1 of 2, 10 % of requests"}  # fmt: skip
    canary = {"step": 1, "steps": 2, "weight": 10, "nextAt": "2026-08-29T10:41:10Z", "analysis": "Measuring"}
    rollout = {"revision": 2, "hash": hash_, "updatedReplicas": 1, "readyReplicas": 1, "promoted": False,
               "complete": False, "canary": canary}  # fmt: skip
    revisions = [
        {"revision": 1, "hash": "r1", "template": "-", "createdAt": "2026-08-28T08:00:00Z",
         "images": ["vllm/vllm-openai:v0.26.0"]},
        {"revision": 2, "hash": hash_, "template": "-", "createdAt": "2026-08-29T10:35:00Z",
         "images": ["vllm/vllm-openai:v0.27.1"],
         "changeCause": "new engine"},
    ]  # fmt: skip
    status = {"replicas": 4, "readyReplicas": 4, "reason": "AllReady", "rollout": rollout, "revisions": revisions,
              "conditions": [ready("AllReady"), progressing], "placement": {"summary": "4 on east"}}  # fmt: skip
    return {**made, "status": status}


def replica(name, of, cluster_name, index, condition=None, namespace="default", **status):
    container = {"name": "engine", "image": "vllm/vllm-openai:v0.27.1"}
    member = {
        "role": "Standalone",
        "nodePoolName": "h200",
        "nodes": 1,
        "deviceRequests": [{"name": "gpu", "deviceClassName": "gpu.nvidia.com", "count": 1}],
        "template": {"spec": {"containers": [container]}},
    }
    spec = {
        "clusterName": cluster_name,
        "index": index,
        "deployment": {"name": of},
        "engines": [{"name": "main", "copies": 1, "members": [member]}],
    }
    found = {"conditions": [condition or ready("Serving")], "reason": "Serving", **status}
    return manifest(API_VERSION, "ModelReplica", name, namespace=namespace, spec=spec, status=found)


def endpoint(name, of, at, app, namespace="default", **status):
    labels = {"app": app, "modelplane.ai/deployment": app, "modelplane.ai/revision": "r1"}
    spec = {"url": "http://10.0.0.1:8000", "replica": {"name": of, "clusterName": at}}
    found = {"conditions": [ready()], **status}
    return manifest(API_VERSION, "ModelEndpoint", name, namespace=namespace, labels=labels, spec=spec, status=found)


def service(name, app, tiers, namespace="default", condition=None, address=""):
    counts = [entry for tier in tiers for entry in tier["endpoints"]]
    spec = {"endpoints": [{"selector": {"matchLabels": {"app": app}}}]}
    status = {
        "conditions": [condition or ready()],
        "model": f"{namespace}/{name}",
        "address": address or f"http://127.0.0.1:9/{namespace}/{name}",
        "routes": {"total": 1, "ready": 1},
        "endpoints": {"matched": len(counts), "ready": sum("reason" not in entry for entry in counts)},
        "tiers": tiers,
    }
    return manifest(API_VERSION, "ModelService", name, namespace=namespace, spec=spec, status=status)


def cache(name, *clusters, namespace="default", condition=None):
    staged = sum(each["phase"] == "Ready" for each in clusters)
    spec = {"source": "HuggingFace", "huggingFace": {"repo": "Qwen/Qwen3-8B"}, "storage": {"sizeGiB": 32}}
    status = {
        "conditions": [condition or not_ready("Hydrating", "1 of 2 clusters")],
        "source": "Qwen/Qwen3-8B",
        "summary": {"ready": f"{staged}/{len(clusters)}", "progress": "62 %"},
        "references": 2,
        "clusters": list(clusters),
    }
    return manifest(API_VERSION, "ModelCache", name, namespace=namespace, spec=spec, status=status)


def event(name, kind, about, reason, message, at, type_="Normal", count=1, namespace="default"):
    involved = {"kind": kind, "name": about, "apiVersion": API_VERSION}
    if not kind.startswith("Inference"):
        involved["namespace"] = namespace
    return manifest(
        "v1", "Event", name, namespace=namespace, involvedObject=involved, reason=reason, message=message,
        type=type_, count=count, lastTimestamp=at, firstTimestamp=at,
    )  # fmt: skip


def _clusters() -> Iterator[Json]:
    bound = [
        {"pool": "h200", "node": "east-h200-0", "devices": 1, "pods": 2, "device": "gpu"},
        {"pool": "h200", "node": "east-h200-0", "devices": 1, "pods": 1, "replica": "qwen3-8b-a"},
    ]
    yield cluster(
        "east", pool(allocated=3, heldByOthers=2), pool("spare", nodes=4), labels={"region": "us-east"}, replicas=1,
        boundPods=bound, faultyReplicas=[{"replica": "qwen3-8b-a", "message": "east-h200-0/gpu-3: XID 79"}],
        more=[more("TelemetryReady", "CollectorRunning", "it sends to 1 sink")],
    )  # fmt: skip
    yield cluster(
        "west", pool(allocated=1), labels={"region": "us-west"}, replicas=1, lostDevices=15,
        condition=not_ready(LOST, "no answer since 10:38"),
        more=[more("AgentConnected", "AgentDisconnected", "the last heartbeat was at 10:37:58", "False")],
    )  # fmt: skip
    drain = {"startTime": SINCE, "deadline": "2026-08-29T10:55:00Z", "replicas": 1, "total": 4,
             "summary": "3 of 4 replicas left"}  # fmt: skip
    yield cluster(
        "north", pool(allocated=8, missing=1), labels={"region": "eu-north"}, replicas=1, drain=drain,
        spec={
            "cordoned": True, "taints": [{"key": "maintenance", "value": "rack-7", "effect": "NoSchedule"}],
            "software": {"upgrade": {"wave": 2}},
        },
        software={"phase": "Waiting", "release": "b3c1", "message": "wave 1 has 1 cluster left: east"},
    )  # fmt: skip
    sinks = [{"name": "metrics", "type": "otlphttp", "endpoint": "https://otel.example.org:4318"}]
    yield manifest(API_VERSION, "TelemetryDestination", "central", spec={"sinks": sinks},
                   status={"conditions": [ready()], "sinks": 1})  # fmt: skip


def _models() -> Iterator[Json]:
    lost = {"reason": LOST, "replicas": 1, "cluster": "west", "since": SINCE, "message": "no answer since 10:38",
            "replacedAt": "2026-08-29T10:43:00Z"}  # fmt: skip
    candidates = [
        {"cluster": "east", "pool": "h200", "verdict": "Chosen", "score": "0.871", "reason": "holds 1 replica"},
        {"cluster": "east", "pool": "spare", "verdict": "Eligible", "score": "0.640", "reason": "4 nodes are free"},
        {"cluster": "north", "pool": "h200", "verdict": "Refused", "filter": "Cordon", "reason": "it is cordoned"},
        {"cluster": "west", "verdict": "Refused", "filter": "ClusterReady", "reason": "the cluster does not answer"},
    ]  # fmt: skip
    yield deployment(
        "qwen3-8b", 3, replicas=3, readyReplicas=2, reason=LOST, message="1 of 3 replicas is lost with cluster west",
        conditions=[not_ready(LOST, "1 of 3")], notReady=[lost],
        placement={"summary": "1 on east, 1 on north, 1 on west", "candidates": candidates, "omitted": 2},
    )  # fmt: skip
    yield rolling("mistral-24b", "team")
    yield deployment(
        "llama-70b", 1, "team", replicas=0, readyReplicas=0, reason="InsufficientCapacity",
        message="0 of 8 nodes have 16 free GPUs", conditions=[not_ready("InsufficientCapacity", "")],
    )  # fmt: skip
    yield replica("qwen3-8b-a", "qwen3-8b", "east", 0)
    yield replica("qwen3-8b-b", "qwen3-8b", "north", 1)
    yield replica("qwen3-8b-c", "qwen3-8b", "west", 2, not_ready(LOST, "no answer"), reason=LOST,
                  message="no answer from cluster west", since=SINCE)  # fmt: skip
    traffic = {"revision": "r1", "measuredAt": "2026-08-29T10:39:50Z", "windowSeconds": 60, "requests": 300,
               "errors": 6, "ttftP95Milliseconds": 180, "latencyP95Milliseconds": 2400}  # fmt: skip
    yield endpoint("qwen3-8b-a", "qwen3-8b-a", "east", "qwen3-8b", traffic=traffic)
    yield endpoint("qwen3-8b-b", "qwen3-8b-b", "north", "qwen3-8b")
    yield endpoint("qwen3-8b-c", "qwen3-8b-c", "west", "qwen3-8b")
    tiers = [
        {"priority": 0, "sharePercent": 100, "matched": 3, "ready": 2, "endpoints": [
            {"name": "qwen3-8b-a", "group": "0", "cluster": "east", "sharePermille": 600},
            {"name": "qwen3-8b-b", "group": "0", "cluster": "north", "sharePermille": 400},
            {"name": "qwen3-8b-c", "group": "0", "cluster": "west", "sharePermille": 0, "reason": "NotReady",
             "message": "its replica is not ready"},
        ]},
    ]  # fmt: skip
    yield service("chat", "qwen3-8b", tiers)
    gib = 2**30
    yield cache(
        "qwen3-8b",
        {"name": "east", "phase": "Ready", "stagedBytes": 16 * gib, "totalBytes": 16 * gib, "references": 1},
        {"name": "north", "phase": "Hydrating", "stagedBytes": 10 * gib, "totalBytes": 16 * gib, "references": 1,
         "bytesPerSecond": 200 * 2**20, "etaSeconds": 31},
    )  # fmt: skip


def _events() -> Iterator[Json]:
    yield event("e1", "InferenceCluster", "west", LOST, "no answer for 30 s", "2026-08-29T10:38:00Z", "Warning", 4)
    yield event("e2", "ModelDeployment", "qwen3-8b", "Placed", "1 replica on east", "2026-08-29T10:31:00Z")
    yield event("e3", "ModelDeployment", "llama-70b", "InsufficientCapacity", "0 of 8 nodes have 16 free GPUs",
                "2026-08-29T10:39:30Z", "Warning", namespace="team")  # fmt: skip


def fleet_objects() -> list[Json]:
    return [inference_class(), *_clusters(), *_models(), *_events()]


def by_kind(objects):
    """Objects by kind and place, as a snapshot takes them."""
    found = {}
    for item in objects:
        place = item["metadata"].get("namespace", ""), item["metadata"]["name"]
        found.setdefault(item["kind"], {})[place] = item
    return found


class FixedClock(SystemClock):
    """It is always the same time of day, and waiting takes as long as it does."""

    def now(self):
        return NOW


def fleet_store(objects=None):
    """A store with these objects. References by uid and by digest are filled in, as the composers do."""
    store = Database(None, clock=FixedClock()).store("plane")
    given = fleet_objects() if objects is None else objects
    for item in sorted(given, key=_order):
        store.create(_with_references(store, item))
    return store


def _order(item):
    """Deployments come before their replicas, and those before the clusters that name their pods."""
    return {"ModelReplica": 1, "InferenceCluster": 2}.get(item["kind"], 0)


def _with_references(store, item):
    if item["kind"] == "ModelReplica":
        owner = item["spec"]["deployment"]
        found = store.get(ObjectRef(GROUP, "ModelDeployment", item["metadata"]["namespace"], owner["name"]))
        named = {**owner, "uid": found["metadata"]["uid"]} if found else owner
        return {**item, "spec": {**item["spec"], "deployment": named}}
    if item["kind"] != "InferenceCluster":
        return item
    named = {field: item["status"][field] for field in ("boundPods", "faultyReplicas") if field in item["status"]}
    found = {
        field: [{**each, "replica": _digest(store, each["replica"])} if "replica" in each else each for each in entries]
        for field, entries in named.items()
    }
    return {**item, "status": {**item["status"], **found}}


def _digest(store, name):
    return placed_replica(decode(ModelReplica, store.get(ObjectRef(GROUP, "ModelReplica", "default", name)))).digest
