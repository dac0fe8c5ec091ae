"""The plans of all services, kept up to date from the store for the fleet router.

A change of a ModelService or a ModelEndpoint makes the plans of its namespace anew, when they are next asked for. They
do not wait for composers: an endpoint that turns NotReady leaves its plan with the write that says so.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from modelplane.api.identity import IdentityMemo
from modelplane.api.objects import GROUP, Manifest, items_at, value_at
from modelplane.compose.namespace_plans import namespace_plans
from modelplane.compose.observed_route import decode_endpoint
from modelplane.compose.service_plan import ServicePlan
from modelplane.reconcile.store import Store, StoreChange
from modelplane.sim.cluster.controller import changed

_MOST_DECODED: Final = 100_000
_KINDS: Final = frozenset(("ModelService", "ModelEndpoint"))


class ServicePlans:
    """The plans by namespace; `on_change` is called after a change, once for each."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._decode = IdentityMemo(decode_endpoint, _MOST_DECODED)
        self._plans: dict[str, tuple[ServicePlan, ...]] = {}
        self._stale = {_namespace(service) for service in store.list(GROUP, "ModelService")}
        self.on_change: Callable[[], None] = lambda: None
        store.subscribe(self._changed)

    @property
    def current(self) -> tuple[ServicePlan, ...]:
        """Namespaces that changed since the last time are planned anew, each once."""
        stale, self._stale = self._stale, set()
        for namespace in sorted(stale):
            self._plans[namespace] = self._of(namespace)
        return tuple(plan for namespace in sorted(self._plans) for plan in self._plans[namespace])

    def _changed(self, change: StoreChange) -> None:
        if change.ref.group == GROUP and change.ref.kind in _KINDS and changed(change, _facts):
            self._stale.add(change.ref.namespace)
            self.on_change()

    def _of(self, namespace: str) -> tuple[ServicePlan, ...]:
        services = self._store.list(GROUP, "ModelService", namespace=namespace)
        endpoints = self._store.list(GROUP, "ModelEndpoint", namespace=namespace)
        return namespace_plans(services, endpoints, self._serving(namespace), self._decode)

    def _serving(self, namespace: str) -> Iterator[str]:
        """Those that get requests stay while they do not say whether they are ready."""
        plans = self._plans.get(namespace, ())
        return (endpoint.name for plan in plans for endpoint in plan.endpoints if endpoint.ready)


def _facts(item: Manifest) -> object:
    """What a plan is made from."""
    conditions = [(each.get("type"), each.get("status"), each.get("reason")) for each in _conditions(item)]
    observed = [value_at(item, "status", name) for name in ("models", "origin", "addresses")]
    of_status = (conditions, observed) if item["kind"] == "ModelEndpoint" else ()
    return value_at(item, "metadata", "labels"), item.get("spec"), of_status


def _conditions(item: Manifest) -> list[Manifest]:
    return list(items_at(item, "status", "conditions"))


def _namespace(item: Manifest) -> str:
    metadata = item.get("metadata")
    return str(metadata.get("namespace", "")) if isinstance(metadata, Mapping) else ""
