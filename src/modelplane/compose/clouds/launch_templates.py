"""Launch templates of EC2, for pools of EKS with EFA or with reserved capacity.

A node group with a template takes its machine and its disk from there. Reserved capacity is named in the template, and
a capacity block has a market of its own. With EFA a node has an ordinary interface, on which it is reached, and EFA
interfaces as many as its type has, each on a network card of its own and without an address. The nodes share a security
group that lets them speak with each other alone, and are placed side by side; AWS places reserved capacity itself.
"""

from collections.abc import Iterator, Mapping

from modelplane.api.models import NodePool
from modelplane.api.objects import Json, as_list, items_at, mapping_at, text_at
from modelplane.catalog.machines import load_catalog
from modelplane.compose.clouds.resources import (
    CLUSTER,
    PREFIX,
    ClusterPlan,
    ManagedResource,
    PoolPlan,
    fabric_of,
    pool_part,
)

_EC2 = "ec2.aws.m.upbound.io/v1beta1"
_EFA_GROUP = f"{PREFIX}efa-group"
_ROOT_DEVICE = "/dev/xvda"
_RESERVATION = "cr-"
_HOPS = 2
"""Of answers of the metadata service: one more than to the node itself, for its pods."""


def needs_template(pool: NodePool) -> bool:
    return fabric_of(pool) == "EFA" or _reservation(pool) != ""


def template_fault(pool: NodePool) -> str | None:
    """Why no template can be made for a pool: its field, a colon and a sentence."""
    if pool.capacity_block is not None and pool.capacity_reservation is not None:
        return "capacityReservation: the pool has a capacityBlock already"
    if pool.capacity_reservation is not None and not pool.capacity_reservation.name.startswith(_RESERVATION):
        return f"capacityReservation.name: on EKS it is the identifier of the reservation, {_RESERVATION}…"
    if needs_template(pool) and len(pool.zones) > 1:
        what = "EFA joins the nodes of" if fabric_of(pool) == "EFA" else "a reservation is in"
        return f"zones: {what} one zone; name that"
    return None


def machine_fault(pool: PoolPlan) -> str | None:
    """The catalogue knows how many EFA interfaces a type has. A template with too many is refused by EC2."""
    if fabric_of(pool.pool) == "EFA" and not _efa_cards(pool):
        return f"the catalogue knows no EFA interfaces of {pool.machine}"
    return None


def template_resources(plan: ClusterPlan, region: str, vpc: str) -> Iterator[ManagedResource]:
    """Of all pools that need a template."""
    if any(fabric_of(pool.pool) == "EFA" for pool in plan.pools):
        yield from _efa_group(plan, region, vpc)
    for pool in plan.pools:
        if needs_template(pool.pool):
            yield from _template(plan, pool, region)


def is_templated(plan: ClusterPlan, pool: PoolPlan) -> bool:
    """Whether what the template of a pool names is known. Until then the pool cannot be made."""
    return fabric_of(pool.pool) != "EFA" or bool(_cluster_group(plan, pool))


def template_reference(plan: ClusterPlan, pool: PoolPlan) -> Json:
    """The newest version: a node group follows a template by its number."""
    key = _template_key(pool)
    version = plan.at_provider(key).get("latestVersion") or _stated_version(plan, pool) or 1
    return {"launchTemplate": {"name": plan.name(key), "version": str(version)}}


def template_needs(pool: PoolPlan) -> tuple[str, ...]:
    return (_template_key(pool),)


def _template_key(pool: PoolPlan) -> str:
    return pool_part(pool.pool, "template")


def _stated_version(plan: ClusterPlan, pool: PoolPlan) -> str:
    found = plan.observed.get(pool.key)
    return text_at(found.manifest if found else {}, "spec", "forProvider", "launchTemplate", "version")


def _reservation(pool: NodePool) -> str:
    if pool.capacity_block is not None:
        return pool.capacity_block.capacity_reservation_id
    return pool.capacity_reservation.name if pool.capacity_reservation is not None else ""


