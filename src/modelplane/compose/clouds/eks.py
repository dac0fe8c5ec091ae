"""Amazon Elastic Kubernetes Service.

    VPC ─ InternetGateway, Subnets (public, private), NATGateway ─ routes
    Roles ─ Cluster ─ NodeGroups, Addons, ClusterAuth (the kubeconfig), PodIdentityAssociations
    FileSystem ─ MountTargets (EFS, for weights)
    LaunchTemplates, PlacementGroups, SecurityGroup (EFA and reserved capacity; see `launch_templates`)

Node groups do not scale by themselves: the stack has a cluster-autoscaler, which is let in here. It owns the size of a
group that scales, so that size is stated once, when the group is made.
"""

import json
from collections.abc import Iterator, Mapping

from modelplane.api.labels import GPU_TAINT
from modelplane.api.models import ClusterEks, InferenceCluster, NodePool, Provisioning
from modelplane.api.objects import Json, annotations_of
from modelplane.compose.clouds.launch_templates import (
    is_templated,
    machine_fault,
    needs_template,
    template_fault,
    template_needs,
    template_reference,
    template_resources,
)
from modelplane.compose.clouds.resources import (
    CLUSTER,
    NO_ZONES,
    PREFIX,
    Cloud,
    ClusterPlan,
    ManagedResource,
    PoolPlan,
    kubeconfig_access,
    shared_storage,
)

_EC2, _EKS, _IAM = "ec2.aws.m.upbound.io/v1beta1", "eks.aws.m.upbound.io/v1beta1", "iam.aws.m.upbound.io/v1beta1"
_EFS = "efs.aws.m.upbound.io/v1beta1"
_VPC, _GATEWAY, _ADDRESS, _NAT = f"{PREFIX}vpc", f"{PREFIX}internet", f"{PREFIX}nat-address", f"{PREFIX}nat"
_CLUSTER_ROLE, _NODE_ROLE = f"{PREFIX}cluster-role", f"{PREFIX}node-role"
_AUTH, _SYSTEM, _FILES, _FILES_GROUP = f"{PREFIX}auth", f"{PREFIX}system", f"{PREFIX}files", f"{PREFIX}files-group"
_AGENT = f"{PREFIX}addon-eks-pod-identity-agent"
_PRIVATE = f"{PREFIX}private-"
_LETTERS = "abcdefgh"
"""Zones that the network has room for."""
_VPC_CIDR = "10.0.0.0/16"
_SYSTEM_MACHINE = "m6i.xlarge"
_FEWEST_ZONES = 2
_USER = "65532"
_POLICIES = "arn:aws:iam::aws:policy/"
_NODE_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly")
_ADDONS = ("vpc-cni", "kube-proxy", "coredns", "eks-pod-identity-agent", "aws-efs-csi-driver")
_SCALING = (
    *("autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeAutoScalingInstances"),
    *("autoscaling:DescribeLaunchConfigurations", "autoscaling:DescribeScalingActivities"),
    *("autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"),
    *("ec2:DescribeImages", "ec2:DescribeInstanceTypes", "ec2:DescribeLaunchTemplateVersions"),
    *("ec2:GetInstanceTypesFromInstanceRequirements", "eks:DescribeNodegroup"),
)


def _eks(cluster: InferenceCluster) -> ClusterEks:
    found = cluster.spec.cluster.eks
    assert found is not None  # noqa: S101  the API requires the block of the source
    return found


def _zones(plan: ClusterPlan) -> list[str]:
    """Those of the pools, those that the network has, and more where they are too few for a control plane.

    A zone stays when its last pool goes: the control plane has a foot in its subnets.
    """
    region = _eks(plan.cluster).region
    made = [key.removeprefix(_PRIVATE) for key in plan.observed if key.startswith(_PRIVATE)]
    found = {*made, *_pool_zones(plan.cluster)}
    spare = [zone for letter in _LETTERS if (zone := region + letter) not in found]
    return sorted({*found, *spare[: max(_FEWEST_ZONES - len(found), 0)]})


def _pool_zones(cluster: InferenceCluster) -> list[str]:
    return [zone for pool in cluster.spec.node_pools for zone in pool.zones]


def _cidr(zone: str, *, private: bool) -> str:
    """By the letter of the zone, so that a zone that is added moves no other."""
    return f"10.0.{_LETTERS.index(zone[-1]) * 16 + (128 if private else 0)}.0/20"


def _plan_pool(pool: NodePool, provisioning: Provisioning | None) -> PoolPlan | None:
    found = provisioning.eks if provisioning is not None else None
    return None if found is None else PoolPlan(pool, found.instance_type, found.disk_size_gb, found.accelerator)


