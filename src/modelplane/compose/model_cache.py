"""ModelCache: an artifact on the volumes of clusters.

    Accepted          the spec can be acted on
    ClustersMatched   clusters match it
    ArtifactReady     every one of them holds the artifact; else the worst reason
    Ready             the last two

Each cluster is staged by itself: see `caching.staging`. A claim that exists is adopted, and an image volume is
published: nothing is composed for either. What was observed on a cluster stays while the cluster or another input is
missing.
"""

from collections.abc import Mapping, Sequence

import msgspec

from modelplane.api.conditions import Condition, ConditionType, fails, holds, summarise, unknown
from modelplane.api.meta import ClusterName
from modelplane.api.models import CacheOnCluster, CacheSummary, InferenceCluster, ModelCache, ModelCacheStatus
from modelplane.api.objects import API_VERSION, text_at
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import timestamp
from modelplane.compose.caching.entries import with_cause
from modelplane.compose.caching.inputs import CacheInputs, requirements
from modelplane.compose.caching.sharing import entry_of, is_owner_unread, needed_keys, owner_of, shared_entry
from modelplane.compose.caching.site import Site, clusters_of
from modelplane.compose.caching.source import older_forms, source_of
from modelplane.compose.caching.staging import ClusterStaging, stage
from modelplane.compose.caching.storage import source_fault, storage_of
from modelplane.compose.caching.targets import NEXT_PASS_S, Targets, targets
from modelplane.compose.causes import FAULTS, Cause, in_words, rank
from modelplane.compose.context import remote_namespace
from modelplane.compose.contract import ComposeRequest, ComposeResult, Event, EventType, Use, keep_observed
from modelplane.compose.kubernetes_versions import image_volume_fault
from modelplane.compose.transitions import transitions

MAX_CLUSTERS = 1000
_SHOWN = 3
_GIB = 2**30
_BY_WORD = {reason.value: reason for reason in Reason}


def compose(request: ComposeRequest[ModelCache]) -> ComposeResult:
    cache = request.resource
    fault = source_fault(cache)
    if fault is not None:
        problem = fails(ConditionType.ACCEPTED, Reason.INVALID, f"{fault}; what is staged stays")
        return ComposeResult(desired=keep_observed(request), conditions=(problem,), ready=summarise([problem]))
    inputs = CacheInputs(request, source_of(cache), storage_of(cache))
    found = targets(inputs, _present(request))
    stagings = {name: _staging(inputs, name) for name in sorted({*found.wanted, *found.kept})}
    wanted = {name: stagings[name].entry for name in found.wanted}
    conditions = (
        _accepted(cache),
        _matched(inputs, found),
        _artifact(inputs, wanted),
    )
    ready = summarise(conditions[1:])
    is_read = inputs.clusters is not None and inputs.replicas is not None
    # Until clusters and replicas are read, what was written before stays.
    status = _status(inputs, [each.entry for each in stagings.values()], wanted) if is_read else None
    waits = [each.requeue_after_s for each in stagings.values()] + [found.leaves_in_s]
    return ComposeResult(
        desired={key: item for each in stagings.values() for key, item in each.desired.items()},
        status=status,
        conditions=conditions,
        ready=ready,
        events=(*transitions(cache.status.conditions, conditions), *_cluster_events(cache, stagings)),
        requirements=requirements(
            inputs,
            [name for name, each in stagings.items() if each.watches_pods],
            list(stagings) if inputs.storage.type == "ExistingPVC" else [],
        ),
        requeue_after_s=min((wait for wait in waits if wait is not None), default=None),
        uses=_uses(inputs, stagings),
    )


def _accepted(cache: ModelCache) -> Condition:
    """An older form is read, and the newer one is shown."""
    message = "; ".join(f"{'.'.join(path)} is an older form of {newer}" for path, newer in older_forms(cache.spec))
    return holds(ConditionType.ACCEPTED, Reason.ACCEPTED, message)


def _present(request: ComposeRequest[ModelCache]) -> set[ClusterName]:
    """Where something of the cache is: by what was observed, and for claims that we did not make by the status."""
    return clusters_of(dict(request.observed))


def _staging(inputs: CacheInputs, name: ClusterName) -> ClusterStaging:
    known = entry_of(inputs.cache, name) or CacheOnCluster(name=name)
    cluster = (inputs.clusters or {}).get(name)
    site = Site(inputs, name, cluster, known)
    if inputs.storage.type == "ExistingPVC":
        found = _adopted(inputs, name)
    elif inputs.storage.type == "Image":
        found = ClusterStaging(_image_volume(known, cluster))
    else:
        found = _volume_staging(site)
    return _counted(inputs, found, known)


