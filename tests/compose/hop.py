"""Plays what makes composed objects of the hop real: cert-manager, and the controllers of Gateways."""

import base64

from modelplane.api.objects import value_at
from modelplane.compose.contract import Observed, ReadyWhen, Remote
from modelplane.compose.readiness import is_ready

READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def pem(name):
    return f"-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----"


def request_of(certificate, revision=1, text=None):
    """The CertificateRequest that cert-manager makes for it."""
    name = certificate["metadata"]["name"]
    signed = base64.b64encode((text or pem(f"{name} {revision}")).encode()).decode()
    return {"metadata": {"name": f"{name}-{revision}"}, "status": {"certificate": signed}}


def played(target, *, revision=1, issues=True, address="192.0.2.1"):
    """A target as observed after its controllers saw it."""
    item, kind = target.manifest, target.manifest["kind"]
    status = {}
    if kind in {"Certificate", "Issuer"} and issues:
        status = {**READY, **({"revision": revision} if kind == "Certificate" else {})}
    if kind == "Gateway":
        status = {"addresses": [{"type": "IPAddress", "value": address}]}
    seen = {**item, "status": status}
    made = Remote(target.cluster, seen, target.ready_when) if isinstance(target, Remote) else type(target)(seen)
    return Observed(made, ready=is_ready(seen, getattr(target, "ready_when", ReadyWhen.CREATED)))


def observed(desired, **more):
    return {key: played(each.target, **more) for key, each in desired.items()}


def requests(seen):
    """The CertificateRequests of the observed Certificates."""
    items = [each.manifest for each in seen.values()]
    issued = [item for item in items if item["kind"] == "Certificate" and value_at(item, "status", "revision")]
    return tuple(request_of(item, value_at(item, "status", "revision")) for item in issued)
