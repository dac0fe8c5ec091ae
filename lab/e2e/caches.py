"""A cache on genuine claims: its Jobs' pods are played by the loader itself, and a replica waits for it.

KWOK starts the pods of the loader and does not end them (`lab.stages`). The step runs the loader with the arguments of
the container and a folder for the volume, and writes how it ended into the pod, as a kubelet does.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lab.client import Manifest, items, name_of, namespace_of, text, until, value
from lab.e2e.steps import DEPLOYMENT, expect, models, remove
from lab.e2e.world import OURS
from lab.scenario import FailedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.client import Api
    from lab.e2e.world import World

CACHE, FILE = "lab-weights", "config.json"
_CLASS = "lab-folders"
_LABEL = f"modelplane.ai/cache={CACHE}"
_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_PATHS = {"--into": "volume", "--status-file": "last-words"}
_WITHIN_S = 300.0


def manifests() -> list[Manifest]:
    """The cache, and the example's deployment with it."""
    spec: dict[str, object] = {
        "source": "Inline",
        "inline": {"filename": FILE, "content": "{}"},
        "storage": {"sizeGiB": 1},
    }
    metadata = {"name": CACHE, "namespace": "default"}
    made: list[Manifest] = [{"apiVersion": OURS, "kind": "ModelCache", "metadata": metadata, "spec": spec}]
    for item in models():
        if item["kind"] == "ModelDeployment":
            given = value(item, "spec")
            spec = {**(given if isinstance(given, dict) else {}), "labels": {}, "caches": [{"name": CACHE}]}
            made.append({**item, "metadata": {**metadata, "name": f"{DEPLOYMENT}-cached"}, "spec": spec})
    return made


def storage(site: str) -> list[Manifest]:
    """A default class without a provisioner, and a volume of it: the cluster's own controller binds the claim."""
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": _CLASS,
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": f"/lab/{site}"},
    }
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": _CLASS, "annotations": {_DEFAULT: "true"}},
            "provisioner": "kubernetes.io/no-provisioner",
        },
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"lab-{site}"}, "spec": volume},
    ]


async def staged(world: World) -> str:
    """No pod of an engine before the loader has filled the claim of its cluster, and none is left afterwards."""
    for site, api in world.sites.items():
        await api.apply_all(storage(site))
    for item in manifests():
        await world.control.apply(item)
    waiting = await until("CacheStaging", lambda: _waits(world), within_s=_WITHIN_S)
    expect(not await world.all_pods(f"{DEPLOYMENT}-cached"), "pods were created before their cache")
    with tempfile.TemporaryDirectory(prefix="lab-caches-") as folder:
        filled = await asyncio.gather(*(_fill(api, Path(folder) / site) for site, api in world.sites.items()))
    ready = await world.ready("ModelCache", CACHE)
    started = await world.ready("ModelDeployment", f"{DEPLOYMENT}-cached")
    left = [name_of(job) for api in world.sites.values() for job in await api.list("batch/v1", "Job", labels=_LABEL)]
    expect(not left, f"Jobs that completed are left: {left}")
    cache, *deployments = manifests()
    await remove(world, deployments)
    await remove(world, [cache])
    await until("no claim", lambda: _are_gone(world), within_s=_WITHIN_S)
    for site, api in world.sites.items():
        for item in storage(site):
            await api.delete(item)
    return (
        f"CacheStaging after {waiting:.1f} s, {sum(filled)} bytes by the loader on {len(filled)} claims, cache Ready "
        f"after {ready:.1f} s, deployment after {started:.1f} s; claims left with the cache"
    )


async def _waits(world: World) -> bool:
    found = await world.control.get(OURS, "ModelDeployment", f"{DEPLOYMENT}-cached")
    return text(found, "status", "reason") == "CacheStaging"


async def _fill(api: Api, folder: Path) -> int:
    """Run the loader of the one pod that stages the cache here; how many bytes it staged."""
    pod = await _running(api)
    await asyncio.to_thread(folder.mkdir, parents=True)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "modelplane", "hydrate"), *arguments(pod, folder), stdout=asyncio.subprocess.DEVNULL
    )
    code = await process.wait()
    last = (folder / "last-words").read_text().strip()
    await api.patch(pod, {"status": ended(pod, code, last)}, subresource="status")
    if code or not (folder / "volume" / FILE).is_file():
        raise FailedError(f"the loader of {namespace_of(pod)}/{name_of(pod)} ended with {code}: {last}")
    return int(json.loads(last)["bytes"])


async def _running(api: Api) -> Manifest:
    found: list[Manifest] = []

    async def runs() -> bool:
        pods = await api.list("v1", "Pod", labels=_LABEL)
        found[:] = [pod for pod in pods if text(pod, "status", "phase") == "Running"]
        return bool(found)

    await until("a pod of the loader", runs, within_s=_WITHIN_S)
    return found[0]


def arguments(pod: Manifest, folder: Path) -> list[str]:
    """The arguments of the container, with folders of this machine for what it mounts."""
    given = value(items(pod, "spec", "containers")[0], "args")
    words = [str(word) for word in given] if isinstance(given, list) else []
    replaced = (_replaced(before, word, folder) for before, word in zip(["", *words], words, strict=False))
    return list(replaced)


def _replaced(before: str, word: str, folder: Path) -> str:
    return str(folder / _PATHS[before]) if before in _PATHS else word


def ended(pod: Manifest, code: int, last: str) -> Mapping[str, object]:
    """The status of a pod whose only container ended so."""
    container: Mapping[str, object] = items(pod, "status", "containerStatuses")[0]
    state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "message": last}}
    statuses: Sequence[object] = [{**container, "ready": False, "started": False, "state": state}]
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": statuses}


async def _are_gone(world: World) -> bool:
    found = [await api.list("v1", "PersistentVolumeClaim", labels=_LABEL) for api in world.sites.values()]
    return not any(found)