def _image_volume(known: CacheOnCluster, cluster: InferenceCluster | None) -> CacheOnCluster:
    """Nodes pull it, where they can: nothing is staged.

    An old node that joins a cluster where replicas mount it changes nothing for those.
    """
    fault = image_volume_fault(cluster.status.kubernetes_version) if cluster is not None else None
    if fault is None or (known.phase == "Ready" and known.references):
        return CacheOnCluster(name=known.name, phase="Ready", reason=Reason.PUBLISHED.value)
    return with_cause(CacheOnCluster(name=known.name), "Failed", Cause(Reason.NOT_SUPPORTED, fault))


def _volume_staging(site: Site) -> ClusterStaging:
    """On a volume of its own, or on that of another cache with the same source."""
    inputs, name = site.inputs, site.name
    if site.volume is not None or site.cluster is None:
        return stage(site)
    if is_owner_unread(inputs, site.known):
        return ClusterStaging(site.known, site.observed(), NEXT_PASS_S)
    if not inputs.are_others_read:
        waits = CacheOnCluster(name=name, phase="Pending", reason=Reason.UNRESOLVED.value)
        return ClusterStaging(waits, site.observed(), NEXT_PASS_S)
    owner = owner_of(inputs, site.cluster)
    return stage(site) if owner is None else ClusterStaging(shared_entry(inputs, owner, name))


def _counted(inputs: CacheInputs, found: ClusterStaging, known: CacheOnCluster) -> ClusterStaging:
    """With how many replicas mount it, and since when nothing needs it."""
    name, now = ClusterName(found.entry.name), inputs.request.now
    mounts = len(inputs.mounted_keys(name))
    unused = None if needed_keys(inputs, name) else known.unused_since or (timestamp(now) if now else None)
    if inputs.replicas is None:
        unused = known.unused_since
    entry = msgspec.structs.replace(found.entry, references=mounts or None, unused_since=unused)
    return ClusterStaging(entry, found.desired, found.requeue_after_s, found.watches_pods)


def _adopted(inputs: CacheInputs, name: ClusterName) -> ClusterStaging:
    """A claim that exists. A host that does not see the cluster takes it as it is."""
    existing = inputs.storage.existing
    wanted = existing.claim_name if existing else ""
    found = inputs.existing_claim(name)
    where = f"PersistentVolumeClaim {remote_namespace(inputs.cache.metadata.namespace)}/{wanted}"
    if found is None or (found and text_at(found[0], "status", "phase") == "Bound"):
        return ClusterStaging(CacheOnCluster(name=name, phase="Ready", reason=Reason.ADOPTED.value))
    if not found:
        missing = Cause(Reason.VOLUME_MISSING, f"{where} does not exist on the cluster")
        return ClusterStaging(with_cause(CacheOnCluster(name=name), "Failed", missing))
    unbound = Cause(Reason.WAITING_FOR_VOLUME, f"{where} is not bound yet")
    return ClusterStaging(with_cause(CacheOnCluster(name=name), "Pending", unbound))


def _matched(inputs: CacheInputs, found: Targets) -> Condition:
    kind = ConditionType.CLUSTERS_MATCHED
    if inputs.clusters is None or inputs.replicas is None:
        return unknown(kind, Reason.UNRESOLVED, "clusters and replicas are not read yet")
    if found.wanted:
        return holds(kind, Reason.CLUSTERS_MATCHED, f"{len(found.wanted)} of {len(inputs.clusters)} clusters")
    if inputs.cache.spec.replication == "WherePlaced":
        return holds(kind, Reason.NOT_PLACED_YET, "no replica mounts it yet")
    message = f"none of {len(inputs.clusters)} clusters matches spec.clusterSelector; what is staged stays"
    return fails(kind, Reason.NO_CLUSTERS, message)