def _resources(plan: ClusterPlan) -> Iterator[ManagedResource]:
    yield from _network(plan)
    yield from _roles(plan)
    yield _cluster(plan)
    auth = {"region": _eks(plan.cluster).region, "clusterNameRef": plan.ref(CLUSTER), "refreshPeriod": "10m"}
    secret = kubeconfig_access(plan.cluster).kubeconfig.name
    yield ManagedResource(_AUTH, _EKS, "ClusterAuth", auth, needs=(CLUSTER,), secret=secret)
    yield _node_group(plan, _SYSTEM, _system(plan), {"desiredSize": 1})
    yield from template_resources(plan, _eks(plan.cluster).region, _VPC)
    for pool in plan.pools:
        if is_templated(plan, pool):
            yield _pool(plan, pool)
    yield from _addons(plan)
    yield from _files(plan)


def _private(zone: str) -> str:
    return f"{_PRIVATE}{zone}"


def _public(zone: str) -> str:
    return f"{PREFIX}public-{zone}"


def _network(plan: ClusterPlan) -> Iterator[ManagedResource]:
    region, zones = _eks(plan.cluster).region, _zones(plan)
    vpc = {"region": region, "cidrBlock": _VPC_CIDR, "enableDnsHostnames": True, "enableDnsSupport": True}
    yield ManagedResource(_VPC, _EC2, "VPC", vpc)
    inside: Json = {"region": region, "vpcIdRef": plan.ref(_VPC)}
    yield ManagedResource(_GATEWAY, _EC2, "InternetGateway", inside, needs=(_VPC,))
    for zone in zones:
        yield _subnet(_public(zone), inside, zone, _cidr(zone, private=False), "elb")
        yield _subnet(_private(zone), inside, zone, _cidr(zone, private=True), "internal-elb")
    address: Json = {"region": region, "domain": "vpc"}
    yield ManagedResource(_ADDRESS, _EC2, "EIP", address)
    nat = {
        "region": region,
        "connectivityType": "public",
        "allocationIdRef": plan.ref(_ADDRESS),
        "subnetIdRef": plan.ref(_public(zones[0])),
    }
    yield ManagedResource(_NAT, _EC2, "NATGateway", nat, needs=(_ADDRESS, _public(zones[0]), _GATEWAY))
    yield from _routes(plan, "public", {"gatewayIdRef": plan.ref(_GATEWAY)}, (_GATEWAY,), list(map(_public, zones)))
    yield from _routes(plan, "private", {"natGatewayIdRef": plan.ref(_NAT)}, (_NAT,), list(map(_private, zones)))


def _subnet(key: str, inside: Mapping[str, object], zone: str, cidr: str, role: str) -> ManagedResource:
    body = {
        **inside,
        "availabilityZone": zone,
        "cidrBlock": cidr,
        "mapPublicIpOnLaunch": role == "elb",
        "tags": {f"kubernetes.io/role/{role}": "1"},
    }
    return ManagedResource(key, _EC2, "Subnet", body, needs=(_VPC,))


def _routes(
    plan: ClusterPlan, side: str, way: Mapping[str, object], needs: tuple[str, ...], subnets: list[str]
) -> Iterator[ManagedResource]:
    region, table = _eks(plan.cluster).region, f"{PREFIX}routes-{side}"
    body: Json = {"region": region, "vpcIdRef": plan.ref(_VPC)}
    yield ManagedResource(table, _EC2, "RouteTable", body, needs=(_VPC,))
    out = {"region": region, "routeTableIdRef": plan.ref(table), "destinationCidrBlock": "0.0.0.0/0", **way}
    yield ManagedResource(f"{PREFIX}way-out-{side}", _EC2, "Route", out, needs=(table, *needs))
    for subnet in subnets:
        ties = {"region": region, "routeTableIdRef": plan.ref(table), "subnetIdRef": plan.ref(subnet)}
        key = f"{PREFIX}routes-of-{subnet.removeprefix(PREFIX)}"
        yield ManagedResource(key, _EC2, "RouteTableAssociation", ties, needs=(table, subnet))


def _roles(plan: ClusterPlan) -> Iterator[ManagedResource]:
    yield from _role(plan, _CLUSTER_ROLE, "eks.amazonaws.com", ("AmazonEKSClusterPolicy",))
    yield from _role(plan, _NODE_ROLE, "ec2.amazonaws.com", _NODE_POLICIES)
    files = f"{PREFIX}files-role"
    yield from _role(plan, files, "pods.eks.amazonaws.com", ("service-role/AmazonEFSCSIDriverPolicy",))
    yield _pod_identity(plan, "files", files, "efs-csi-controller-sa")
    scaler, policy = f"{PREFIX}scaler-role", f"{PREFIX}scaler-policy"
    yield from _role(plan, scaler, "pods.eks.amazonaws.com", ())
    statement = {"Effect": "Allow", "Action": list(_SCALING), "Resource": "*"}
    yield ManagedResource(policy, _IAM, "Policy", {"policy": _document(statement)})
    body: Json = {"roleRef": plan.ref(scaler), "policyArnRef": plan.ref(policy)}
    yield ManagedResource(f"{PREFIX}scaler-may", _IAM, "RolePolicyAttachment", body, needs=(scaler, policy))
    yield _pod_identity(plan, "scaler", scaler, "cluster-autoscaler")


