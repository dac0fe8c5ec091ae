"""One cluster of a cache: what is desired there, and its entry in the status.

    Pending     something is awaited: the cluster, a volume
    Hydrating   the Job runs
    Ready       the Job completed; its claim is marked, and the Job and the Secret are removed
    Failed      the Job failed; another attempt begins after a back-off, or when its inputs change. Or nothing can be
                fetched: a Secret is missing, a host is refused

A source that was edited has another key, and is staged on a volume beside the old one. The old volume stays while a
replica mounts one, and for `retention.unusedSeconds` after the last of them.

Everything that was observed stays while an input is missing. A claim that is complete says so itself. When pods find
its volume empty or changed, the Job runs again: it fetches what is missing.
"""

from dataclasses import dataclass, field, replace

import msgspec

from modelplane.api.conditions import ConditionStatus, ConditionType
from modelplane.api.labels import RETRY, STAGED_ON
from modelplane.api.models import CacheOnCluster, InferenceCluster
from modelplane.api.objects import Manifest, annotations_of, as_list, text_at, value_at
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import epoch_s, timestamp
from modelplane.compose.caching.attempts import FailedAttempt, failed_attempt, next_attempt_words
from modelplane.compose.caching.copies import copy_name, input_copies
from modelplane.compose.caching.entries import with_cause
from modelplane.compose.caching.job import JobRequest, StagingAttempt, inputs_hash, job
from modelplane.compose.caching.progress import (
    FAILED,
    LoaderStatus,
    completed_at,
    failure_cause,
    has_ended,
    is_complete,
    newest_status,
)
from modelplane.compose.caching.relay import observed_relay, relay_objects, relay_obstacle
from modelplane.compose.caching.sharing import needed_keys
from modelplane.compose.caching.site import Site, is_volume, job_prefix, volume_key
from modelplane.compose.caching.source import PEER
from modelplane.compose.caching.storage import (
    as_staged,
    claim,
    is_lost,
    staged_digest,
    storage_class,
    storage_fault,
    uid_of,
)
from modelplane.compose.caching.targets import NEXT_PASS_S
from modelplane.compose.causes import Cause
from modelplane.compose.contract import Desired, Observed, ReadyWhen, Remote, keep
from modelplane.compose.node_share import memory_bytes
from modelplane.compose.pod_causes import pods_cause
from modelplane.compose.tenancy import tenant_namespace

UNKNOWN = "unknown"
_GIB = 2**30
ENDED = frozenset({"Succeeded", "Failed"})
_REFUSALS = frozenset(
    {
        *(Reason.OUTBOUND_REFUSED, Reason.INVALID, Reason.NO_STORAGE, Reason.NOT_SUPPORTED),
        *(Reason.SECRET_MISSING, Reason.CONFIG_MAP_MISSING),
    }
)
"""What does not pass by itself: the staging failed before it began, and deployments say so."""


@dataclass(frozen=True, slots=True)
class ClusterStaging:
    entry: CacheOnCluster
    desired: dict[str, Desired] = field(default_factory=dict)
    requeue_after_s: float | None = None
    watches_pods: bool = False


def stage(site: Site) -> ClusterStaging:
    """The staging on one cluster that fetches for itself."""
    volume = site.volume
    digest = staged_digest(volume.manifest) if volume is not None else None
    if volume is not None and is_lost(volume.manifest):
        return _with(site, site.observed(), "Failed", Cause(Reason.VOLUME_LOST, "its PersistentVolume is lost"))
    said = newest_status(site.inputs.pods(site.name))
    since = _incomplete_since(site)
    finished = next((seen for seen in site.jobs.values() if volume and _filled(seen, volume, since)), None)
    if volume is not None and ((digest is not None and since is None) or finished is not None):
        return _staged(site, volume, digest, finished, said)
    obstacle = site.inputs.obstacle(site.fetched) or _cluster_obstacle(site) or relay_obstacle(site)
    if obstacle is not None or site.cluster is None:
        found = obstacle or Cause(Reason.WAITING_FOR_CLUSTER, "the cluster is not listed")
        return _blocked(site, found)
    return _fetching(site, site.cluster, said)


def _incomplete_since(site: Site) -> float | None:
    """Since when pods find the volume incomplete, where it was not staged again after that.

    Times have whole seconds. What was staged in the second of the complaint is looked at again: a Job that finds the
    volume complete ends at once.
    """
    since = site.inputs.incomplete_since(site.name, site.source.key)
    staged = epoch_s(site.known.last_hydrated_at)
    return None if since is None or (staged is not None and staged > since) else since


