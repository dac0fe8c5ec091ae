"""The devices that slices offer, indexed once, and what of them one node can see.

Pools. A pool is all slices of one driver and pool name. For a node, only slices that reach it count, and of those
only the highest generation. A pool whose slices are not all there is *incomplete* and offers nothing; one whose
slices contradict each other (a device twice, an unknown counter set) is *invalid* and offers nothing either. Slices
that hold only counter sets belong to every node's view, because devices anywhere in the pool draw on them.

Order. Pools by driver, then name, with pools that have binding conditions last; slices by name; devices as listed.
The search takes the first solution, so this order decides which devices a claim gets.

Cost. Devices are prepared when the inventory is built. The view of a node that sees only its own slices is built
then as well; other views are built on demand, touching only the node's slices and those that are for several nodes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from modelplane.k8s.dra.features import Features
from modelplane.k8s.dra.nodes import reaches
from modelplane.k8s.dra.offers import CounterKey, DeviceOffer, PoolKey, Slice, prepare_slices
from modelplane.k8s.dra.outcome import PoolNote
from modelplane.k8s.dra.resources import Metadata, Node, ResourceSlice


@dataclass(frozen=True, slots=True, eq=False)
class PoolOnNode:
    """A pool as one node sees it. `elsewhere` are its devices on other nodes, which share the counters."""

    key: PoolKey
    offers: tuple[DeviceOffer, ...] = ()
    elsewhere: tuple[DeviceOffer, ...] = ()
    counters: Mapping[CounterKey, int] = field(default_factory=dict)
    incomplete: str = ""
    invalid: str = ""

    @property
    def has_binding_conditions(self) -> bool:
        """Whether any device must be made ready first, which puts the pool last."""
        return any(offer.binding_conditions is not None for offer in self.offers)


@dataclass(frozen=True, slots=True, eq=False)
class CandidateDevice:
    """A device that a node could use, with the pool that its counters are in."""

    offer: DeviceOffer
    pool: PoolOnNode


@dataclass(frozen=True, slots=True, eq=False)
class NodeView:
    """The view of one node: pools in search order, and their devices flattened in that order."""

    pools: tuple[PoolOnNode, ...]
    candidates: tuple[CandidateDevice, ...]

    @property
    def invalid_pools(self) -> tuple[PoolNote, ...]:
        """Pools left out because their slices contradict each other."""
        return tuple(PoolNote(*pool.key, pool.invalid) for pool in self.pools if pool.invalid)

    @property
    def incomplete_pools(self) -> tuple[PoolNote, ...]:
        """Pools left out because slices are missing."""
        return tuple(PoolNote(*pool.key, pool.incomplete) for pool in self.pools if pool.incomplete)


class Inventory:
    """An index over slices: build it once, then view it from many nodes and for many claims."""

    def __init__(self, slices: Iterable[ResourceSlice], features: Features | None = None) -> None:
        """Prepare every device; InputError where a quantity in a slice is not one."""
        self.features = features or Features()
        self._by_pool: dict[PoolKey, list[Slice]] = defaultdict(list)
        self._on_node: dict[str, list[Slice]] = defaultdict(list)
        self._shared: list[Slice] = []
        for item in prepare_slices(slices, list_attributes=self.features.list_type_attributes):
            self._by_pool[item.pool].append(item)
            if item.scope.node_name and not item.counter_sets and not self.features.is_stable_allocator:
                self._on_node[item.scope.node_name].append(item)
            else:
                self._shared.append(item)
        self._views: dict[str, NodeView] = {}
        if not self._shared:
            self._views = {name: self._view(Node(metadata=Metadata(name=name))) for name in self._on_node}

    def view(self, node: Node) -> NodeView:
        """The view of the node; UnreadableSelector if a node selector cannot be evaluated."""
        return self._views.get(node.metadata.name) or self._view(node)

    def _view(self, node: Node) -> NodeView:
        relevant: dict[PoolKey, list[Slice]] = {}
        for item in (*self._on_node.get(node.metadata.name, ()), *self._shared):
            if self._is_relevant(item, node):
                _keep_newest(relevant, item)
        pools = [pool for key, slices in relevant.items() if (pool := self._pool(key, slices)) is not None]
        pools.sort(key=lambda pool: (pool.has_binding_conditions, pool.key))
        candidates = tuple(CandidateDevice(offer, pool) for pool in pools for offer in pool.offers)
        return NodeView(tuple(pools), candidates)

    def _is_relevant(self, item: Slice, node: Node) -> bool:
        if not self.features.partitionable_devices and (item.declares_device_scopes or item.counter_sets):
            return False
        if item.counter_sets:
            return True
        if item.scope.is_set:
            return reaches(item.scope, node)
        return item.has_device_scopes and any(
            offer.scope is not None and reaches(offer.scope, node) for offer in item.offers
        )

    def _pool(self, key: PoolKey, slices: list[Slice]) -> PoolOnNode | None:
        """The pool in its newest generation, or None where slices that do not reach the node replace it."""
        expected = slices[0].slices_in_pool
        if len(slices) == expected:
            return self._build(key, slices, slices)
        generation = slices[0].generation
        known = self._by_pool[key]
        if any(item.generation > generation for item in known):
            return None
        current = [item for item in known if item.generation == generation]
        if len(current) != expected:
            return PoolOnNode(key, incomplete=f"{len(current)} of {expected} slices are there")
        return self._build(key, slices, current)

    def _build(self, key: PoolKey, slices: list[Slice], current: list[Slice]) -> PoolOnNode:
        if not self.features.is_stable_allocator:
            slices = sorted(slices, key=lambda item: item.name)
        names = {item.name for item in slices}
        others = [item for item in current if item.name not in names]
        offers = tuple(offer for item in slices if not item.counter_sets for offer in item.offers)
        elsewhere = tuple(offer for item in others for offer in item.offers)
        counters = _counters(slices)
        fault = _duplicate_device(offers)
        if not fault and self.features.partitionable_devices:
            fault = _duplicate_counter_set(slices) or _unknown_counter((*offers, *elsewhere), slices, counters)
        return PoolOnNode(key, invalid=fault) if fault else PoolOnNode(key, offers, elsewhere, counters)


def _keep_newest(relevant: dict[PoolKey, list[Slice]], item: Slice) -> None:
    known = relevant.get(item.pool)
    if known is None or item.generation > known[0].generation:
        relevant[item.pool] = [item]
    elif item.generation == known[0].generation:
        known.append(item)


def _duplicate_device(offers: Iterable[DeviceOffer]) -> str:
    seen: set[str] = set()
    for offer in offers:
        if offer.id.device in seen:
            return f"duplicate device name {offer.id.device}"
        seen.add(offer.id.device)
    return ""


def _counters(slices: Sequence[Slice]) -> dict[CounterKey, int]:
    return {
        (set_name, name): quantity
        for item in slices
        for set_name, counters in item.counter_sets
        for name, quantity in counters.items()
    }


def _duplicate_counter_set(slices: Sequence[Slice]) -> str:
    seen: set[str] = set()
    for item in slices:
        for set_name, _ in item.counter_sets:
            if set_name in seen:
                return f"duplicate counter set name {set_name}"
            seen.add(set_name)
    return ""


def _unknown_counter(offers: Iterable[DeviceOffer], slices: Sequence[Slice], counters: Mapping[CounterKey, int]) -> str:
    sets = {set_name for item in slices for set_name, _ in item.counter_sets}
    for offer in offers:
        for set_name in offer.counter_sets:
            if set_name not in sets:
                return f"device {offer.id.device} draws on counter set {set_name}, which does not exist"
        for (set_name, name), _ in offer.counters:
            if (set_name, name) not in counters:
                return f"device {offer.id.device} draws on counter {name} of set {set_name}, which does not exist"
    return ""
