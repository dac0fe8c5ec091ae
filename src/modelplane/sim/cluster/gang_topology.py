"""Which pods of a gang must be on nodes of one domain.

    KAI       the pods of a PodGroup with a `topologyConstraint`, within one value of the required level
    Volcano   the pods of a `subGroupPolicy` with a hard `networkTopology`, for each combination of its `matchLabelKeys`

KAI finds the level in a Topology, and places nothing where there is none. Volcano finds the tier by its name among the
HyperNodes; those of a simulated cluster are made from node labels, and their tiers are called as the labels are. Both
fill a domain before they begin another. Not modelled: preferred levels, numbers of tiers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from modelplane.api.objects import Manifest, items_at, labels_of, mapping_at, text_at, value_at
from modelplane.reconcile.store import ObjectRef, ref_of
from modelplane.sim.cluster.controller import ClusterStore
from modelplane.sim.cluster.gangs import KAI_GROUP
from modelplane.sim.cluster.node_lifecycle import node_of
from modelplane.sim.cluster.objects import selector_matches

TOPOLOGY_GROUP = "kai.scheduler"
Nodes = Mapping[str, Manifest]


@dataclass(slots=True)
class Subgroup:
    """Pods of a gang that are bound by the same rule."""

    key: str = ""
    """The node label of which they must have one value; empty: they may be anywhere."""
    fault: str = ""
    """Why they cannot be placed, whatever is free."""
    waiting: list[Manifest] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)
    """Of its pods that are bound."""

    def domains(self, nodes: Nodes, pods: Mapping[str, int]) -> list[Nodes]:
        """The nodes of each domain that it may go to, in order. `pods` counts those on each node."""
        found: dict[str, dict[str, Manifest]] = {}
        for name, node in nodes.items():
            if value := labels_of(node).get(self.key):
                found.setdefault(value, {})[name] = node
        begun = [domain for domain in found.values() if self.nodes & domain.keys()]
        if begun:
            return [*begun]
        return sorted(found.values(), key=lambda domain: (-sum(pods.get(name, 0) for name in domain), min(domain)))


def subgroups(
    group: Manifest | None, waiting: Iterable[Manifest], bound: Iterable[Manifest], store: ClusterStore
) -> list[Subgroup]:
    """All pods of a gang, each in one of these; those that wait keep their order."""
    found: dict[tuple[str, ...], Subgroup] = {}
    of_kai = _of_kai(group, store) if group is not None and ref_of(group).group == KAI_GROUP else None

    def subgroup(pod: Manifest) -> Subgroup:
        if of_kai is not None or group is None:
            return found.setdefault((), of_kai or Subgroup())
        rule = _volcano_rule(group, pod)
        return found.setdefault(rule, Subgroup(rule[0]))

    for pod in waiting:
        subgroup(pod).waiting.append(pod)
    for pod in bound:
        subgroup(pod).nodes.add(node_of(pod))
    return [each for each in found.values() if each.waiting]


def _of_kai(group: Manifest, store: ClusterStore) -> Subgroup:
    wanted = mapping_at(group, "spec", "topologyConstraint")
    name, level = text_at(wanted, "topology"), text_at(wanted, "requiredTopologyLevel")
    if not name or not level:
        return Subgroup()
    topology = store.get(ObjectRef(TOPOLOGY_GROUP, "Topology", "", name))
    if topology is None:
        return Subgroup(level, f"Requested topology {name} does not exist")
    levels = {text_at(entry, "nodeLabel") for entry in items_at(topology, "spec", "levels")}
    return Subgroup(level, "" if level in levels else f"the topology {name} has no level {level}")


def _volcano_rule(group: Manifest, pod: Manifest) -> tuple[str, ...]:
    """The label that binds a pod, then what tells its subgroup from others."""
    labels = labels_of(pod)
    for policy in items_at(group, "spec", "subGroupPolicy"):
        topology, named = mapping_at(policy, "networkTopology"), value_at(policy, "matchLabelKeys")
        keys = [str(each) for each in named] if isinstance(named, list | tuple) else []
        hard = text_at(topology, "mode") == "hard" and all(labels.get(each) for each in keys)
        if hard and selector_matches(mapping_at(policy, "labelSelector"), labels):
            return text_at(topology, "highestTierName"), text_at(policy, "name"), *(labels[each] for each in keys)
    return ("",)