def _artifact(inputs: CacheInputs, wanted: Mapping[ClusterName, CacheOnCluster]) -> Condition:
    kind = ConditionType.ARTIFACT_READY
    entries = list(wanted.values())
    ready = [entry for entry in entries if entry.phase == "Ready"]
    shown = f"{len(ready)} of {len(entries)} clusters hold it"
    if not entries:
        if inputs.cache.spec.replication == "WherePlaced" and inputs.replicas is not None:
            return holds(kind, Reason.NOT_PLACED_YET, "no replica mounts it yet")
        return unknown(kind, Reason.UNRESOLVED, "no cluster is known to hold it")
    if len(ready) == len(entries):
        return holds(kind, _BY_WORD.get(ready[0].reason or "", Reason.STAGED), shown)
    rest = [entry for entry in entries if entry.phase != "Ready"]
    failed = [entry for entry in rest if entry.phase == "Failed"]
    worst = min(failed or rest, key=lambda entry: (rank(entry.reason or ""), entry.name))
    reason = _BY_WORD.get(worst.reason or "", Reason.HYDRATING)
    if failed and ready:
        reason = Reason.PARTLY_STAGED
    message = f"{shown}; {_words(failed or rest)}"
    return fails(kind, reason, in_words(message))


def _words(entries: Sequence[CacheOnCluster]) -> str:
    shown = "; ".join(_cluster_words(entry) for entry in entries[:_SHOWN])
    more = len(entries) - _SHOWN
    return f"{shown}; {more} more" if more > 0 else shown


def _cluster_words(entry: CacheOnCluster) -> str:
    said = f": {entry.message}" if entry.message else ""
    return f"{entry.name}: {entry.reason}{said}"


def _status(
    inputs: CacheInputs, entries: Sequence[CacheOnCluster], wanted: Mapping[ClusterName, CacheOnCluster]
) -> ModelCacheStatus:
    known = inputs.cache.status
    ready = [entry for entry in wanted.values() if entry.phase == "Ready"]
    source = inputs.source
    same = source is not None and known.key == source.key
    digest = next((entry.resolved_digest for entry in ready if entry.resolved_digest), None)
    return ModelCacheStatus(
        summary=CacheSummary(ready=f"{len(ready)}/{len(wanted)}", progress=_progress(wanted)),
        source=source.shown if source is not None else "ExistingPVC",
        key=source.key if source is not None else None,
        resolved_digest=digest or (known.resolved_digest if same else None),
        last_hydrated_at=max((entry.last_hydrated_at for entry in ready if entry.last_hydrated_at), default=None)
        or (known.last_hydrated_at if same else None),
        staged_bytes=max((entry.staged_bytes or 0 for entry in ready), default=0) or None,
        references=known.references if inputs.replicas is None else inputs.mounting,
        clusters=tuple(entries[:MAX_CLUSTERS]),
    )


def _progress(wanted: Mapping[ClusterName, CacheOnCluster]) -> str | None:
    """Of the cluster that has the least of it."""
    under_way = [
        (entry.staged_bytes or 0, entry.total_bytes)
        for entry in wanted.values()
        if entry.phase == "Hydrating" and entry.total_bytes
    ]
    if not under_way:
        return None
    staged, total = min(under_way, key=lambda known: known[0] / known[1])
    return f"{staged / _GIB:.1f} of {total / _GIB:.1f} GiB"


def _cluster_events(cache: ModelCache, stagings: Mapping[ClusterName, ClusterStaging]) -> tuple[Event, ...]:
    """One for each cluster that became Ready, or failed for a new reason."""
    events: list[Event] = []
    for name, each in stagings.items():
        before, now = entry_of(cache, name), each.entry
        changed = before is None or (before.phase, before.reason) != (now.phase, now.reason)
        reason = _BY_WORD.get(now.reason or "")
        if not changed or reason is None:
            continue
        if now.phase == "Ready":
            events.append(Event(EventType.NORMAL, reason, f"cluster {name} holds the artifact"))
        elif now.phase == "Failed" or reason in FAULTS:
            events.append(Event(EventType.WARNING, reason, f"cluster {name}: {now.message or 'staging failed'}"))
    return tuple(events)


def _uses(inputs: CacheInputs, stagings: Mapping[ClusterName, ClusterStaging]) -> tuple[Use, ...]:
    """Clusters that volumes are on, and caches whose volumes are shared."""
    namespace = inputs.cache.metadata.namespace
    held = [name for name, each in stagings.items() if each.desired]
    clusters = (Use(API_VERSION, "InferenceCluster", name, reason="a cache is staged on the cluster") for name in held)
    owners = sorted({each.entry.shared_with for each in stagings.values() if each.entry.shared_with})
    shared = (Use(API_VERSION, "ModelCache", name, namespace, "another cache uses its volume") for name in owners)
    return (*clusters, *shared)
