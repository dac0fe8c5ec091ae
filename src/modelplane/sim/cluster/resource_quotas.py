"""ResourceQuotas of namespaces: whether a pod or a claim may be created, in the words of the API server.

Of pods their number is counted, CPU and memory as requests and limits, and extended resources as requests; pods that
have ended do not count. Of claims the devices of each DeviceClass. Scopes are not modelled.
"""

from collections.abc import Iterable, Iterator, Mapping

from modelplane.api.objects import Manifest, int_at, items_at, mapping_at, name_of, namespace_of, text_at
from modelplane.k8s.quantity import Quantity, add, canonical, compare, from_int, is_quantity, parse_quantity
from modelplane.sim.cluster.controller import ClusterStore

_Amounts = Mapping[str, Quantity]
_RESOURCE_GROUP = "resource.k8s.io"
_PODS = ("pods", "count/pods")
_COMPUTE = ("cpu", "memory")
_ENDED = frozenset({"Succeeded", "Failed"})
_DEVICES = ".deviceclass.resource.k8s.io/devices"


def quota_refusal(store: ClusterStore, pod: Manifest) -> str | None:
    """Why the API server refuses to create the pod; None when it does not."""
    quotas = store.list("", "ResourceQuota", namespace=namespace_of(pod))
    if not quotas:
        return None
    pods = store.list("", "Pod", namespace=namespace_of(pod))
    held = [found for found in pods if text_at(found, "status", "phase") not in _ENDED]
    used = _total(amount for each in held for amount in _counted(each))
    found = _first_exceeded(quotas, _total(_counted(pod)), used)
    return None if found is None else f'pods "{_shown_name(pod)}" is forbidden: {found}'


def claim_quota_refusal(store: ClusterStore, claim: Manifest) -> str | None:
    """The same for a ResourceClaim."""
    quotas = store.list("", "ResourceQuota", namespace=namespace_of(claim))
    if not quotas:
        return None
    held = store.list(_RESOURCE_GROUP, "ResourceClaim", namespace=namespace_of(claim))
    found = _first_exceeded(
        quotas, _total(_devices(claim)), _total(amount for each in held for amount in _devices(each))
    )
    return None if found is None else f'resourceclaims.resource.k8s.io "{_shown_name(claim)}" is forbidden: {found}'


def _first_exceeded(quotas: Iterable[Manifest], wanted: _Amounts, used: _Amounts) -> str | None:
    refusals = (_exceeded(quota, wanted, used) for quota in quotas)
    return next((refusal for refusal in refusals if refusal is not None), None)


def _shown_name(item: Manifest) -> str:
    return name_of(item) or str(mapping_at(item, "metadata").get("generateName", ""))


def _exceeded(quota: Manifest, wanted: _Amounts, used: _Amounts) -> str | None:
    limits = {
        resource: parse_quantity(str(amount))
        for resource, amount in sorted(mapping_at(quota, "spec", "hard").items())
        if is_quantity(str(amount))
    }
    zero = from_int(0)
    over = [
        resource
        for resource, most in limits.items()
        if resource in wanted and compare(add(used.get(resource, zero), wanted[resource]), most) > 0
    ]
    if not over:
        return None
    parts = (
        ("requested", {name: wanted[name] for name in over}),
        ("used", {name: used.get(name, zero) for name in over}),
        ("limited", {name: limits[name] for name in over}),
    )
    return f"exceeded quota: {name_of(quota)}, " + ", ".join(f"{word}: {_amounts(each)}" for word, each in parts)


def _amounts(amounts: _Amounts) -> str:
    return ",".join(f"{name}={canonical(amount)}" for name, amount in amounts.items())


def _total(amounts: Iterable[tuple[str, Quantity]]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for name, amount in amounts:
        total[name] = add(total[name], amount) if name in total else amount
    return total


def _devices(claim: Manifest) -> Iterator[tuple[str, Quantity]]:
    for request in items_at(claim, "spec", "devices", "requests"):
        device_request = mapping_at(request, "exactly") or next(items_at(request, "firstAvailable"), {})
        yield f"{device_request.get('deviceClassName')}{_DEVICES}", from_int(int_at(device_request, "count", default=1))


def _counted(pod: Manifest) -> Iterator[tuple[str, Quantity]]:
    for name in _PODS:
        yield name, from_int(1)
    for container in items_at(pod, "spec", "containers"):
        limits = mapping_at(container, "resources", "limits")
        requests = {**limits, **mapping_at(container, "resources", "requests")}
        for kind, amounts in (("requests", requests), ("limits", limits)):
            for resource, amount in amounts.items():
                if is_quantity(str(amount)):
                    yield from _names(kind, resource, parse_quantity(str(amount)))


def _names(kind: str, resource: str, amount: Quantity) -> Iterator[tuple[str, Quantity]]:
    yield f"{kind}.{resource}", amount
    if kind == "requests" and resource in _COMPUTE:
        yield resource, amount
