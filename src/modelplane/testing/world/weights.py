"""The weights of a world: claims and the Jobs that fill them on one workload cluster, and what must hold for them.

A claim has a uid of its own and is empty until a Job of its own completed; whoever deletes it takes its content along,
and the provider makes it anew with the annotations of the old one. A loader takes its time, or fails. A pod whose claim
is missing waits; one whose claim is empty would be an engine on an empty directory, which only somebody who deletes
claims or a whole cluster by hand may cause: the provider then applies the workload and the new claim at once.

always       weights   no engine starts on an empty directory, no replica is placed where its cache failed, and no claim
                       that a workload mounts is let go
eventually   weights   a cache is Ready on exactly the clusters whose claim is full
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from modelplane.api.objects import Manifest, items_at, metadata_of, namespace_of, text_at, uid_of, value_at
from modelplane.api.timestamps import timestamp
from modelplane.testing.world.clockwork import Clockwork
from modelplane.testing.world.store import ObjectId

CLAIM = "PersistentVolumeClaim"
_FAILS_S = 3.0
_KEPT = ("uid", "creationTimestamp")


@dataclass(slots=True)
class LoaderTrouble:
    seconds: float = 6.0
    fails: bool = False


@dataclass(slots=True)
class _LoaderRun:
    due: float
    status: dict[str, object] | None = None
    """Once it has ended."""


class ClusterVolumes:
    def __init__(self, clock: Clockwork) -> None:
        self._clock = clock
        self.trouble = LoaderTrouble()
        self.full: set[str] = set()
        """Uids of claims that a Job has filled."""
        self.lost: set[str] = set()
        self.meddled = False
        """Whether somebody deleted claims by hand."""
        self._runs: dict[str, _LoaderRun] = {}
        self._made = 0

    def metadata(self, wanted: Manifest, known: Manifest | None) -> dict[str, object]:
        """What the cluster itself writes on a claim or a Job."""
        kind = str(wanted.get("kind"))
        if kind not in {CLAIM, "Job"}:
            return {}
        if known is not None:
            return {name: value for name, value in metadata_of(known).items() if name in _KEPT}
        self._made += 1
        # A cluster that comes back under its old name has other uids.
        return {
            "uid": f"{kind.lower()}-{self._made}-{self._clock.elapsed:g}",
            "creationTimestamp": timestamp(self._clock.now),
        }

    def run_job(self, job: Manifest, claim: Manifest | None) -> float | None:
        """When it should be looked at again; None: it has ended, or waits for its claim."""
        if claim is None:
            return None
        now = self._clock.elapsed
        run = self._runs.get(uid_of(job))
        if run is None:
            lasts = _FAILS_S if self.trouble.fails else self.trouble.seconds
            run = self._runs[uid_of(job)] = _LoaderRun(now + lasts)
        if run.status is not None:
            return None
        if now + 1e-9 < run.due:
            return run.due - now
        run.status = self._ended(claim)
        return None

    def _ended(self, claim: Manifest) -> dict[str, object]:
        at = timestamp(self._clock.now)
        kind = "Failed" if self.trouble.fails else "Complete"
        conditions = [{"type": kind, "status": "True", "reason": kind, "lastTransitionTime": at}]
        if self.trouble.fails:
            return {"failed": 1, "conditions": conditions}
        self.full.add(uid_of(claim))
        return {"succeeded": 1, "completionTime": at, "conditions": conditions}

    def status(self, item: Manifest) -> dict[str, object]:
        """Of a claim or a Job."""
        if item.get("kind") == CLAIM:
            return {"phase": "Lost" if uid_of(item) in self.lost else "Bound"}
        run = self._runs.get(uid_of(item))
        return {"active": 1} if run is None or run.status is None else run.status

    def calm(self) -> None:
        self.trouble = LoaderTrouble()
        self.lost.clear()
        for run in self._runs.values():
            run.due = min(run.due, self._clock.elapsed + self.trouble.seconds)


def claims_of(item: Manifest) -> list[ObjectId]:
    """The claims that the pods of a workload or a Job mount."""
    volumes = items_at(item, "spec", "template", "spec", "volumes")
    names = (text_at(volume, "persistentVolumeClaim", "claimName") for volume in volumes)
    return [ObjectId(CLAIM, namespace_of(item), name) for name in names if name]


def claim_on(done: Iterable[Manifest], cluster: str) -> Iterator[Manifest]:
    """The claims among Objects that a provider applies on a cluster."""
    for item in done:
        manifest = value_at(item, "spec", "forProvider", "manifest")
        there = text_at(item, "spec", "providerConfigRef", "name") == cluster
        if there and isinstance(manifest, Mapping) and manifest.get("kind") == CLAIM:
            yield manifest


def cache_phase(cache: Manifest | None, cluster: str) -> str:
    """What a ModelCache says of a cluster; empty where it says nothing."""
    entries = items_at(cache, "status", "clusters") if cache is not None else ()
    return next((text_at(each, "phase") for each in entries if text_at(each, "name") == cluster), "")


def mounted_caches(item: Manifest) -> list[str]:
    """By a deployment or a replica."""
    return [text_at(mount, "name") for mount in items_at(item, "spec", "caches")]
