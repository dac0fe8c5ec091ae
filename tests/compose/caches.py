"""A cache in a small fleet: composed again and again, with what clusters would do in between."""

from dataclasses import dataclass, field, replace

import msgspec

from modelplane.api.codec import decode, encode
from modelplane.api.models import ModelCache
from modelplane.api.timestamps import timestamp
from modelplane.compose import model_cache
from modelplane.compose.contract import ComposeRequest, ComposeResult, Observed
from modelplane.compose.images import ReleaseImages
from modelplane.compose.readiness import is_ready

NOW = 1_800_000_000.0
SOURCE = {"source": "HuggingFace", "huggingFace": {"repo": "Qwen/Qwen3-8B", "revision": "main"}}
STORAGE = {"storage": {"type": "PVC", "sizeGiB": 20}}


def make_cache(name="qwen", status=None, annotations=None, **spec):
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelCache",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "creationTimestamp": "2027-01-15T07:00:00Z",
            "annotations": annotations or {},
        },
        "spec": {**SOURCE, **STORAGE, **spec},
        **({"status": status} if status else {}),
    }


def make_cluster(name, *, ready=True, labels=None, **spec):
    condition = {"type": "Ready", "status": "True" if ready else "False", "reason": "Available"}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}}, **spec},
        "status": {"conditions": [condition]},
    }


def make_replica(cluster, cache="qwen", key=None, index=0):
    mount = {"name": cache, **({"key": key} if key else {})}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {"name": f"r-{cluster}-{index}", "namespace": "team"},
        "spec": {"clusterName": cluster, "index": index, "engines": [], "caches": [mount]},
    }


def make_secret(version="1", **data):
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "hf", "namespace": "team", "resourceVersion": version},
        "data": data or {"HF_TOKEN": "c2VjcmV0"},
    }


def make_config_map(version="1", **data):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "files", "namespace": "team", "resourceVersion": version},
        "data": data or {"a.jinja": "x"},
    }


@dataclass
class Fleet:
    """`clusters` and others are what is fetched; None: not fetched yet."""

    cache: dict
    clusters: list | None = field(default_factory=lambda: [make_cluster("east"), make_cluster("west")])
    replicas: list | None = field(default_factory=list)
    caches: list | None = field(default_factory=list)
    gateways: list | None = field(default_factory=list)
    secrets: list | None = field(default_factory=list)
    relay_secrets: list | None = None
    config_maps: list | None = None
    pods: dict = field(default_factory=dict)
    claims: dict = field(default_factory=dict)
    observed: dict[str, Observed] = field(default_factory=dict)
    now: float = NOW
    image: str = "loader:1"

    def compose(self) -> ComposeResult:
        """Composes, and takes over the status."""
        given = {
            "clusters": self.clusters,
            "replicas": self.replicas,
            "caches": self.caches,
            "gateway": self.gateways,
            "secret": self.secrets,
            "relay-secret": self.relay_secrets,
            "configmap": self.config_maps,
        }
        required = {name: tuple(items) for name, items in given.items() if items is not None}
        required |= {f"pods-{name}": tuple(items) for name, items in self.pods.items()}
        required |= {f"claim-{name}": tuple(items) for name, items in self.claims.items()}
        resource = decode(ModelCache, self.cache)
        request = ComposeRequest(
            resource, dict(self.observed), required, now=self.now, images=ReleaseImages(loader=self.image)
        )
        result = model_cache.compose(request)
        conditions = [encode(condition) for condition in result.conditions]
        known = self.cache.get("status", {}) if result.status is None else encode(result.status)
        self.cache = {**self.cache, "status": {**known, "conditions": conditions}}
        return result

    def apply(self, result: ComposeResult | None = None) -> ComposeResult:
        """Composes, and makes what is desired exist; what is not goes."""
        result = result or self.compose()
        self.observed = {
            key: Observed(self._target(key, desired.target), self._is_ready(key, desired.target), desired.outlives)
            for key, desired in result.desired.items()
        }
        return result

    def _target(self, key, target):
        known = self.observed.get(key)
        status = known.manifest.get("status") if known is not None else _status(target.manifest)
        return replace(target, manifest={**target.manifest, **({"status": status} if status else {})})

    def _is_ready(self, key, target):
        return is_ready(self._target(key, target).manifest, target.ready_when)

    def settle(self) -> ComposeResult:
        """Jobs complete, and everything is composed until nothing changes."""
        self.apply()
        self.apply()
        self.end_jobs()
        self.apply()
        return self.apply()

    def end_jobs(self, kind="Complete", completed="2027-01-15T08:00:00Z", **condition):
        """Every Job that has not ended ends so."""
        ended = {"type": kind, "status": "True", "lastTransitionTime": completed, **condition}
        for key, seen in self.observed.items():
            if key.startswith("job-") and not (seen.manifest.get("status") or {}).get("conditions"):
                status = {"conditions": [ended], "completionTime": completed}
                self.observed[key] = replace(
                    seen, target=replace(seen.target, manifest={**seen.manifest, "status": status})
                )

    def fail_jobs(self):
        """Every Job that has not ended fails now."""
        self.end_jobs("Failed", completed=timestamp(self.now), reason="BackoffLimitExceeded", message="")
        self.apply()

    def retry_beside_the_first(self):
        """The first Job fails, the second begins a minute later, and the first is still there."""
        self.apply()
        self.fail_jobs()
        first = {key: seen for key, seen in self.observed.items() if key.startswith("job-")}
        self.now += 60
        self.apply()
        self.observed |= first

    def entries(self):
        return {entry["name"]: entry for entry in self.cache["status"].get("clusters", ())}

    def phases(self):
        return {name: (entry.get("phase"), entry.get("reason")) for name, entry in self.entries().items()}

    def keys(self, *kinds):
        return sorted(key for key in self.observed if key.partition("-")[0] in kinds)


def _status(manifest):
    return {"phase": "Bound"} if manifest["kind"] == "PersistentVolumeClaim" else None


def loader_pod(**said):
    message = msgspec.json.encode({"phase": "Fetching", "bytes": 0, "total": 0, "rate": 0, **said}).decode()
    ended = said.get("phase") in {"Complete", "Failed"}
    pod = {"kind": "Pod", "metadata": {"name": "p", "annotations": {"modelplane.ai/progress": message}}}
    if ended:
        state = {"terminated": {"exitCode": 0 if said["phase"] == "Complete" else 1, "message": message}}
        pod["status"] = {"phase": "Succeeded", "containerStatuses": [{"name": "loader", "state": state}]}
    else:
        pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return pod
