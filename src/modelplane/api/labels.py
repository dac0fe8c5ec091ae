"""Labels, annotations, headers and fixed places that rooms and clusters agree on, and label selectors.

One module, so that what is written in one place and matched in another cannot drift apart.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, assert_never

if TYPE_CHECKING:
    from modelplane.api.models import LabelRequirement, LabelSelector

DEPLOYMENT = "modelplane.ai/deployment"
CLUSTER = "modelplane.ai/cluster"
REPLICA = "modelplane.ai/replica"
REPLICA_INDEX = "modelplane.ai/replica-index"
REVISION = "modelplane.ai/revision"
"""On replicas and their endpoints: the hash of the deployment's template that their pods are made from."""
LEAVING = "modelplane.ai/leaving-since"
"""Annotation of the endpoint of a replica that goes: since when services send it nothing new."""
LISTED = "modelplane.ai/listed"
"""Annotation of the endpoint of a replica whose route also takes requests that list several replicas."""
TRACK = "modelplane.ai/track"
"""On replicas and their endpoints: `canary` while they have a revision that is not promoted yet."""
CANARY = "canary"
CANARY_WEIGHT = "modelplane.ai/canary-weight"
"""On endpoints of canaries: the percentage of its deployment's requests that all canaries share."""
PROMOTE = "modelplane.ai/promote"
"""Annotation of a deployment: `<hash>/<step>` ends that step of the revision, `<hash>/all` the canary."""
ABORT = "modelplane.ai/abort"
"""Annotation of a deployment: the hash of a revision whose rollout is to be halted."""
RETRY = "modelplane.ai/retry"
"""Annotation of a deployment: when a halted rollout was resumed. A halt before that time no longer counts."""
POOL = "modelplane.ai/pool"
"""On nodes and in the node selector of pods: pins a replica to the pool that it was placed on."""
SERVING = "modelplane.ai/serving"
"""On pods that answer requests, with the replica's name: what Services and InferencePools select. Workers lack it."""
ENGINE = "modelplane.ai/engine"
"""On pods: the engine of the replica that they run. With REPLICA it tells the pods of two engines apart."""
PICKER = "modelplane.ai/picker"
"""On the pods of a picker, with the name of the replica."""
ROUTER = "modelplane.ai/router"
"""On what belongs to a fleet router, its pods too: the name of its Gateway."""
ROLE = "modelplane.ai/role"
"""On pods: standalone, leader or worker."""
CACHE = "modelplane.ai/cache"
"""On what a ModelCache has on a cluster, the pods of its Job too: the name of the ModelCache."""
TENANT = "modelplane.ai/tenant"
"""On a namespace of a workload cluster: the namespace of the control plane that it belongs to."""

RESERVED_PREFIX = "modelplane.ai/"

DRAIN = "modelplane.ai/drain"
"""Key of the taint that `spec.drain` of a cluster or a pool stands for. Nothing tolerates it."""

RENDERED = "modelplane.ai/rendered"
"""Annotation of a workload: a hash of its spec as it was rendered, to tell whether what is observed is of it."""

ALLOW_INSECURE = "modelplane.ai/allow-insecure"
"""Annotation of a kubeconfig Secret: its API may be plain http, or have a certificate that is not verified."""

AGENT_STATE = "modelplane.ai/agent"
"""Annotation of an InferenceCluster, written by the hub: whether the cluster's agent is connected, and since when."""

STAGED = "modelplane.ai/staged"
"""Annotation of a PersistentVolumeClaim that is complete: what the source was resolved to, or `unknown`."""
RELAY = "modelplane.ai/relay"
"""Label of the pods that serve a cache's volume to other clusters: the ModelCache."""

STAGED_ON = "modelplane.ai/staged-on"
"""Annotation of a claim and of the Job that fills it: the uid of the claim that the artifact was staged on.

A claim that was made anew in its place is empty.
"""

PROGRESS = "modelplane.ai/progress"
"""Annotation of a pod of the loader, as a host shows it to composers: the last line of its log."""

WARM = "modelplane.ai/warm"
"""Annotation of a ModelCache: clusters to stage it on beside those of its spec, separated by commas."""

RETRY = "modelplane.ai/retry"
"""Annotation of a ModelCache: each new value starts failed stagings again at once."""

COPIED_FROM = "modelplane.ai/copied-from"
"""Annotation of a copy on a workload cluster: namespace and name of the original on the control plane."""

CALLERS_FROM = "modelplane.ai/callers-from"
"""Annotation of the Secret of a gateway's callers: the names of the Secrets that their keys are from."""

REPLICA_HEADER = "modelplane-replica"
"""Set by the fleet gateway for the backend it chose; the cluster's gateway routes by it. Clients cannot choose it."""

SYSTEM_NAMESPACE = "modelplane-system"
FLEET_GATEWAY = "modelplane"
CLUSTER_GATEWAY = "inference-gateway"
DEFAULT_GATEWAY = "default"
"""Name of the InferenceGateway that services use."""

ENGINE_CONTAINER = "engine"
WARM_UP_CONTAINER = "warm-up"
CACHE_CHECK_CONTAINER = "cache-check"
ROUTING_SIDECAR_CONTAINER = "routing-sidecar"
ENGINE_PORT = 8000
DECODE_PORT = 8001
"""Where a decode engine listens, behind the routing sidecar that takes the engine's usual port."""
GPU_TAINT = "nvidia.com/gpu"
GPU_TAINTS = {"nvidia.com": GPU_TAINT, "amd.com": "amd.com/gpu"}
"""By the vendor's domain, as the names of DeviceClasses end: gpu.amd.com."""


def selects(selector: "LabelSelector | None", labels: Mapping[str, str]) -> bool:
    """Whether a selector matches. No selector, like an empty one, matches everything."""
    if selector is None:
        return True
    equal = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return equal and all(_meets(requirement, labels) for requirement in selector.match_expressions)


def _meets(requirement: "LabelRequirement", labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _ as unreachable:
            assert_never(unreachable)
