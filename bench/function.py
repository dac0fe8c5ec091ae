"""What one call of the function costs at the size of a fleet, and whether it grows with the fleet.

A call is timed from the message that Crossplane sends to the one that it gets, in processor time, with every composite
of its kind called once after a first round, as in a steady state. The host knows the fleet, as a server with --live
does. The baseline is the same call in a fleet a tenth as large.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from modelplane.api.objects import Manifest, text_at
from modelplane.compose.contract import Requirement
from modelplane.compose.fleet_snapshot import fleet_of
from modelplane.crossplane.caches import FunctionCaches
from modelplane.crossplane.calls import answer
from modelplane.crossplane.messages import read, write
from modelplane.placement.snapshot import Fleet
from modelplane.reconcile.collector import calm_collector

_API = "modelplane.ai/v1alpha1"
_CLUSTERS, _REPLICAS_EACH = 200, 10
_LIMIT_MS = 5.0
_GROWTH_LIMIT = 1.5
_NOW = 1_800_000_000.0
_GPU = {"name": "gpu", "claim": "DRA", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com", "count": 8}
_CLASS = {"apiVersion": _API, "kind": "InferenceClass", "metadata": {"name": "h200"}, "spec": {"devices": [_GPU]}}
_TEMPLATE = {
    "spec": {"containers": [{"name": "engine", "image": "vllm/vllm-openai:v0.27.1", "args": ["Qwen/Qwen3-8B"]}]}
}


def rows() -> list[dict[str, object]]:
    """For each kind the slowest hundredth, and the size of its messages."""
    small, large = _World(_CLUSTERS // 10), _World(_CLUSTERS)
    calm_collector()
    found = []
    for kind in ("ModelDeployment", "ModelReplica", "InferenceCluster"):
        before, now = _measured(small, kind), _measured(large, kind)
        found += [
            _row(f"function_{kind}_p99", now[0], "ms", _LIMIT_MS, {"tenth_of_the_fleet": before[0]}),
            _row(
                f"function_{kind}_message_growth",
                round(now[1] / before[1], 2),
                "ratio",
                _GROWTH_LIMIT,
                {"bytes": now[1]},
            ),
        ]
    return found


def _row(name: str, value: float, unit: str, limit: float, baseline: dict[str, float]) -> dict[str, object]:
    return {"id": name, "value": value, "unit": unit, "limit": limit, "ok": value <= limit, "baseline": baseline}


def _measured(world: "_World", kind: str) -> tuple[float, int]:
    requests = [world.request(item) for item in world.composites(kind)]
    spent: list[float] = []
    largest = 0
    for request in requests:
        message = request.SerializeToString()
        started = time.process_time()
        received = fnv1.RunFunctionRequest.FromString(message)
        call = read(received, world.caches.structs)
        decided = answer(call, _NOW, world, caches=world.caches)
        response = write(received, call, decided, world.caches.structs)
        spent.append((time.process_time() - started) * 1_000)
        largest = max(largest, len(message), len(response))
    spent.sort()
    return round(spent[min(len(spent) - 1, len(spent) * 99 // 100)], 3), largest


class _World:
    """A fleet in its steady state: every replica is there and serves."""

    def __init__(self, clusters: int) -> None:
        self.caches = FunctionCaches()
        self._clusters = {name: _cluster(name) for name in (f"cluster-{number:04d}" for number in range(clusters))}
        empty = fleet_of(self._clusters.values(), ())
        self._deployments = [_deployment(number) for number in range(clusters)]
        self._fleet = empty
        self._replicas: dict[str, Manifest] = {}
        self._composed: dict[str, Mapping[str, Manifest]] = {}
        for deployment in self._deployments:
            self._settle(deployment)
        for item in [*self._replicas.values(), *self._clusters.values()]:
            self._remember(item)

    def _settle(self, deployment: Manifest) -> None:
        made = self._remember(deployment)
        self._replicas |= {text_at(item, "metadata", "name"): item for item in made.values()}
        self._fleet = fleet_of(self._clusters.values(), self._replicas.values())

    def _remember(self, composite: Manifest) -> Mapping[str, Manifest]:
        """Compose it until nothing new comes, and keep what Crossplane would show next time."""
        request = self.request(composite)
        structs = self.caches.structs
        call = read(request, structs)
        decided = answer(call, _NOW, self, caches=self.caches)
        response = fnv1.RunFunctionResponse.FromString(write(request, call, decided, structs))
        made = {key: {**structs.decode(item.resource), **_seen()} for key, item in response.desired.resources.items()}
        self._composed[text_at(composite, "kind") + text_at(composite, "metadata", "name")] = made
        return made

    def composites(self, kind: str) -> Sequence[Manifest]:
        by_kind = {
            "ModelDeployment": self._deployments,
            "ModelReplica": list(self._replicas.values()),
            "InferenceCluster": list(self._clusters.values()),
        }
        return by_kind[kind]

    def request(self, composite: Manifest) -> fnv1.RunFunctionRequest:
        request = fnv1.RunFunctionRequest()
        self.caches.structs.encode_into(request.observed.composite.resource, composite)
        key = text_at(composite, "kind") + text_at(composite, "metadata", "name")
        for name, item in self._composed.get(key, {}).items():
            self.caches.structs.encode_into(request.observed.resources[name].resource, item)
        return request

    def fleet(self) -> Fleet | None:
        return self._fleet

    def find(self, requirement: Requirement) -> tuple[Manifest, ...] | None:
        if requirement.cluster is not None:
            return None
        return tuple(self._found(requirement))

    def _found(self, requirement: Requirement) -> Iterator[Manifest]:
        if requirement.kind == "InferenceClass":
            yield _CLASS
        if requirement.kind == "InferenceCluster" and requirement.name in self._clusters:
            yield self._clusters[requirement.name]
        if requirement.kind == "ModelReplica":
            wanted = requirement.labels["modelplane.ai/cluster"]
            yield from (item for item in self._replicas.values() if text_at(item, "spec", "clusterName") == wanted)

    def decision_lock(self, kind: str) -> AbstractContextManager[object]:
        del kind
        return nullcontext()

    def assume(self, kind: str, manifests: Sequence[Manifest]) -> None:
        """Nothing is assumed here."""


def _seen() -> dict[str, object]:
    held = [
        {"type": name, "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for name in ("Ready", "WorkloadReady", "RouteReady")
    ]
    return {"status": {"conditions": held, "address": "http://192.0.2.1"}}


def _cluster(name: str) -> Manifest:
    pool = {"name": "pool", "className": "h200", "nodes": 8, "devices": [_GPU]}
    status = {"gateway": {"address": "192.0.2.1"}, "gpuPools": [pool]}
    status["conditions"] = [{"type": "Ready", "status": "True", "reason": "R"}]
    spec = {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "k"}}},
        "nodePools": [{"name": "pool", "className": "h200", "nodeCount": 8}],
    }
    return {"apiVersion": _API, "kind": "InferenceCluster", "metadata": {"name": name}, "spec": spec, "status": status}


def _deployment(number: int) -> Manifest:
    devices = [{"name": "gpu", "count": 2, "selectors": [{"cel": 'device.driver == "gpu.nvidia.com"'}]}]
    return {
        "apiVersion": _API,
        "kind": "ModelDeployment",
        "metadata": {"name": f"model-{number:04d}", "namespace": f"team-{number % 20}", "uid": f"uid-{number}"},
        "spec": {
            "replicas": _REPLICAS_EACH,
            "nodeSelector": {"devices": devices},
            "workers": {"template": _TEMPLATE},
        },
    }
