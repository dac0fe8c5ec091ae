"""What the objects of a service are called at a gateway.

Beside the control plane they have the service's own name, in its namespace, and lead to the Backends that their
ModelEndpoints compose. On the cluster of a gateway they are in the tenant's namespace there. Names are then made from
the service and the gateway, so that two services that select one endpoint, and two gateways on one cluster, have
objects of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from modelplane.api.names import make_name
from modelplane.compose.context import remote_namespace
from modelplane.compose.service_plan import PlanEndpoint, ServicePlan


@dataclass(frozen=True, slots=True)
class ObjectNames:
    namespace: str
    service: str
    """Of the route and its policy, and how the names of others begin."""
    backends: Mapping[str, str] = field(default_factory=dict)
    """By endpoint, where a Backend does not have the endpoint's name."""

    def backend(self, endpoint: PlanEndpoint) -> str:
        return self.backends.get(endpoint.name, endpoint.name)


def local_names(plan: ServicePlan) -> ObjectNames:
    return ObjectNames(plan.namespace, plan.name)


def names_at(plan: ServicePlan, gateway: str) -> ObjectNames:
    """On the cluster of the InferenceGateway of that name."""
    backends = {each.name: backend_name(plan, gateway, each.name) for each in plan.endpoints}
    return ObjectNames(
        remote_namespace(plan.namespace), make_name(f"{plan.name}-{gateway}", plan.name, gateway), backends
    )


def backend_name(plan: ServicePlan, gateway: str, endpoint: str) -> str:
    return make_name(f"{plan.name}-{endpoint}", plan.name, gateway, endpoint)
