"""A cluster as one finds it: what it lacks, and how it would be declared.

The review takes what an API shows (version, nodes, ResourceSlices, the signs of software) and gives findings.
The proposal groups nodes by the devices that their drivers publish: each group is a pool, and its class says what was
published. Nodes that have the label `modelplane.ai/pool` are in that pool already.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from modelplane.api.codec import decode
from modelplane.api.labels import POOL
from modelplane.api.models import InferenceClass, InferenceCluster
from modelplane.api.objects import API_VERSION, Json, Manifest, items_at, labels_of, mapping_at, name_of, text_at
from modelplane.catalog.stack import is_in_range, load_stack
from modelplane.compose.stack import components_of, missing_components
from modelplane.k8s.quantity import QuantityError, parse_quantity
from modelplane.k8s.semver import VersionError

_NOT_OF_A_KIND = frozenset(
    {"uuid", "pciBusID", "pciAddr", "index", "minor", "cardIndex", "renderIndex", "addressingMode"}
)
"""Attributes that tell devices of one kind apart, or that differ with the driver."""
_DOMAINED = "/"
_Pairs = tuple[tuple[str, str], ...]
_Kind = tuple[str, int, _Pairs, _Pairs]
"""Driver, count, attributes and capacities of the devices of a node that are alike."""


@dataclass(frozen=True, slots=True)
class ClusterInventory:
    """What was read of a cluster. A kind that may not be read is None."""

    version: str = ""
    nodes: tuple[Manifest, ...] = ()
    slices: tuple[Manifest, ...] | None = None
    names: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    """Of the objects by which software is seen, by kind."""


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    found: str
    fault: str = ""
    """Empty: it is as it should be."""
    is_label: bool = False
    """Whether labels of nodes are all that it lacks."""


@dataclass(frozen=True, slots=True)
class ProposedPool:
    name: str
    class_name: str
    nodes: tuple[str, ...]
    unlabelled: tuple[str, ...]
    devices: tuple[Json, ...]
    resources: Mapping[str, str] = field(default_factory=dict)
    """The least CPU and memory that a node of it has for pods."""

    def inference_class(self) -> Json:
        spec: Json = {"description": f"As published by the drivers of {self.nodes[0]}.", "devices": list(self.devices)}
        if self.resources:
            spec["nodeResources"] = dict(self.resources)
        metadata = {"name": self.class_name}
        return {"apiVersion": API_VERSION, "kind": "InferenceClass", "metadata": metadata, "spec": spec}


def review_cluster(found: ClusterInventory, cluster: Manifest | None = None) -> tuple[Finding, ...]:
    """`cluster` is its InferenceCluster, where there is one; else that which is proposed."""
    pools = propose_pools(found)
    declared = decode(InferenceCluster, cluster or proposed_cluster("cluster", "secret", pools))
    return (
        _version(found.version),
        *_software(found, declared, pools),
        _nodes(found),
        *(_pool(pool) for pool in pools),
    )


def _version(version: str) -> Finding:
    oldest = load_stack().kubernetes
    try:
        fits = is_in_range(version.partition("-")[0].partition("+")[0], f">={oldest}")
    except VersionError:
        return Finding(
            "Kubernetes", version or "unknown", f"{oldest} or newer is needed, and the version cannot be read"
        )
    return Finding("Kubernetes", version, "" if fits else f"{oldest} or newer is needed")


def _software(found: ClusterInventory, declared: InferenceCluster, pools: Iterable[ProposedPool]) -> Iterator[Finding]:
    classes = [_as_class(pool) for pool in pools]
    for component in components_of(declared, classes):
        signs = ", ".join(item.shown for item in component.provides.objects())
        missing, unread = missing_components([component], found.names)
        if missing:
            yield Finding(component.name, "missing", f"install it; it brings {signs}")
        elif unread:
            yield Finding(component.name, "unknown", f"{', '.join(sorted(unread))} may not be read")
        elif signs:
            yield Finding(component.name, signs)


def _nodes(found: ClusterInventory) -> Finding:
    if found.slices is None:
        return Finding("devices", "unknown", "ResourceSlices may not be read")
    if not found.slices:
        return Finding("devices", "none", "no DRA driver publishes devices")
    return Finding("devices", f"{len(found.slices)} ResourceSlices of {len(found.nodes)} nodes")


def _pool(pool: ProposedPool) -> Finding:
    what, found = f"pool {pool.name}", f"{len(pool.nodes)} nodes with {_counted(pool.devices)}"
    if not pool.unlabelled:
        return Finding(what, found)
    first = ", ".join(pool.unlabelled[:3])
    return Finding(
        what, found, f"{len(pool.unlabelled)} nodes lack the label {POOL}={pool.name}: {first}", is_label=True
    )


def _counted(devices: Iterable[Mapping[str, object]]) -> str:
    return ", ".join(f"{device['count']} {device['driver']}" for device in devices)


def propose_pools(found: ClusterInventory) -> tuple[ProposedPool, ...]:
    """A pool for each set of devices that nodes publish alike, or for each label that nodes have."""
    devices = _devices_of_nodes(found.slices or ())
    labels = {name_of(node): labels_of(node).get(POOL, "") for node in found.nodes}
    groups: defaultdict[tuple[str, tuple[_Kind, ...]], list[str]] = defaultdict(list)
    for node in sorted(devices):
        if node in labels:
            groups[labels[node], devices[node]].append(node)
    named = {kinds: label for label, kinds in groups if label}
    joined: defaultdict[tuple[str, tuple[_Kind, ...]], list[str]] = defaultdict(list)
    for (label, kinds), nodes in groups.items():
        joined[label or named.get(kinds, ""), kinds] += nodes
    by_name = {name_of(node): node for node in found.nodes}
    return tuple(
        replace(pool, resources=_least_resources(by_name[name] for name in pool.nodes))
        for pool in _named_pools(joined, labels)
    )


def _least_resources(nodes: Iterable[Manifest]) -> dict[str, str]:
    """Of what is allocatable on them; nothing that a node does not say."""
    found = [mapping_at(node, "status", "allocatable") for node in nodes]
    try:
        return {name: min((text_at(each, name) for each in found), key=parse_quantity) for name in ("cpu", "memory")}
    except QuantityError:
        return {}


def _named_pools(
    groups: Mapping[tuple[str, tuple[_Kind, ...]], list[str]], labels: Mapping[str, str]
) -> Iterator[ProposedPool]:
    taken: Counter[str] = Counter()
    for (label, kinds), nodes in sorted(groups.items(), key=lambda item: (item[0][0], item[1])):
        name = label or _readable(kinds)
        taken[name] += 1
        unique = name if taken[name] == 1 else f"{name}-{taken[name]}"
        unlabelled = tuple(node for node in sorted(nodes) if labels[node] != unique)
        devices = tuple(_device(kind, index) for index, kind in enumerate(kinds))
        yield ProposedPool(unique, f"{_readable(kinds)}-{kinds[0][1]}x", tuple(sorted(nodes)), unlabelled, devices)


def _readable(kinds: tuple[_Kind, ...]) -> str:
    """After the product of the first device, as a DNS label."""
    driver, _, attributes, _ = kinds[0]
    product = next((value for name, value in attributes if name == "productName"), driver)
    kept = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in product.lower())
    return "-".join(part for part in kept.split("-") if part)[:30].strip("-")


def _devices_of_nodes(slices: Iterable[Manifest]) -> dict[str, tuple[_Kind, ...]]:
    found: defaultdict[str, Counter[tuple[str, _Pairs, _Pairs]]] = defaultdict(Counter)
    for item in slices:
        driver, node = text_at(item, "spec", "driver"), text_at(item, "spec", "nodeName")
        for device in items_at(item, "spec", "devices"):
            found[node][driver, _attributes(device), _capacity(device)] += 1
    return {
        node: tuple(
            sorted((driver, count, attributes, capacity) for (driver, attributes, capacity), count in kinds.items())
        )
        for node, kinds in found.items()
        if node
    }


def _attributes(device: Manifest) -> _Pairs:
    """Those that all devices of a kind share, and that are texts or versions."""
    found = mapping_at(device, "attributes")
    texts = {name: text_at(found, name, "string") for name in found if _is_shared(name)}
    versions = {name: text_at(found, name, "version") for name in found if _is_shared(name) and "Version" not in name}
    both = [*texts.items(), *((name, f"v{text}") for name, text in versions.items() if text)]
    return tuple(sorted((name, text) for name, text in both if text))


def _is_shared(name: str) -> bool:
    return name not in _NOT_OF_A_KIND and _DOMAINED not in name


def _capacity(device: Manifest) -> _Pairs:
    found = mapping_at(device, "capacity")
    return tuple(sorted((name, text_at(found, name, "value")) for name in found if _DOMAINED not in name))


def _device(kind: _Kind, index: int) -> Json:
    driver, count, attributes, capacity = kind
    made: Json = {
        "name": "gpu" if index == 0 else f"device-{index}",
        "driver": driver,
        "deviceClassName": driver,
        "count": count,
    }
    if attributes:
        made["attributes"] = {name: _typed(name, text) for name, text in attributes}
    if capacity:
        made["capacity"] = {name: {"value": value} for name, value in capacity}
    return made


def _typed(name: str, text: str) -> Json:
    return {"version": text.removeprefix("v")} if name.endswith("Capability") else {"string": text}


def _as_class(pool: ProposedPool) -> InferenceClass:
    return decode(InferenceClass, pool.inference_class())


def proposed_cluster(name: str, secret: str, pools: Iterable[ProposedPool], *, agent: bool = False) -> Json:
    """Its InferenceCluster, with software that somebody else installed."""
    connection = {"connection": "Agent"} if agent else {}
    existing = {"secretRef": {"name": secret}, **connection, "components": "Provided"}
    declared = [{"name": pool.name, "className": pool.class_name, "nodeCount": len(pool.nodes)} for pool in pools]
    spec = {"cluster": {"source": "Existing", "existing": existing}, "nodePools": declared}
    return {"apiVersion": API_VERSION, "kind": "InferenceCluster", "metadata": {"name": name}, "spec": spec}
