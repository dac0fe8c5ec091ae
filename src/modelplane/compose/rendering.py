"""What a replica is on its cluster: every object, or why the cluster cannot run it.

Placement and the ModelReplica composer ask the same function, so a replica is not placed where it would be refused.
"""

from modelplane.api.reasons import Reason
from modelplane.compose.backends import BACKENDS
from modelplane.compose.backends.rendered import Rendered
from modelplane.compose.claims import claim_templates
from modelplane.compose.compute_domains import compute_domains
from modelplane.compose.context import ClusterRenderError, Context, RenderError
from modelplane.compose.contract import Desired
from modelplane.compose.gang import domain_fault, scheduling_fault
from modelplane.compose.gang.gang_metadata import gang_of
from modelplane.compose.phase_agreement import phase_fault
from modelplane.compose.pod_defaults import priority_fault
from modelplane.compose.refusal import stack_refusal
from modelplane.compose.routes import http_route
from modelplane.compose.tenancy import network_policy, tenant_namespace
from modelplane.compose.workload_status import stamped

NAMESPACE, ROUTE = "namespace", "route"


def render(context: Context) -> tuple[dict[str, Desired], Rendered]:
    """Every object of a replica, in the order in which they are needed. A RenderError says why there are none."""
    _check(context)
    rendered = BACKENDS[context.cluster.spec.backend.type_](context)
    route = (ROUTE,)
    workloads = tuple(rendered.workloads)
    policy = network_policy(context, rendered.ports, rendered.pods)
    namespace = tenant_namespace(context.cluster, context.replica.metadata.namespace)
    desired = {NAMESPACE: Desired(namespace), "policy": Desired(policy, outlives=workloads)}
    desired |= {key: Desired(target, outlives=workloads) for key, target in rendered.support.items()}
    desired |= {key: Desired(target, outlives=workloads) for key, target in claim_templates(context).items()}
    desired |= {key: Desired(target, outlives=workloads) for key, target in compute_domains(context).items()}
    desired |= {key: Desired(stamped(target), outlives=route) for key, target in rendered.workloads.items()}
    desired |= {key: Desired(target, outlives=route) for key, target in rendered.targets.items()}
    desired[ROUTE] = Desired(http_route(context, rendered.backend_refs))
    return desired, rendered


def can_render(context: Context) -> str | None:
    """Why a cluster cannot run a replica; None where it can."""
    try:
        render(context)
    except RenderError as error:
        return str(error)
    return None


def _check(context: Context) -> None:
    refused = stack_refusal(context.cluster)
    if refused is not None:
        raise ClusterRenderError(Reason.NOT_SUPPORTED, refused)
    if context.scheduling.type_ == "Auto":
        message = "spec.scheduling.type: it is not known yet which scheduler Auto stands for"
        raise ClusterRenderError(Reason.UNRESOLVED, message)
    if (fault := phase_fault(context)) is not None:
        raise RenderError(Reason.INVALID, fault)
    if gang_of(context).domains and (fault := domain_fault(context.cluster)) is not None:
        raise ClusterRenderError(Reason.NOT_SUPPORTED, fault)
    fault = scheduling_fault(context.scheduling) or priority_fault(context.scheduling, context.priority)
    if fault is not None:
        raise ClusterRenderError(Reason.INVALID, fault)