def _role(plan: ClusterPlan, key: str, service: str, policies: tuple[str, ...]) -> Iterator[ManagedResource]:
    actions = ["sts:AssumeRole", *(["sts:TagSession"] if service.startswith("pods.") else [])]
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": actions}
    yield ManagedResource(key, _IAM, "Role", {"assumeRolePolicy": _document(statement)})
    for policy in policies:
        body = {"policyArn": f"{_POLICIES}{policy}", "roleRef": plan.ref(key)}
        short = policy.rpartition("/")[2].lower().replace("_", "-")
        yield ManagedResource(f"{key}-{short}", _IAM, "RolePolicyAttachment", body, needs=(key,))


def _document(statement: Mapping[str, object]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, separators=(",", ":"))


def _pod_identity(plan: ClusterPlan, name: str, role: str, account: str) -> ManagedResource:
    body = {
        "region": _eks(plan.cluster).region,
        "clusterNameRef": plan.ref(CLUSTER),
        "namespace": "kube-system",
        "serviceAccount": account,
        "roleArnRef": plan.ref(role),
    }
    key = f"{PREFIX}{name}-identity"
    return ManagedResource(key, _EKS, "PodIdentityAssociation", body, needs=(CLUSTER, role))


def _cluster(plan: ClusterPlan) -> ManagedResource:
    eks = _eks(plan.cluster)
    subnets = [key(zone) for zone in _zones(plan) for key in (_public, _private)]
    body = {
        "region": eks.region,
        "version": eks.kubernetes_version,
        "roleArnRef": plan.ref(_CLUSTER_ROLE),
        "vpcConfig": {
            "subnetIdRefs": [plan.ref(key) for key in subnets],
            "endpointPublicAccess": True,
            "endpointPrivateAccess": True,
        },
        # The provider's identity is the one that the kubeconfig speaks for.
        "accessConfig": {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": True},
    }
    needs = (f"{_CLUSTER_ROLE}-amazoneksclusterpolicy", _CLUSTER_ROLE, *subnets)
    return ManagedResource(CLUSTER, _EKS, "Cluster", body, needs=needs)


def _system(plan: ClusterPlan) -> Json:
    return {
        "instanceTypes": [_SYSTEM_MACHINE],
        "amiType": "AL2023_x86_64_STANDARD",
        "diskSize": 100,
        "scalingConfig": {"minSize": 1, "maxSize": 3},
        "subnetIdRefs": [plan.ref(_private(zone)) for zone in _zones(plan)],
    }


def _pool(plan: ClusterPlan, pool: PoolPlan) -> ManagedResource:
    zones = pool.pool.zones or _zones(plan)
    sizes: Json = {"minSize": pool.fewest, "maxSize": max(pool.most, 1)}
    if not pool.scales:
        sizes["desiredSize"] = pool.pool.node_count
    body = {
        "amiType": "AL2023_x86_64_NVIDIA",
        "capacityType": "ON_DEMAND" if pool.pool.capacity_block is None else "CAPACITY_BLOCK",
        **_machine(plan, pool),
        "labels": pool.labels,
        "taint": [{"key": pool.taint, "value": "present", "effect": "NO_SCHEDULE"}],
        "scalingConfig": sizes,
        "subnetIdRefs": [plan.ref(_private(zone)) for zone in zones],
    }
    more = template_needs(pool) if needs_template(pool.pool) else ()
    return _node_group(plan, pool.key, body, {"desiredSize": pool.pool.node_count} if pool.scales else {}, more)


def _machine(plan: ClusterPlan, pool: PoolPlan) -> Json:
    if needs_template(pool.pool):
        return template_reference(plan, pool)
    return {"instanceTypes": [pool.machine], "diskSize": pool.disk_gb}


def _node_group(
    plan: ClusterPlan,
    key: str,
    body: Mapping[str, object],
    first: Mapping[str, object],
    more: tuple[str, ...] = (),
) -> ManagedResource:
    common = {
        "region": _eks(plan.cluster).region,
        "clusterNameRef": plan.ref(CLUSTER),
        "nodeRoleArnRef": plan.ref(_NODE_ROLE),
    }
    policies = [f"{_NODE_ROLE}-{policy.lower().replace('_', '-')}" for policy in _NODE_POLICIES]
    needs = (CLUSTER, _NODE_ROLE, *policies, f"{PREFIX}way-out-private", *more)
    initial = {"scalingConfig": first} if first else {}
    return ManagedResource(key, _EKS, "NodeGroup", {**common, **body}, initial, needs=needs, late_initialize=not first)


def _addons(plan: ClusterPlan) -> Iterator[ManagedResource]:
    for name in _ADDONS:
        body = {
            "region": _eks(plan.cluster).region,
            "clusterNameRef": plan.ref(CLUSTER),
            "addonName": name,
            "resolveConflictsOnCreate": "OVERWRITE",
            "resolveConflictsOnUpdate": "OVERWRITE",
        }
        if name == "aws-efs-csi-driver":
            tolerations = [{"key": GPU_TAINT, "operator": "Exists"}]
            body["configurationValues"] = json.dumps({"node": {"tolerations": tolerations}}, separators=(",", ":"))
        yield ManagedResource(f"{PREFIX}addon-{name}", _EKS, "Addon", body, needs=(CLUSTER,))


def _files(plan: ClusterPlan) -> Iterator[ManagedResource]:
    region = _eks(plan.cluster).region
    system = {"region": region, "encrypted": True, "performanceMode": "generalPurpose", "throughputMode": "elastic"}
    yield ManagedResource(_FILES, _EFS, "FileSystem", system)
    group = {
        "region": region,
        "vpcIdRef": plan.ref(_VPC),
        "name": plan.name(_FILES_GROUP),
        "description": "NFS from the nodes of the cluster",
    }
    yield ManagedResource(_FILES_GROUP, _EC2, "SecurityGroup", group, needs=(_VPC,))
    rule = {
        "region": region,
        "securityGroupIdRef": plan.ref(_FILES_GROUP),
        "ipProtocol": "tcp",
        "fromPort": 2049,
        "toPort": 2049,
        "cidrIpv4": _VPC_CIDR,
    }
    yield ManagedResource(f"{PREFIX}files-rule", _EC2, "SecurityGroupIngressRule", rule, needs=(_FILES_GROUP,))
    for zone in _zones(plan):
        target = {
            "region": region,
            "fileSystemIdRef": plan.ref(_FILES),
            "subnetIdRef": plan.ref(_private(zone)),
            "securityGroupsRefs": [plan.ref(_FILES_GROUP)],
        }
        needs = (_FILES, _FILES_GROUP, _private(zone))
        yield ManagedResource(f"{PREFIX}files-{zone}", _EFS, "MountTarget", target, needs=needs)


def _facts(plan: ClusterPlan) -> Mapping[str, str]:
    return {"clusterName": plan.name(CLUSTER), "region": _eks(plan.cluster).region}


def _storage(plan: ClusterPlan) -> Json | None:
    """Once the file system has its name, which AWS gives it."""
    seen = plan.observed.get(_FILES)
    found = annotations_of(seen.manifest).get("crossplane.io/external-name", "") if seen is not None else ""
    if not found.startswith("fs-"):
        return None
    owner = {"uid": _USER, "gid": _USER}
    parameters = {"provisioningMode": "efs-ap", "fileSystemId": found, "directoryPerms": "755", **owner}
    return shared_storage("efs.csi.aws.com", parameters)


def _pool_fault(cluster: InferenceCluster, pool: NodePool) -> str | None:
    if not pool.zones:
        return NO_ZONES
    if bad := [zone for zone in pool.zones if not _has_room(cluster, zone)]:
        return f"zones: {bad[0]} is none of {_eks(cluster).region}a to h"
    return template_fault(pool)


def _has_room(cluster: InferenceCluster, zone: str) -> bool:
    region = _eks(cluster).region
    return zone.startswith(region) and zone.removeprefix(region) in set(_LETTERS)


EKS = Cloud(
    source="EKS",
    providers=("provider-aws-ec2", "provider-aws-efs", "provider-aws-eks", "provider-aws-iam"),
    provider_version="v2.6.0",
    credentials=lambda cluster: _eks(cluster).credentials,
    plan_pool=_plan_pool,
    resources=_resources,
    access=kubeconfig_access,
    access_keys=(CLUSTER, _AUTH, _SYSTEM),
    no_capacity=r"(?i)InsufficientInstanceCapacity|not have sufficient .*capacity|UnfulfillableCapacity|"
    r"VcpuLimitExceeded|InstanceLimitExceeded|more vCPU capacity than your current",
    pool_fault=_pool_fault,
    machine_fault=machine_fault,
    fabrics=frozenset({"EFA"}),
    facts=_facts,
    storage=_storage,
)
