"""Observed ModelReplicas as input of placement.

A composed ModelReplica that exists is a replica of the deployment, whatever the list of replicas says: a list may be
empty, short, late, or have the object with other fields. What is observed wins. The composition key has the cluster and
the index that the composer gave it, so a replica counts at its place even when its spec cannot be read. It leaves the
desired state only when placement drops it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from modelplane.api.errors import InputError
from modelplane.api.meta import ClusterName, Key
from modelplane.api.models import ModelReplica
from modelplane.api.objects import Manifest, int_at, name_of, namespace_of, text_at
from modelplane.compose.contract import Observed
from modelplane.compose.fleet_snapshot import read_replica
from modelplane.compose.placed_replica import placed_replica
from modelplane.compose.readiness import SERVING, is_denied, serves
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import PlacedReplica, ReplicaKey

REPLICA_PREFIX = "replica-"
ENDPOINT_PREFIX = "endpoint-"


def composition_key(cluster: str, index: int) -> str:
    return f"{REPLICA_PREFIX}{cluster}-{index}"


def without_contradicted(
    replicas: Iterable[Manifest], deployment: Key, observed: Mapping[str, Observed]
) -> list[Manifest]:
    """The listed replicas, less those that are observed at another place or with another owner than listed."""
    names = {
        (namespace_of(item.manifest), name_of(item.manifest)): key
        for key, item in observed.items()
        if key.startswith(REPLICA_PREFIX)
    }
    return [item for item in replicas if not _is_contradicted(item, deployment, names)]


def _is_contradicted(item: Manifest, deployment: Key, names: Mapping[tuple[str, str], str]) -> bool:
    key = names.get((namespace_of(item), name_of(item)))
    if key is None:
        return False
    owner = text_at(item, "spec", "deployment", "name"), text_at(item, "spec", "deployment", "uid")
    place = composition_key(text_at(item, "spec", "clusterName"), int_at(item, "spec", "index"))
    return place != key or owner != (deployment.name, deployment.uid)


def with_observed(
    fleet: Fleet, deployment: Key, observed: Mapping[str, Observed], decode: Callable[[Manifest], ModelReplica]
) -> Fleet:
    """The fleet with the replicas of a deployment as they are observed.

    One that the fleet has and that is not observed was just decided or is gone already: it does not serve.
    """
    known = {composition_key(replica.cluster, replica.index): replica for replica in fleet.owned_by(deployment)}
    added = [
        msgspec.structs.replace(replica, serving=False)
        for key, replica in known.items()
        if replica.serving and key not in observed
    ]
    removed: list[ReplicaKey] = []
    for key, item in observed.items():
        place = place_of(key) if key.startswith(REPLICA_PREFIX) else None
        if place is None:
            continue
        listed = _read(item.manifest, decode)
        found = _served(_at_place(item.manifest, listed, deployment, place), known.get(key), key, observed)
        if found != known.get(key):
            added.append(found)
        if listed is not None and listed.id != found.id and _is_same(listed.deployment, deployment):
            misread = composition_key(listed.cluster, listed.index)
            removed += [listed.id] if listed.deployment != deployment or misread not in observed else []
    return fleet.with_replicas(_without(added, removed), removed) if added or removed else fleet


def _without(replicas: Iterable[PlacedReplica], removed: Collection[ReplicaKey]) -> list[PlacedReplica]:
    return [replica for replica in replicas if replica.id not in removed]


def decode_observed(item: Manifest, decode: Callable[[Manifest], ModelReplica]) -> ModelReplica:
    """An observed replica. One whose status is garbled is read as one that lost it."""
    try:
        return decode(item)
    except InputError:
        return decode({**item, "status": {}})


def _read(item: Manifest, decode: Callable[[Manifest], ModelReplica]) -> PlacedReplica | None:
    try:
        return placed_replica(decode_observed(item, decode))
    except InputError:
        return read_replica(item)


def _served(
    found: PlacedReplica, known: PlacedReplica | None, key: str, observed: Mapping[str, Observed]
) -> PlacedReplica:
    """An observed replica, and whether it serves: if it says so, the fleet does, or it did and does not deny it.

    What it holds is read from the fleet where it cannot be read from itself.
    """
    manifest = observed[key].manifest
    if found.fault and known is not None and not known.fault:
        serving = known.serving or serves(manifest)
        found = msgspec.structs.replace(known, leaving=found.leaving, serving=serving)
    had_endpoint = ENDPOINT_PREFIX + key.removeprefix(REPLICA_PREFIX) in observed
    if not found.serving and (
        (known is not None and known.serving) or (had_endpoint and not is_denied(manifest, SERVING))
    ):
        return msgspec.structs.replace(found, serving=True, idle_since=None)
    return found


def unplaced(observed: Mapping[str, Observed]) -> list[str]:
    """Keys of observed replicas that name no place. Placement does not see them."""
    return [key for key in observed if key.startswith(REPLICA_PREFIX) and place_of(key) is None]


def place_of(key: str) -> tuple[ClusterName, int] | None:
    cluster, _, index = key.removeprefix(REPLICA_PREFIX).rpartition("-")
    return (ClusterName(cluster), int(index)) if cluster and index.isdecimal() and index.isascii() else None


def _is_same(owner: Key, deployment: Key) -> bool:
    return (owner.namespace, owner.name) == (deployment.namespace, deployment.name)


def _at_place(
    item: Manifest, listed: PlacedReplica | None, deployment: Key, place: tuple[ClusterName, int]
) -> PlacedReplica:
    """The replica at the place of its key. What it holds is unknown where it says that it is elsewhere."""
    cluster, index = place
    if listed is not None and (listed.cluster, listed.index) == place:
        return msgspec.structs.replace(listed, deployment=deployment)
    return PlacedReplica(
        deployment=deployment,
        cluster=cluster,
        index=index,
        assignments=(),
        # Whether it serves is not known either; it must not go before others do.
        serving=True,
        created=text_at(item, "metadata", "creationTimestamp"),
        leaving=bool(text_at(item, "metadata", "deletionTimestamp")),
        fault="spec.clusterName and spec.index are not those that it was composed with",
    )
