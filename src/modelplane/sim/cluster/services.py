"""EndpointSlices: which pods a Service leads to, and which of them take requests.

As the real controller: a pod that is ready is an endpoint that is ready; one that is being deleted is terminating and
no longer ready, but may still serve. Pods whose named ports resolve differently are listed in different slices.
Addresses are those of the pods, inside the simulated network; where they really answer is on the pod (`LISTENS_ON`).
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from modelplane.api.objects import (
    Json,
    Manifest,
    int_at,
    is_deleting,
    items_at,
    labels_of,
    manifest,
    mapping_at,
    name_of,
    namespace_of,
    text_at,
    uid_of,
    value_at,
)
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.claims import is_finished
from modelplane.sim.cluster.controller import ControllerContext, changed, is_about, versions
from modelplane.sim.cluster.node_lifecycle import node_of
from modelplane.sim.cluster.objects import condition_is, controller_reference

DISCOVERY = "discovery.k8s.io"
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
_SLICE_MOST = 100

Ports = tuple[tuple[str, int, str], ...]
"""Name, number and protocol of each port, resolved for a pod."""


class Services:
    """Keeps the EndpointSlices of one Service."""

    name = "services"
    kinds = frozenset({("", "Service"), (DISCOVERY, "EndpointSlice"), ("", "Pod")})

    def __init__(self, context: ControllerContext) -> None:
        self._store = context.store

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if is_about(change, "", "Service"):
            return (change.ref,)
        if is_about(change, DISCOVERY, "EndpointSlice"):
            owner = labels_of(change.manifest).get(SERVICE_NAME)
            return (ObjectRef("", "Service", change.ref.namespace, owner),) if owner else ()
        if is_about(change, "", "Pod") and changed(change, _facts):
            return self._selecting(change)
        return ()

    def _selecting(self, change: StoreChange) -> list[ObjectRef]:
        services = self._store.list("", "Service", namespace=change.ref.namespace)
        return [ref_of(item) for item in services if any(selects(item, pod) for pod in versions(change))]

    def reconcile(self, ref: ObjectRef) -> Outcome:
        service = self._store.get(ref)
        if service is None or not mapping_at(service, "spec", "selector"):
            return Done()
        wanted = {name_of(item): item for item in _slices(service, self._pods(service))}
        known = self._store.list(
            DISCOVERY, "EndpointSlice", namespace=ref.namespace, labels={SERVICE_NAME: ref.name, MANAGED_BY: MANAGER}
        )
        for item in known:
            if name_of(item) not in wanted:
                self._store.delete(ref_of(item))
        names = {name_of(item) for item in known}
        for name, item in wanted.items():
            if name in names:
                self._store.replace(item)
            else:
                self._store.create(item)
        return Done()

    def _pods(self, service: Manifest) -> list[Manifest]:
        labels = {key: str(value) for key, value in mapping_at(service, "spec", "selector").items()}
        pods = self._store.list("", "Pod", namespace=namespace_of(service), labels=labels)
        return [pod for pod in pods if text_at(pod, "status", "podIP") and not is_finished(pod)]


def selects(service: Manifest, pod: Manifest) -> bool:
    selector = mapping_at(service, "spec", "selector")
    return bool(selector) and selector.items() <= labels_of(pod).items()


def is_serving(pod: Manifest) -> bool:
    """Whether requests may be sent to the pod."""
    return condition_is(pod, "Ready") and not is_deleting(pod)


def resolved_port(port: Mapping[str, object], pod: Manifest) -> int | None:
    """The number behind a service port for one pod, or None when the pod has no port of that name."""
    target = port.get("targetPort", port.get("port"))
    if isinstance(target, int):
        return target
    return next((int_at(entry, "containerPort") for entry in ports_of(pod) if entry.get("name") == target), None)


def ports_of(pod: Manifest) -> Iterator[Mapping[str, object]]:
    """The ports that the containers of a pod declare, sidecars included."""
    for container in (*items_at(pod, "spec", "containers"), *items_at(pod, "spec", "initContainers")):
        yield from items_at(container, "ports")


def _facts(pod: Manifest) -> object:
    """What endpoints depend on."""
    status = text_at(pod, "status", "podIP"), condition_is(pod, "Ready"), is_finished(pod)
    return labels_of(pod), status, is_deleting(pod), node_of(pod)


def _slices(service: Manifest, pods: Sequence[Manifest]) -> Iterator[Json]:
    def key(pod: Manifest) -> Ports:
        return _ports(service, pod)

    for ports, group in groupby(sorted(pods, key=lambda pod: (key(pod), name_of(pod))), key=key):
        members = list(group)
        for start in range(0, len(members), _SLICE_MOST):
            yield _slice(service, ports, members[start : start + _SLICE_MOST], start // _SLICE_MOST)


def _ports(service: Manifest, pod: Manifest) -> Ports:
    found = ((port, resolved_port(port, pod)) for port in items_at(service, "spec", "ports"))
    return tuple(
        (str(port.get("name", "")), number, str(port.get("protocol", "TCP"))) for port, number in found if number
    )


def _slice(service: Manifest, ports: Ports, pods: Sequence[Manifest], part: int) -> Json:
    digest = hashlib.blake2b(repr((ports, part)).encode(), digest_size=3).hexdigest()[:5]
    item = manifest(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        f"{name_of(service)}-{digest}",
        namespace=namespace_of(service),
        labels={SERVICE_NAME: name_of(service), MANAGED_BY: MANAGER},
        addressType="IPv4",
        ports=[{"name": name, "port": number, "protocol": protocol} for name, number, protocol in ports],
        endpoints=[_endpoint(pod) for pod in pods],
    )
    return {**item, "metadata": {**mapping_at(item, "metadata"), "ownerReferences": [controller_reference(service)]}}


def _endpoint(pod: Manifest) -> Json:
    target = {"kind": "Pod", "namespace": namespace_of(pod), "name": name_of(pod), "uid": uid_of(pod)}
    return {
        "addresses": [value_at(pod, "status", "podIP")],
        "conditions": {
            "ready": is_serving(pod),
            "serving": condition_is(pod, "Ready"),
            "terminating": is_deleting(pod),
        },
        "nodeName": node_of(pod),
        "targetRef": target,
    }
