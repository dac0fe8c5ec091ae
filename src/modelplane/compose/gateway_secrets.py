"""Secrets that a gateway names: its certificates and its callers' keys, and their copies where it runs on a cluster.

A gateway names Secrets beside it: certificates as users made them, and the Secret of its callers, which only we write
(`caller_keys`). One on a cluster gets copies of these, and of no other; the host copies the values (`CopiedFrom`).
Envoy Gateway serves nobody by a policy that names a Secret which is not there, so a Secret is named once it is there
and filled, and stays until it is not named any more.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from modelplane.api.labels import COPIED_FROM, SYSTEM_NAMESPACE
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceGateway
from modelplane.api.names import make_name
from modelplane.api.objects import Json, Manifest, items_at, manifest, mapping_at, text_at
from modelplane.compose.caller_keys import KEYS, is_named, keys_name, may_name
from modelplane.compose.callers import CallerSecrets
from modelplane.compose.contract import ComposeRequest, CopiedFrom, Desired, Remote, Requirement, keep
from modelplane.compose.fleet_gateways import certificate_refs, gateway_object_name, runs_on

GATEWAY: Final = "gateway"
"""The key of the Gateway."""
_CERTIFICATE, _KEYS = "certificate-", "keys-"
"""How the keys of copies begin; the name of the original follows."""
_TLS: Final = {"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}
"""Kubernetes takes no Secret of this type without its keys, and Envoy Gateway no certificate of another type."""


def certificate_requirements(request: ComposeRequest[InferenceGateway]) -> dict[str, Requirement]:
    """Those that are copied. A gateway beside them reads them itself."""
    return {
        _CERTIFICATE + name: Requirement("v1", "Secret", name=name, namespace=SYSTEM_NAMESPACE)
        for name in (_certificates(request) if _site(request) is not None else ())
    }


def certificate_names(request: ComposeRequest[InferenceGateway]) -> list[str]:
    """As the Gateway names them: a listener must name one, filled or not."""
    wanted = _certificates(request)
    if _site(request) is None:
        return wanted
    return _usable(request, _CERTIFICATE, wanted) or [copy_name(request.resource, name) for name in wanted]


def credential_names(request: ComposeRequest[InferenceGateway]) -> list[str]:
    """The Secret with callers' keys, as the policy names it; none until it is there."""
    name = keys_name(request.resource)
    if _site(request) is not None:
        return _usable(request, _KEYS, [name])
    return [name] if KEYS in request.observed or is_named(request, name) else []


def missing_certificate(request: ComposeRequest[InferenceGateway]) -> str | None:
    """What is known not to be there to copy."""
    for name in _certificates(request) if _site(request) is not None else ():
        found = request.fetched(_CERTIFICATE + name)
        if found is not None and not (found and {"tls.crt", "tls.key"} <= mapping_at(found[0], "data").keys()):
            return f"spec.tls: no Secret {name} in {SYSTEM_NAMESPACE} with the keys tls.crt and tls.key"
    return None


def secret_copies(request: ComposeRequest[InferenceGateway], callers: CallerSecrets | None) -> dict[str, Desired]:
    """The copies by key. One whose original is not read, or is gone, stays as it is."""
    cluster = _site(request)
    if cluster is None:
        return {}
    wanted = {_CERTIFICATE + name: request.fetched(_CERTIFICATE + name) for name in _certificates(request)}
    if request.resource.spec.auth is not None and (callers is None or callers.callers):
        wanted[_KEYS + keys_name(request.resource)] = _checked_keys(request)
    made = {
        key: Desired(_copy(request.resource, cluster, key, found[0]), _is_filled(request, key))
        for key, found in wanted.items()
        if found
    }
    kept = {key: keep(seen) for key, seen in request.observed.items() if key in wanted or _may_be_named(request, key)}
    return {**kept, **made}


def _checked_keys(request: ComposeRequest[InferenceGateway]) -> tuple[Manifest, ...] | None:
    """The Secret of the callers, once it has keys: without any there is no field to copy."""
    seen = request.observed.get(KEYS)
    return (seen.manifest,) if seen is not None and mapping_at(seen.manifest, "data") else None


def copy_name(gateway: InferenceGateway, secret: str) -> str:
    """Not the original's: another Secret of that name may be on the cluster."""
    return make_name(f"{gateway_object_name(gateway)}-{secret}", gateway_object_name(gateway), secret)


def _site(request: ComposeRequest[InferenceGateway]) -> ClusterName | None:
    return runs_on(request.resource, embedded=request.embedded)


def _certificates(request: ComposeRequest[InferenceGateway]) -> list[str]:
    tls = request.resource.spec.tls
    return [each.name for each in certificate_refs(tls)] if tls is not None else []


def _copy(gateway: InferenceGateway, cluster: ClusterName, key: str, original: Manifest) -> Remote:
    body: Mapping[str, object] = _TLS if key.startswith(_CERTIFICATE) else {"type": "Opaque"}
    name = key.partition("-")[2]
    named: Json = manifest("v1", "Secret", copy_name(gateway, name), namespace=SYSTEM_NAMESPACE)
    annotations = {COPIED_FROM: f"{SYSTEM_NAMESPACE}/{name}"}
    made = {**named, "metadata": {**mapping_at(named, "metadata"), "annotations": annotations}, **body}
    version = text_at(original, "metadata", "resourceVersion")
    source = CopiedFrom("v1", "Secret", name, SYSTEM_NAMESPACE, version=version)
    return Remote(cluster, made, copied_from=source)


def _usable(request: ComposeRequest[InferenceGateway], prefix: str, secrets: Iterable[str]) -> list[str]:
    """Copies that are filled, and those that are named already: a cluster that does not answer loses no key."""
    return [
        copy_name(request.resource, name)
        for name in secrets
        if _is_filled(request, prefix + name) or _is_named(request, prefix + name)
    ]


def _is_filled(request: ComposeRequest[InferenceGateway], key: str) -> bool:
    seen = request.observed.get(key)
    return seen is not None and seen.ready


def _may_be_named(request: ComposeRequest[InferenceGateway], key: str) -> bool:
    """Whether the observed Gateway or policy names the copy, or cannot be read."""
    if key.startswith(_KEYS):
        return may_name(request, _copy_of(request, key))
    if not key.startswith(_CERTIFICATE):
        return False
    is_unread = GATEWAY in request.observed and not mapping_at(_gateway(request), "spec")
    return is_unread or _is_named(request, key)


def _is_named(request: ComposeRequest[InferenceGateway], key: str) -> bool:
    """Whether the observed Gateway or policy names the copy."""
    if key.startswith(_KEYS):
        return is_named(request, _copy_of(request, key))
    listeners = items_at(_gateway(request), "spec", "listeners")
    references = [each for listener in listeners for each in items_at(listener, "tls", "certificateRefs")]
    return any(text_at(each, "name") == _copy_of(request, key) for each in references)


def _copy_of(request: ComposeRequest[InferenceGateway], key: str) -> str:
    return copy_name(request.resource, key.partition("-")[2])


def _gateway(request: ComposeRequest[InferenceGateway]) -> Manifest:
    seen = request.observed.get(GATEWAY)
    return seen.manifest if seen is not None else {}
