"""A simulated cluster and a real one, given the same rendered objects and the same nodes: do the same pods run?

Every set of objects that the renderer makes for clusters without a gang scheduler is tried on few and on many nodes, so
that both "runs" and "waits for room" are seen. Pods are compared by the replica, engine and role that they stand for;
which of several equal pods waits is chance on either side.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from lab.client import Api, ApiError, Manifest, items, name_of, text, value
from lab.hardware import hardware
from lab.manifests import read_folder
from lab.oracles.copies import with_data
from lab.oracles.finding import Difference, Finding
from lab.oracles.removal import remove
from lab.workload import publish
from modelplane.api.labels import CACHE_CHECK_CONTAINER, ENGINE, POOL, REPLICA, ROLE
from modelplane.api.models import Attribute, Capacity, ClassDevice
from modelplane.sim.cluster import ClusterSettings, NodePoolSpec
from modelplane.testing.cluster import ClusterLab, run_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

NODES = (1, 4)
_CASES = "*.native.none.yaml"
_CLASS = "lab"
_STORAGE: Manifest = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": _CLASS},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "Immediate",
}
_QUIET_S = 3.0
_SURPRISED_QUIET_S = 30.0
_SETTLED_WITHIN_S = 300.0
_PodCounts = Counter[tuple[str, str, str, str]]


async def compare(apis: Sequence[Api], folder: Path, say: Callable[[str], None]) -> Finding:
    """Needs workload clusters, among which the sets are shared; makes and removes nodes of its own."""
    sets = list(_sets(folder).items())
    shares = [sets[number :: len(apis)] for number in range(len(apis))]
    found = await asyncio.gather(*(_compare_on(api, share, say) for api, share in zip(apis, shares, strict=True)))
    differences = tuple(each for some in found for each in some)
    return Finding("pods of a simulated and a real cluster", len(sets) * len(NODES), differences)


async def _compare_on(
    api: Api, sets: Iterable[tuple[str, list[Manifest]]], say: Callable[[str], None]
) -> list[Difference]:
    differences: list[Difference] = []
    for name, made in sets:
        for nodes in NODES:
            objects, pools = _with_furniture(made), _pools(made, nodes)
            simulated = await asyncio.to_thread(_simulated, objects, pools)
            real = await _real(api, objects, pools, expected=simulated)
            if simulated != real:
                text = f"simulated only {_shown(simulated - real)}; real only {_shown(real - simulated)}"
                differences.append(Difference(f"{name} on {nodes} nodes a pool", text))
        say(f"pods: {name} compared, {len(differences)} differences so far")
    return differences


def _sets(folder: Path) -> dict[str, list[Manifest]]:
    return {path.name: _pullable(_unchecked(with_data(read_folder(path)))) for path in sorted(folder.glob(_CASES))}


def _unchecked(made: list[Manifest]) -> list[Manifest]:
    """Without the look at caches: no kubelet here runs it, and a simulated one finds volumes without weights."""
    return [
        msgspec.convert(_without(item, "initContainers", CACHE_CHECK_CONTAINER), dict[str, object]) for item in made
    ]


def _without(found: object, key: str, name: str) -> object:
    """Less what has the name in the lists under a key, anywhere in an object."""
    if isinstance(found, list):
        return [_without(each, key, name) for each in found]
    if not isinstance(found, dict):
        return found
    rest = {field: _without(inner, key, name) for field, inner in found.items()}
    listed = rest.pop(key, None)
    kept = [each for each in listed if each.get("name") != name] if isinstance(listed, list) else []
    return {**rest, key: kept} if kept else rest


def _pullable(made: list[Manifest]) -> list[Manifest]:
    """The objects with images that a simulated registry has: a real kubelet here pulls none."""
    found: list[Manifest] = msgspec.json.decode(
        msgspec.json.encode(made).replace(b'"image":"example.com/', b'"image":"example.com/modelplane/')
    )
    return found


def _shown(counts: _PodCounts) -> str:
    return ", ".join(f"{count} x {' '.join(key)}" for key, count in sorted(counts.items())) or "nothing"


def _pools(made: Iterable[Manifest], nodes: int) -> tuple[NodePoolSpec, ...]:
    """Hardware that satisfies every selector in the sets, in each pool that a pod is pinned to."""
    names = {pool for item in made for pool in _found(item, POOL)}
    gpu = ClassDevice(
        name="gpu",
        driver="gpu.nvidia.com",
        device_class_name="gpu.nvidia.com",
        count=8,
        attributes={"type": Attribute(string="gpu"), "architecture": Attribute(string="Hopper")},
        capacity={"memory": Capacity(value="143771Mi")},
    )
    nic = ClassDevice(name="nic", driver="rdma.example.com", device_class_name="rdma.example.com", count=8)
    return tuple(NodePoolSpec(name=name, nodes=nodes, devices=(gpu, nic)) for name in sorted(names))


def _with_furniture(made: list[Manifest]) -> list[Manifest]:
    """The objects, after what they rely on and a platform would have made: volumes and priorities."""
    namespace = next(name_of(item) for item in made if item["kind"] == "Namespace")
    claims = {str(name) for item in made for name in _found(item, "claimName")}
    priorities = {str(name) for item in made for name in _found(item, "priorityClassName")}
    first = [item for item in made if item["kind"] == "Namespace"]
    rest = [item for item in made if item["kind"] != "Namespace"]
    platform = [_STORAGE, *map(_priority, sorted(priorities))]
    return [*first, *platform, *(_volume_claim(namespace, claim) for claim in sorted(claims)), *rest]


def _found(manifest: object, key: str) -> Iterator[str]:
    """Every value under a key, anywhere in an object."""
    if isinstance(manifest, dict):
        for name, inner in manifest.items():
            if name == key and isinstance(inner, str):
                yield inner
            yield from _found(inner, key)
    elif isinstance(manifest, list):
        for inner in manifest:
            yield from _found(inner, key)


def _priority(name: str) -> Manifest:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 1000,
    }


def _volume_claim(namespace: str, name: str) -> Manifest:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": _CLASS}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def _volume(claim: Manifest) -> Manifest:
    """What a provisioner would have made for the claim."""
    namespace, name = text(claim, "metadata", "namespace"), name_of(claim)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{name}"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/none"},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name},
            "storageClassName": _CLASS,
        },
    }


def _simulated(objects: list[Manifest], pools: tuple[NodePoolSpec, ...]) -> _PodCounts:
    async def scenario(simulated: ClusterLab) -> _PodCounts:
        simulated.apply(*objects)
        await simulated.settle(3600.0)
        return _counts(dict(pod) for pod in simulated.pods())

    return run_cluster(scenario, pools=pools, settings=ClusterSettings(system_nodes=1))


async def _real(
    api: Api, objects: list[Manifest], pools: tuple[NodePoolSpec, ...], *, expected: _PodCounts
) -> _PodCounts:
    machines = hardware(pools, system_nodes=0)
    volumes = [_volume(item) for item in objects if item["kind"] == "PersistentVolumeClaim"]
    try:
        await publish(api, [*machines, *volumes])
        for item in objects:
            await api.apply(item)
        return await _settled(api, {name_of(item) for item in objects if item["kind"] == "Namespace"}, expected)
    finally:
        await remove(api, [item for item in objects if item["kind"] == "Namespace"])
        await remove(api, [*volumes, *(item for item in machines if item["kind"] != "DeviceClass")])


async def _settled(api: Api, namespaces: set[str], expected: _PodCounts) -> _PodCounts:
    """The pods once each of them runs or was found to have no place, and nothing has changed for a while.

    Something else than was expected has to stay longer to be believed: a busy machine may only be slow.
    """
    quiet, last = 0.0, None
    for _ in range(int(_SETTLED_WITHIN_S * 2)):
        pods = [pod for namespace in sorted(namespaces) for pod in await api.list("v1", "Pod", namespace=namespace)]
        seen = [(name_of(pod), _state(pod)) for pod in pods]
        decided = bool(pods) and all(state != "undecided" for _, state in seen)
        quiet = quiet + 0.5 if decided and seen == last else 0.0
        if quiet >= (_QUIET_S if _counts(pods) == expected else _SURPRISED_QUIET_S):
            return _counts(pods)
        last = seen
        await asyncio.sleep(0.5)
    raise ApiError(0, "Unsettled", f"pods are still changing: {last}")


def _state(pod: Manifest) -> str:
    if text(pod, "status", "phase") != "Pending":
        return text(pod, "status", "phase")
    told = [each for each in items(pod, "status", "conditions") if each.get("type") == "PodScheduled"]
    return "waiting" if told and told[0].get("status") == "False" else "undecided"


def _counts(pods: Iterable[Manifest]) -> _PodCounts:
    def key(pod: Manifest) -> tuple[str, str, str, str]:
        labels = value(pod, "metadata", "labels")
        replica, engine, role = (text(labels, name) for name in (REPLICA, ENGINE, ROLE))
        return replica, engine, role, text(pod, "status", "phase")

    return Counter(key(pod) for pod in pods)
