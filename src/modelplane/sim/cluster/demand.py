"""How many devices pods request, by the name under which quotas count them."""

from collections import Counter
from collections.abc import Iterator, Mapping

from modelplane.api.objects import int_at, items_at, mapping_at
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.controller import ClusterStore
from modelplane.sim.cluster.nodes import RESOURCE_GROUP

Demand = Counter[str]


def demand_of(
    spec: Mapping[str, object], namespace: str, store: ClusterStore, resources: Mapping[str, str]
) -> Demand | None:
    """The devices of one pod with that spec; None while a claim that it names is not there.

    Of alternatives the first counts, and `All` counts as one: schedulers that keep quotas count before they choose.
    """
    total: Demand = Counter()
    for entry in items_at(spec, "resourceClaims"):
        claim_spec = _claim_spec(entry, namespace, store)
        if claim_spec is None:
            return None
        for device_request in _device_requests(claim_spec):
            name = str(device_request.get("deviceClassName", ""))
            total[resources.get(name, name)] += int_at(device_request, "count", default=1)
    return total


def _claim_spec(entry: Mapping[str, object], namespace: str, store: ClusterStore) -> Mapping[str, object] | None:
    template = entry.get("resourceClaimTemplateName")
    kind, name = ("ResourceClaimTemplate", template) if template else ("ResourceClaim", entry.get("resourceClaimName"))
    found = store.get(ObjectRef(RESOURCE_GROUP, kind, namespace, str(name)))
    if found is None:
        return None
    return mapping_at(found, "spec", "spec") if template else mapping_at(found, "spec")


def _device_requests(claim: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    for request in items_at(claim, "devices", "requests"):
        exactly = mapping_at(request, "exactly")
        device_request = exactly or next(items_at(request, "firstAvailable"), {})
        if exactly.get("adminAccess") is not True:
            yield device_request
