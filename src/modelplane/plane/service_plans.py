"""The plans of all services, kept up to date from the store for the fleet router.

A change of a ModelService or a ModelEndpoint makes the plans of its namespace anew. They do not wait for composers: an
endpoint that turns NotReady leaves its plan with the write that says so.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from modelplane.api.codec import decode
from modelplane.api.errors import InputError
from modelplane.api.models import ModelService
from modelplane.api.objects import GROUP, Manifest
from modelplane.compose.observed_route import ObservedRoute, read_endpoints
from modelplane.compose.service_plan import ServicePlan, service_plan
from modelplane.reconcile.store import Store, StoreChange

_KINDS: Final = frozenset(("ModelService", "ModelEndpoint"))


class ServicePlans:
    """The plans by namespace; `on_change` is called after a change, once for each."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._plans: dict[str, tuple[ServicePlan, ...]] = {}
        self.on_change: Callable[[], None] = lambda: None
        for namespace in sorted({_namespace(service) for service in store.list(GROUP, "ModelService")}):
            self._plans[namespace] = self._of(namespace)
        store.subscribe(self._changed)

    @property
    def current(self) -> tuple[ServicePlan, ...]:
        return tuple(plan for plans in self._plans.values() for plan in plans)

    def _changed(self, change: StoreChange) -> None:
        if change.ref.group != GROUP or change.ref.kind not in _KINDS:
            return
        namespace = change.ref.namespace
        found = self._of(namespace)
        if found != self._plans.get(namespace, ()):
            self._plans[namespace] = found
            self.on_change()

    def _of(self, namespace: str) -> tuple[ServicePlan, ...]:
        listed = self._store.list(GROUP, "ModelEndpoint", namespace=namespace)
        served = ObservedRoute(backends={name: {} for name in self._serving(namespace)})
        endpoints = read_endpoints(listed, served, {}).found
        return tuple(service_plan(service, endpoints) for service in self._services(namespace))

    def _serving(self, namespace: str) -> Iterator[str]:
        """Those that get requests stay while they do not say whether they are ready."""
        plans = self._plans.get(namespace, ())
        return (endpoint.name for plan in plans for endpoint in plan.endpoints if endpoint.ready)

    def _services(self, namespace: str) -> Iterator[ModelService]:
        for item in self._store.list(GROUP, "ModelService", namespace=namespace):
            try:
                # A status that cannot be read is no reason to stop serving.
                yield decode(ModelService, {**item, "status": {}})
            except InputError:
                continue


def _namespace(item: Manifest) -> str:
    metadata = item.get("metadata")
    return str(metadata.get("namespace", "")) if isinstance(metadata, Mapping) else ""
