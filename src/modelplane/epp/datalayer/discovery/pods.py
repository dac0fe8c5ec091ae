"""The fields of a pod that the picker reads, and the pod's endpoints.

A pod takes requests while it is Ready, has an address and is not on its way out. Each of the pool's ports is an
endpoint of its own, unless the pod's annotation names the ports that it has open.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from modelplane.epp.datalayer.discovery.datastore import DiscoveredEndpoint, address_of
from modelplane.kube.client import Raw
from modelplane.kube.kinds import GroupVersionResource

PODS = GroupVersionResource("", "v1", "pods")
ACTIVE_PORTS = "llm-d.ai/active-ports"
_PORT = re.compile(r"[0-9]{1,5}")
LEGACY_ACTIVE_PORTS = "inference.networking.k8s.io/active-ports"


class ServingPod(msgspec.Struct, frozen=True):
    """A pod that takes requests."""

    namespace: str
    name: str
    uid: str
    address: str
    labels: Mapping[str, str]
    active_ports: str | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = "default"
    uid: str = ""
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    deletion_timestamp: str | None = None


class _Status(msgspec.Struct, frozen=True):
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: tuple[_Condition, ...] | None = ()


class _Raw(msgspec.Struct, frozen=True):
    metadata: _Meta
    status: _Status = _Status()


def pod_of(raw: Raw) -> ServingPod | None:
    """None: it takes no requests."""
    pod = msgspec.convert(raw, _Raw)
    meta = pod.metadata
    ready = any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions or ())
    if not ready or not pod.status.pod_ip or meta.deletion_timestamp is not None:
        return None
    annotations = meta.annotations or {}
    active = annotations.get(ACTIVE_PORTS, annotations.get(LEGACY_ACTIVE_PORTS))
    return ServingPod(meta.namespace, meta.name, meta.uid, pod.status.pod_ip, dict(meta.labels or {}), active)


def endpoints_of(pods: Iterable[ServingPod], ports: Sequence[int]) -> Iterator[DiscoveredEndpoint]:
    several = len(ports) > 1
    for pod in pods:
        for port in ports:
            if pod.active_ports is None or port in active_ports(pod.active_ports):
                name = f"{pod.namespace}/{pod.name}"
                shown = f"{name}:{port}" if several else name
                yield DiscoveredEndpoint(shown, address_of(pod.address, port), pod.uid, pod.labels)


def active_ports(written: str) -> frozenset[int]:
    """The ports of a comma-separated list; invalid ports are skipped."""
    parts = (part.strip() for part in written.split(","))
    return frozenset(int(part) for part in parts if _PORT.fullmatch(part))
