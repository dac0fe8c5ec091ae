"""Where pods are: the nodes of allocated ResourceClaims, for `status.boundPods`, and who holds a faulty device.

A pod of a replica has one claim for all of its devices, so the devices of a claim on a node are one pod. A pod that
takes a whole node is left out: it is in the way of one node wherever it is. So is a claim with devices on several
nodes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from modelplane.api.models import BoundPod, FaultyReplica, GpuPool, PoolDevice
from modelplane.compose.capacity.devices import Holder, ObservedPool, PublishedDevice

MAX_BOUND_PODS = 1024
MAX_FAULTY = 256
_MAX_MESSAGE = 256


class _Pod(NamedTuple):
    pool: str
    node: str
    replica: str
    device: str
    devices: int


def bound_pods(
    pools: Iterable[GpuPool], seen: Mapping[str, ObservedPool], digests: Mapping[str, str]
) -> tuple[BoundPod, ...]:
    """By pool and node; none where there are more than a status holds. `digests` has the replicas by name."""
    found: Counter[_Pod] = Counter()
    for pool in pools:
        observed = seen.get(pool.name, ObservedPool())
        found.update(_of_replicas(pool, observed, digests))
        for device in pool.devices:
            found.update(_of_others(pool, device, observed))
    if len(found) > MAX_BOUND_PODS:
        return ()
    return tuple(_entry(pod, number) for pod, number in sorted(found.items()))


def faulty_replicas(seen: Mapping[str, ObservedPool], digests: Mapping[str, str]) -> tuple[FaultyReplica, ...]:
    """Replicas that hold a faulty device."""
    found = {name: why for observed in seen.values() for name, why in observed.faulty.items()}
    named = sorted((digests[name], why[:_MAX_MESSAGE]) for name, why in found.items() if name in digests)
    return tuple(FaultyReplica(replica=replica, message=why) for replica, why in named[:MAX_FAULTY])


def _entry(pod: _Pod, number: int) -> BoundPod:
    return BoundPod(
        pool=pod.pool,
        node=pod.node,
        devices=pod.devices,
        replica=pod.replica or None,
        device=pod.device or None,
        pods=number,
    )


def _of_replicas(pool: GpuPool, observed: ObservedPool, digests: Mapping[str, str]) -> Iterator[_Pod]:
    whole = sum(device.count for device in pool.devices if device.claim != "Synthetic")
    for devices in _by_claim(observed.devices):
        replica = digests.get(devices[0].replica, "")
        if replica and len(devices) < whole:
            yield _Pod(pool.name, devices[0].node, replica, "", len(devices))


def _of_others(pool: GpuPool, kind: PoolDevice, observed: ObservedPool) -> Iterator[_Pod]:
    """The devices of one kind of a claim, as `claimsOfOthers` counts them."""
    theirs = (
        device
        for device in observed.devices
        if device.holder is Holder.OTHER and device.is_of(kind.driver, kind.attributes)
    )
    for devices in _by_claim(theirs):
        yield _Pod(pool.name, devices[0].node, "", kind.name, len(devices))


def _by_claim(devices: Iterable[PublishedDevice]) -> Iterator[list[PublishedDevice]]:
    """The devices of each claim that has all of them on one node."""
    claims: defaultdict[int | None, list[PublishedDevice]] = defaultdict(list)
    for device in devices:
        claims[device.claim].append(device)
    return (held for held in claims.values() if len({device.node for device in held}) == 1)
