"""ModelEndpoint: the gateway's view of something that answers requests.

A Backend with its address, checked against the system's certificates where it is https. Credentials are added by a
filter that the routes of services name; the gateway wants the whole value of the header under a key of its own, so it
gets a Secret beside the user's.
"""

import base64
from collections.abc import Mapping

from modelplane.api.conditions import Condition, ConditionType, fails, holds, summarise, unknown
from modelplane.api.models import ModelEndpoint, ModelEndpointStatus, Routing
from modelplane.api.names import make_name
from modelplane.api.objects import Manifest, manifest, value_at
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ComposeRequest, ComposeResult, Desired, Local, Requirement, keep_observed
from modelplane.compose.external import ExternalAddress, target_of

_BACKEND, _CREDENTIAL, _FILTER = "backend", "credential", "filter"
_SECRET = "secret"  # noqa: S105  the name of a requirement
_GATEWAY_API = "gateway.envoyproxy.io/v1alpha1"


def compose(request: ComposeRequest[ModelEndpoint]) -> ComposeResult:
    endpoint = request.resource
    target = target_of(endpoint.spec.url)
    if target is None:
        message = f"spec.url: {endpoint.spec.url!r} is not an http or https URL of a permitted host"
        return _undecided(request, fails(ConditionType.ROUTE_READY, Reason.INVALID, message))
    credentials = _credentials(request)
    if isinstance(credentials, Condition):
        return _undecided(request, credentials)
    objects = {_BACKEND: _backend(endpoint, target), **credentials}
    desired = {key: Desired(Local(item), _is_ready(request, key)) for key, item in objects.items()}
    ready = all(each.ready for each in desired.values())
    condition = (
        holds(ConditionType.ROUTE_READY, Reason.ROUTE_CONFIGURED)
        if ready
        else fails(ConditionType.ROUTE_READY, Reason.ROUTE_PENDING, "the Backend is not observed yet")
    )
    return ComposeResult(
        desired=desired,
        status=ModelEndpointStatus(routing=Routing(backend_name=endpoint.metadata.name) if ready else None),
        conditions=(condition,),
        ready=summarise([condition]),
        requirements=_requirements(endpoint),
    )


def _is_ready(request: ComposeRequest[ModelEndpoint], key: str) -> bool:
    seen = request.observed.get(key)
    return seen is not None and seen.ready


def _requirements(endpoint: ModelEndpoint) -> dict[str, Requirement]:
    auth = endpoint.spec.auth
    if auth is None:
        return {}
    return {_SECRET: Requirement("v1", "Secret", name=auth.secret_ref.name, namespace=endpoint.metadata.namespace)}


def _backend(endpoint: ModelEndpoint, target: ExternalAddress) -> Manifest:
    spec: dict[str, object] = {"type": "Endpoints", "endpoints": [target.address()]}
    if target.secure:
        named = {"sni": target.host} if target.by_name else {}
        spec["tls"] = {"wellKnownCACertificates": "System", **named}
    return manifest(_GATEWAY_API, "Backend", endpoint.metadata.name, namespace=endpoint.metadata.namespace, spec=spec)


def _credentials(request: ComposeRequest[ModelEndpoint]) -> dict[str, Manifest] | Condition:
    """The Secret and the filter that adds it to requests; or why there is none."""
    endpoint, kind = request.resource, ConditionType.ROUTE_READY
    auth = endpoint.spec.auth
    if auth is None:
        return {}
    found = request.fetched(_SECRET)
    if found is None:
        return unknown(kind, Reason.UNRESOLVED, "spec.auth.secretRef: the Secret is not read yet")
    key = _key(found[0], auth.secret_ref.key) if found else None
    if key is None:
        message = (
            f"spec.auth.secretRef: no Secret {auth.secret_ref.name} with one line of text in key {auth.secret_ref.key}"
        )
        return fails(kind, Reason.INVALID, message)
    name = make_name(endpoint.metadata.name, endpoint.metadata.name, _CREDENTIAL)
    value = f"Bearer {key}" if auth.scheme == "Bearer" else key
    secret = manifest("v1", "Secret", name, namespace=endpoint.metadata.namespace)
    data = {"credential": base64.b64encode(value.encode()).decode()}
    injection = {"header": auth.header, "overwrite": True, "credential": {"valueRef": {"name": name}}}
    added = manifest(
        _GATEWAY_API,
        "HTTPRouteFilter",
        endpoint.metadata.name,
        namespace=endpoint.metadata.namespace,
        spec={"credentialInjection": injection},
    )
    return {_CREDENTIAL: {**secret, "type": "Opaque", "data": data}, _FILTER: added}


def _key(secret: Mapping[str, object], name: str) -> str | None:
    """A text of one line: nothing else can be a header."""
    try:
        text = base64.b64decode(str(value_at(secret, "data", name) or ""), validate=True).decode().strip()
    except ValueError:  # neither base64 nor UTF-8
        return None
    return text if text and text.isprintable() and text.isascii() else None


def _undecided(request: ComposeRequest[ModelEndpoint], problem: Condition) -> ComposeResult:
    requirements = _requirements(request.resource)
    return ComposeResult(
        desired=keep_observed(request), conditions=(problem,), ready=summarise([problem]), requirements=requirements
    )
