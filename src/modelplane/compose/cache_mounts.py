"""Which caches a replica mounts, each with the key of the source that is staged on its cluster.

The key is a part of the replica's spec, so weights of another source reach replicas as any other change does: one at a
time. While a new source is staged beside the old one, replicas mount the old one. A cache that is only preferred is
mounted where it is staged when the replica is made, and later with the next change of the deployment.
"""

from modelplane.api.labels import REVISION
from modelplane.api.models import CacheMount, ModelReplica
from modelplane.compose.lowering import Lowered, LoweredCache
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import PlacedReplica


def cache_mounts(
    namespace: str, lowered: Lowered, placed: PlacedReplica, fleet: Fleet, before: ModelReplica | None
) -> tuple[CacheMount, ...]:
    """`before` is the replica as it was observed."""
    known = {mount.name: mount for mount in before.spec.caches} if before is not None else {}
    unchanged = before is not None and before.metadata.labels.get(REVISION) == lowered.labels.get(REVISION)
    found = (_mount(namespace, cache, placed, fleet, known, unchanged=unchanged) for cache in lowered.caches)
    return tuple(mount for mount in found if mount is not None)


def _mount(
    namespace: str,
    wanted: LoweredCache,
    placed: PlacedReplica,
    fleet: Fleet,
    known: dict[str, CacheMount],
    *,
    unchanged: bool,
) -> CacheMount | None:
    seen = known.get(wanted.name)
    cache = fleet.caches.get((namespace, wanted.name))
    if cache is None or cache.fault:
        # A cache that is missing from a list does not change what runs.
        key = seen.key if seen is not None else None
        return CacheMount(name=wanted.name, mount_path=wanted.mount_path, key=key)
    if wanted.preferred and (seen is None if unchanged else placed.cluster not in cache.staged):
        return None
    staged = cache.keys.get(placed.cluster) or cache.key or None
    return CacheMount(name=wanted.name, mount_path=wanted.mount_path, key=staged)
