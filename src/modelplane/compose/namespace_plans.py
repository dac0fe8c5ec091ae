"""The plans of all services of a namespace, from what a store or Crossplane shows of it.

An endpoint that gets requests stays while it does not say whether it is ready: `serving` has the names of those.
"""

from collections.abc import Callable, Iterable, Iterator

from modelplane.api.codec import decode
from modelplane.api.errors import InputError
from modelplane.api.models import ModelEndpoint, ModelService
from modelplane.api.objects import Manifest
from modelplane.compose.observed_route import ObservedRoute, decode_endpoint, read_endpoints
from modelplane.compose.service_plan import ServicePlan, service_plan


def namespace_plans(
    services: Iterable[Manifest],
    endpoints: Iterable[Manifest],
    serving: Iterable[str] = (),
    decode_item: Callable[[Manifest], ModelEndpoint | None] = decode_endpoint,
) -> tuple[ServicePlan, ...]:
    """Of one namespace. A service that cannot be read has none."""
    served = ObservedRoute(backends={name: {} for name in serving})
    found = read_endpoints(endpoints, served, {}, decode_item).found
    return tuple(service_plan(service, found) for service in _readable(services))


def _readable(services: Iterable[Manifest]) -> Iterator[ModelService]:
    for item in services:
        try:
            # A status that cannot be read is no reason to stop serving.
            yield decode(ModelService, {**item, "status": {}})
        except InputError:
            continue