def _filled(seen: Observed, volume: Observed, emptied: float | None) -> bool:
    """Whether a Job completed, and filled this claim: one that was made for another, or completed before, did not."""
    done = epoch_s(completed_at(seen.manifest))
    if not is_complete(seen.manifest) or (done is not None and emptied is not None and done < emptied):
        return False
    filled, uid = annotations_of(seen.manifest).get(STAGED_ON), uid_of(volume.manifest)
    if filled and uid:
        return filled == uid
    made = epoch_s(text_at(volume.manifest, "metadata", "creationTimestamp") or None)
    return done is None or made is None or done >= made


def _cluster_obstacle(site: Site) -> Cause | None:
    cluster = site.cluster
    if cluster is None:
        return None
    fault = storage_fault(cluster, site.inputs.storage)
    if fault is not None:
        return Cause(Reason.NO_STORAGE, fault)
    ready = next((found for found in cluster.status.conditions if found.type == ConditionType.READY), None)
    if site.volume is None and (ready is None or ready.status is not ConditionStatus.TRUE):
        return Cause(Reason.WAITING_FOR_CLUSTER, "the cluster is not ready")
    return None


def _image(site: Site, cluster: InferenceCluster) -> str:
    return site.inputs.request.images.for_cluster(cluster).loader


def _blocked(site: Site, cause: Cause) -> ClusterStaging:
    """Nothing new begins, and what was observed stays."""
    phase = "Failed" if cause.reason in _REFUSALS else "Pending"
    later = NEXT_PASS_S if cause.reason is Reason.WAITING_FOR_RELAY else None
    return replace(_with(site, site.observed(), phase, cause), requeue_after_s=later)


def _with(site: Site, desired: dict[str, Desired], phase: str, cause: Cause) -> ClusterStaging:
    return ClusterStaging(with_cause(_bare(site), phase, cause), desired)


def _bare(site: Site) -> CacheOnCluster:
    """What is known of the cluster and does not depend on how far the staging is."""
    known = site.known
    return CacheOnCluster(
        name=site.name,
        attempts=known.attempts,
        failed_at=known.failed_at,
        staged_keys=_staged_keys(site),
        last_hydrated_at=known.last_hydrated_at,
    )


def _staged_keys(site: Site, *newest: str) -> tuple[str, ...]:
    """Keys of complete volumes, by their claims; those that the status has where a claim is not observed."""
    complete = dict.fromkeys(newest)
    for key, seen in site.inputs.request.observed.items():
        if is_volume(key, site.name) and staged_digest(seen.manifest) is not None:
            complete[key.rpartition("-")[2]] = None
    return tuple(complete)[:8]


def _staged(
    site: Site, volume: Observed, digest: str | None, finished: Observed | None, said: LoaderStatus | None
) -> ClusterStaging:
    resolved = (said.revision or said.key if said is not None else None) or digest or UNKNOWN
    if digest is not None:
        resolved = digest
    at = (completed_at(finished.manifest) if finished is not None else None) or site.known.last_hydrated_at
    key = site.source.key
    size = said.total if said is not None and said.total else site.known.total_bytes
    entry = CacheOnCluster(
        name=site.name,
        phase="Ready",
        reason=Reason.STAGED.value,
        staged_bytes=size,
        total_bytes=size,
        resolved_digest=None if resolved == UNKNOWN else resolved,
        last_hydrated_at=at or (timestamp(site.inputs.request.now) if site.inputs.request.now else None),
        staged_keys=_staged_keys(site, key),
    )
    if site.cluster is None:
        kept = msgspec.structs.replace(entry, older_unused_since=site.known.older_unused_since)
        return ClusterStaging(kept, site.observed())
    older, since, later = _superseded(site)
    target = _claim_target(site, site.cluster, volume)
    marked = replace(target, manifest=as_staged(target.manifest, resolved, uid_of(volume.manifest)))
    desired = {
        **_namespace(site, site.cluster),
        volume_key(site.name, key): Desired(marked, ready=True),
        **relay_objects(site, _image(site, site.cluster)),
        **older,
        **(_completed(site, finished) if digest is None else {}),
    }
    # A volume that goes with this pass is not there for the next replica.
    kept_keys = tuple(each for each in entry.staged_keys if volume_key(site.name, each) in desired)
    entry = msgspec.structs.replace(entry, older_unused_since=since, staged_keys=kept_keys)
    # Until the claim has the digest, the pod that knows it is watched: a host composes again when that changes.
    return ClusterStaging(entry, desired, later, watches_pods=digest is None)