def _efa_cards(pool: PoolPlan) -> range:
    """The network cards of a node with an EFA interface; none where the catalogue knows none."""
    found = (each for each in load_catalog().machines if each.cloud == "aws" and each.type == pool.machine)
    return next((range(each.efa_from_card, each.efa_from_card + each.efa) for each in found if each.efa), range(0))


def _efa_group(plan: ClusterPlan, region: str, vpc: str) -> Iterator[ManagedResource]:
    """EFA passes no rule that names addresses: nodes are let in and out by the group itself."""
    body = {
        "region": region,
        "vpcIdRef": plan.ref(vpc),
        "name": plan.name(_EFA_GROUP),
        "description": "EFA between the nodes of the cluster",
    }
    yield ManagedResource(_EFA_GROUP, _EC2, "SecurityGroup", body, needs=(vpc,))
    rule = {
        "region": region,
        "securityGroupIdRef": plan.ref(_EFA_GROUP),
        "referencedSecurityGroupIdRef": plan.ref(_EFA_GROUP),
        "ipProtocol": "-1",
    }
    for side in ("Ingress", "Egress"):
        key = f"{PREFIX}efa-{side.lower()}"
        yield ManagedResource(key, _EC2, f"SecurityGroup{side}Rule", rule, needs=(_EFA_GROUP,))


def _template(plan: ClusterPlan, pool: PoolPlan, region: str) -> Iterator[ManagedResource]:
    body: Json = {
        "region": region,
        "name": plan.name(_template_key(pool)),
        "instanceType": pool.machine,
        "blockDeviceMappings": [
            {
                "deviceName": _ROOT_DEVICE,
                "ebs": {"volumeSize": pool.disk_gb, "volumeType": "gp3", "deleteOnTermination": "true"},
            }
        ],
        "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": _HOPS},
        **_reserved(pool.pool),
    }
    needs: tuple[str, ...] = ()
    if fabric_of(pool.pool) == "EFA":
        if not is_templated(plan, pool):
            return
        body["networkInterfaces"] = list(_interfaces(plan, pool))
        needs = (CLUSTER, _EFA_GROUP)
        if not _reservation(pool.pool):
            group = pool_part(pool.pool, "placement")
            yield ManagedResource(group, _EC2, "PlacementGroup", {"region": region, "strategy": "cluster"})
            body["placement"] = {"groupName": plan.name(group)}
            needs = (*needs, group)
    yield ManagedResource(_template_key(pool), _EC2, "LaunchTemplate", body, needs=needs, late_initialize=False)


def _reserved(pool: NodePool) -> Json:
    reservation = _reservation(pool)
    if not reservation:
        return {}
    target: Json = {
        "capacityReservationSpecification": {
            "capacityReservationTarget": {"capacityReservationId": reservation},
        }
    }
    return {**target, "instanceMarketOptions": {"marketType": "capacity-block"}} if pool.capacity_block else target


def _interfaces(plan: ClusterPlan, pool: PoolPlan) -> Iterator[Mapping[str, object]]:
    group = _cluster_group(plan, pool)
    # Interfaces that are listed get no group from EKS, so the control plane would not reach the node.
    yield {"networkCardIndex": 0, "deviceIndex": 0, "securityGroups": [group], "deleteOnTermination": "true"}
    for card in _efa_cards(pool):
        yield {
            "networkCardIndex": card,
            "deviceIndex": 1 if card == 0 else 0,
            "interfaceType": "efa-only",
            "securityGroupRefs": [plan.ref(_EFA_GROUP)],
            "deleteOnTermination": "true",
        }


def _cluster_group(plan: ClusterPlan, pool: PoolPlan) -> str:
    """The group that EKS makes for the nodes of a cluster, as the cluster reports it or the template has it."""
    found = text_at(mapping_at(plan.at_provider(CLUSTER), "vpcConfig"), "clusterSecurityGroupId")
    seen = plan.observed.get(_template_key(pool))
    if found or seen is None:
        return found
    first, *_ = *items_at(seen.manifest, "spec", "forProvider", "networkInterfaces"), {}
    return str(next(iter(as_list(first.get("securityGroups"))), ""))
