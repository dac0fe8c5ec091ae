"""ResourceQuotas of namespaces: whether a pod may be created, in the words of the API server.

Counted are pods, CPU and memory as requests and limits, and extended resources as requests. Devices of claims are not:
they are counted when a claim is created. Scopes are not modelled. Pods that have ended do not count.
"""

from collections.abc import Iterable, Iterator, Mapping

from modelplane.api.objects import Manifest, items_at, mapping_at, name_of, namespace_of
from modelplane.k8s.quantity import Quantity, add, canonical, compare, from_int, is_quantity, parse_quantity
from modelplane.sim.cluster.claims import is_finished
from modelplane.sim.cluster.controller import ClusterStore

_PODS = ("pods", "count/pods")
_COMPUTE = ("cpu", "memory")


def quota_refusal(store: ClusterStore, pod: Manifest) -> str | None:
    """Why the API server refuses to create the pod; None when it does not."""
    quotas = store.list("", "ResourceQuota", namespace=namespace_of(pod))
    if not quotas:
        return None
    held = [found for found in store.list("", "Pod", namespace=namespace_of(pod)) if not is_finished(found)]
    wanted, used = _usage([pod]), _usage(held)
    refusals = (_exceeded(quota, wanted, used) for quota in quotas)
    found = next((refusal for refusal in refusals if refusal is not None), None)
    return None if found is None else f'pods "{_shown_name(pod)}" is forbidden: {found}'


def _shown_name(pod: Manifest) -> str:
    return name_of(pod) or str(mapping_at(pod, "metadata").get("generateName", ""))


def _exceeded(quota: Manifest, wanted: Mapping[str, Quantity], used: Mapping[str, Quantity]) -> str | None:
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


def _amounts(amounts: Mapping[str, Quantity]) -> str:
    return ",".join(f"{name}={canonical(amount)}" for name, amount in amounts.items())


def _usage(pods: Iterable[Manifest]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for pod in pods:
        for name, amount in _counted(pod):
            total[name] = add(total[name], amount) if name in total else amount
    return total


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