def _completed(site: Site, finished: Observed | None) -> dict[str, Desired]:
    """The Job stays until its claim is observed to be marked: without either, the source would be staged again."""
    return {key: keep(seen) for key, seen in site.jobs.items() if seen is finished}


def _claim_target(site: Site, cluster: InferenceCluster, volume: Observed) -> Remote:
    """The claim as it should be. Class and access mode cannot be changed, so they stay as they are."""
    storage = site.inputs.storage
    named = storage_class(cluster, storage)
    modes = as_list(value_at(volume.manifest, "spec", "accessModes"))
    kept = replace(
        storage,
        storage_class=named and (text_at(volume.manifest, "spec", "storageClassName") or named),
        access_mode=str(next(iter(modes), storage.access_mode)),
        size_gib=max(storage.size_gib, _size_gib(volume.manifest)),
    )
    made = claim(site.inputs.cache, site.source, kept, cluster)
    if digest := staged_digest(volume.manifest):
        made = as_staged(made, digest, uid_of(volume.manifest))
    return Remote(site.name, made, ReadyWhen.CREATED, shared=site.retains)


def _size_gib(volume: Manifest) -> int:
    """What was asked for, by us or by who enlarged it: a claim never shrinks."""
    return -(-memory_bytes(value_at(volume, "spec", "resources", "requests", "storage")) // _GIB)


def _namespace(site: Site, cluster: InferenceCluster) -> dict[str, Desired]:
    key = f"namespace-{site.name}"
    seen = site.inputs.request.observed.get(key)
    target = tenant_namespace(cluster, site.inputs.cache.metadata.namespace)
    return {key: Desired(target, seen is not None and seen.ready)}


def _superseded(site: Site) -> tuple[dict[str, Desired], str | None, float | None]:
    """Volumes of older sources that stay; since when none of them is mounted; and when they go.

    They go when two passes saw nothing that needs one, so that a list that lacks replicas once removes nothing.
    """
    inputs, now = site.inputs, site.inputs.request.now
    kept, known = _older(site), site.known.older_unused_since
    if not kept or inputs.replicas is None or not now:
        return kept, known if kept else None, None
    needed = needed_keys(inputs, site.name)
    if any(key.rpartition("-")[2] in needed for key in kept):
        return kept, None, None
    since = epoch_s(known)
    left = inputs.cache.spec.retention.unused_seconds + (now if since is None else since) - now
    if since is not None and left <= 0:
        return {}, None, None
    return kept, known or timestamp(now), max(left, NEXT_PASS_S)


def _fetching(site: Site, cluster: InferenceCluster, said: LoaderStatus | None) -> ClusterStaging:
    base = {**_namespace(site, cluster), **_volume(site, cluster), **_older(site), **observed_relay(site)}
    running = {key: seen for key, seen in site.jobs.items() if not has_ended(seen.manifest)}
    if running:
        kept = {key: keep(seen) for key, seen in running.items()}
        desired = {**base, **input_copies(site, tuple(kept)), **kept}
        return ClusterStaging(_hydrating(site, said), desired, watches_pods=True)
    failed = failed_attempt(site, said)
    if failed is not None and failed.attempt.inputs == _inputs_hash(site) and not failed.is_due(site):
        return _waiting_to_retry(site, failed, base)
    # None that ended is made again: one that completed has filled a claim that is gone.
    begun = [StagingAttempt.parse(key.rpartition("-")[2]).number + 1 for key in site.jobs]
    number = max(begun if failed is not None else [site.known.attempts or 0, *begun])
    attempt = StagingAttempt(number, _inputs_hash(site))
    key = f"{job_prefix(site.name, site.source.key)}{attempt.suffix}"
    made = Desired(Remote(site.name, _job(site, cluster, attempt), ReadyWhen.COMPLETE))
    entry = msgspec.structs.replace(_hydrating(site, None), attempts=number or None)
    return ClusterStaging(entry, {**base, **input_copies(site, (key,)), key: made}, watches_pods=True)


def _waiting_to_retry(site: Site, failed: FailedAttempt, base: dict[str, Desired]) -> ClusterStaging:
    entry = msgspec.structs.replace(
        with_cause(_bare(site), "Failed", failed.cause, next_attempt_words(failed)),
        attempts=failed.attempt.number + 1,
        failed_at=timestamp(failed.since) if failed.since else None,
    )
    now = site.inputs.request.now
    desired = {**base, **input_copies(site, (failed.key,)), failed.key: keep(failed.seen)}
    return ClusterStaging(entry, desired, failed.due - now if now else None, watches_pods=True)


def _older(site: Site) -> dict[str, Desired]:
    """Volumes of older sources. All of them stay while the new one is not complete."""
    seen = site.inputs.request.observed.items()
    own = volume_key(site.name, site.source.key)
    return {key: keep(item) for key, item in seen if is_volume(key, site.name) and key != own}


def _volume(site: Site, cluster: InferenceCluster) -> dict[str, Desired]:
    key, seen = volume_key(site.name, site.source.key), site.volume
    if seen is not None:
        return {key: Desired(_claim_target(site, cluster, seen), seen.ready)}
    made = claim(site.inputs.cache, site.source, site.inputs.storage, cluster)
    return {key: Desired(Remote(site.name, made, ReadyWhen.CREATED, shared=site.retains))}


def _inputs_hash(site: Site) -> str:
    inputs, source = site.inputs, site.fetched
    read = (inputs.secret(source), inputs.config_map)
    versions = (text_at(item or {}, "metadata", "resourceVersion") for item in read)
    # Neither is part of the source's key.
    credential = source.secret.key if source.secret is not None else ""
    relayed = text_at(source.document, "url") if source.block == PEER else ""
    # Whoever deletes a claim that was filled has it filled anew, and by a Job of another name.
    again = [uid_of(site.volume.manifest)] if site.volume is not None and site.known.last_hydrated_at else []
    retry = inputs.cache.metadata.annotations.get(RETRY, "")
    return inputs_hash(*versions, retry, *inputs.allowed, credential, relayed, *again)


def _job(site: Site, cluster: InferenceCluster, attempt: StagingAttempt) -> Manifest:
    inputs, source = site.inputs, site.fetched
    return job(
        JobRequest(
            cache=inputs.cache,
            source=source,
            cluster=cluster,
            image=_image(site, cluster),
            attempt=attempt,
            allowed=inputs.allowed if source.hosts else (),
            secret=copy_name(site, "Secret") if source.secret is not None else None,
            config_map=copy_name(site, "ConfigMap") if source.config_map is not None else None,
            revision=_resolved(site),
            claim_uid=uid_of(site.volume.manifest) if site.volume is not None else "",
        )
    )


def _resolved(site: Site) -> str | None:
    """The commit that another cluster staged: all clusters get the same files, whatever became of the branch."""
    status = site.inputs.cache.status
    known = status.resolved_digest if status.key == site.source.key else None
    return known if known is not None and _is_commit(known) else None


def _is_commit(text: str) -> bool:
    return len(text) == 40 and all(letter in "0123456789abcdef" for letter in text)  # noqa: PLR2004  a git SHA-1


def _hydrating(site: Site, said: LoaderStatus | None) -> CacheOnCluster:
    bare = _bare(site)
    if said is not None and said.phase == FAILED:
        cause = failure_cause(said)
        return with_cause(bare, "Hydrating", cause, "the Job tries again")
    if said is not None and said.phase:
        cause = failure_cause(said) if said.reason else Cause(Reason.HYDRATING, "")
        return msgspec.structs.replace(
            with_cause(bare, "Hydrating", cause, "it is tried again" if cause.message else ""),
            staged_bytes=said.bytes,
            total_bytes=said.total or None,
            bytes_per_second=said.rate,
            eta_seconds=said.eta,
        )
    waiting = _waiting(site)
    if waiting is not None:
        return with_cause(bare, "Pending", waiting)
    return msgspec.structs.replace(bare, phase="Hydrating", reason=Reason.HYDRATING.value)


def _waiting(site: Site) -> Cause | None:
    """Why the Job has no pod that fetches: the volume, or what its pod says."""
    volume = site.volume
    if volume is None:
        return Cause(Reason.WAITING_FOR_VOLUME, "its PersistentVolumeClaim is not observed yet")
    cause = pods_cause(pod for pod in site.inputs.pods(site.name) if text_at(pod, "status", "phase") not in ENDED)
    quiet = {Reason.LOADING_WEIGHTS, Reason.CONTAINER_CREATING, Reason.WORKLOAD_STARTING, Reason.UNHEALTHY}
    if cause is not None and cause.reason not in quiet:
        return cause
    if text_at(volume.manifest, "status", "phase") == "Pending":
        return Cause(Reason.WAITING_FOR_VOLUME, "its PersistentVolumeClaim is not bound yet")
    return None
