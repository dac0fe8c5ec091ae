"""ModelEndpoint: the gateway's view of something that answers requests.

What a user names is checked by the outbound rule of InferenceGateway default, its resolved addresses included. The
endpoint of a replica is not: its cluster's gateway may be in a private network. The ModelReplica's own status must then
have that address, since anybody may write `spec.replica`.

A Backend with its address, checked against the system's certificates where it is https. A replica whose cluster lets
in fleet gateways only is checked against the CA of its cluster's gateway, in a ConfigMap beside the Backend.
Credentials are added by a filter that the routes of services name; the gateway wants the whole value of the header
under a key of its own, so it gets a Secret beside the user's.
"""

import base64
from collections.abc import Mapping

from modelplane.api.codec import decode
from modelplane.api.conditions import Condition, ConditionType, fails, holds, summarise, unknown
from modelplane.api.errors import InvalidObject
from modelplane.api.labels import DEFAULT_GATEWAY
from modelplane.api.models import InferenceGateway, ModelEndpoint, ModelEndpointStatus, Routing
from modelplane.api.names import make_name
from modelplane.api.objects import API_VERSION, Manifest, manifest, text_at, value_at
from modelplane.api.outbound import OutboundRule
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ComposeRequest, ComposeResult, Desired, Local, Requirement, keep, keep_observed
from modelplane.compose.endpoint_target import (
    EndpointTarget,
    address_of,
    credential_of,
    endpoint_target,
    field_of_address,
)
from modelplane.compose.external import ExternalAddress
from modelplane.compose.hop_certificates import hop_hostname
from modelplane.compose.provider_models import ListRequest, ModelsFact, models_fact

_BACKEND, _CREDENTIAL, _FILTER, _AUTHORITY = "backend", "credential", "filter", "authority"
_SECRET = "secret"  # noqa: S105  the name of a requirement
_GATEWAY, _REPLICA, _CLUSTER = "gateway", "replica", "cluster"
_RESOLVING_S = 1.0
_VOUCHING_S = 2.0
_RECHECK_S = 60.0
"""How often the addresses of a name are checked again."""
_GATEWAY_API = "gateway.envoyproxy.io/v1alpha1"


def compose(request: ComposeRequest[ModelEndpoint]) -> ComposeResult:
    endpoint = request.resource
    found = endpoint_target(endpoint)
    if found is None:
        message = f"{field_of_address(endpoint)}: {address_of(endpoint)!r} is not an http or https URL"
        return _undecided(request, fails(ConditionType.ROUTE_READY, Reason.INVALID, message))
    target = found.address
    problem = _not_vouched(request) if endpoint.spec.replica is not None else _refused(request, target)
    if problem is not None and not (_is_unchanged(request, target) and _may_stay(problem)):
        return _undecided(request, problem)
    header = _header_value(request)
    if isinstance(header, Condition):
        return _undecided(request, header)
    credentials = _hop_authority(request) if _is_hop(endpoint, target) else _credentials(endpoint, header)
    if isinstance(credentials, Condition):
        return _undecided(request, credentials)
    objects = {_BACKEND: _backend(endpoint, target), **credentials}
    desired = {key: Desired(Local(item), _is_ready(request, key)) for key, item in objects.items()}
    moving = _AUTHORITY in objects and _AUTHORITY not in request.observed and _BACKEND in request.observed
    if moving:
        # A Backend that names what is not there yet answers 500. Requests go on as before meanwhile.
        desired[_BACKEND] = keep(request.observed[_BACKEND])
    ready = desired[_BACKEND].ready and (moving or all(each.ready for each in desired.values()))
    condition = (
        holds(ConditionType.ROUTE_READY, Reason.ROUTE_CONFIGURED)
        if ready
        else fails(ConditionType.ROUTE_READY, Reason.ROUTE_PENDING, "the Backend is not observed yet")
    )
    listed = _models(request, found, header, checked=problem is None)
    waits = [wait for wait in (_RECHECK_S if _is_resolved(request, target) else None, listed.requeue_after_s) if wait]
    return ComposeResult(
        desired=desired,
        status=ModelEndpointStatus(
            origin=found.origin,
            routing=Routing(backend_name=endpoint.metadata.name) if ready else None,
            models=listed.models,
        ),
        conditions=(condition,),
        ready=summarise([condition]),
        requirements=_requirements(endpoint),
        requeue_after_s=min(waits, default=None),
    )


def _models(request: ComposeRequest[ModelEndpoint], target: EndpointTarget, value: str, *, checked: bool) -> ModelsFact:
    """A provider's own list, fetched where the outbound rule allows it. Replicas list their models to the router."""
    endpoint, wanted = request.resource, credential_of(request.resource)
    if endpoint.spec.replica is not None:
        return ModelsFact(None)
    allow = _allowed(request.fetched(_GATEWAY) or ()) if checked else ()
    listed = ListRequest(target.models_url, allow, wanted.header if wanted is not None else "", value)
    return models_fact(endpoint, listed, request.list_models if checked else None)


def _is_unchanged(request: ComposeRequest[ModelEndpoint], target: ExternalAddress) -> bool:
    """Whether requests go to this address already: it was checked then."""
    seen = request.observed.get(_BACKEND)
    return seen is not None and value_at(seen.manifest, "spec") == _backend(request.resource, target)["spec"]


def _is_hop(endpoint: ModelEndpoint, target: ExternalAddress) -> bool:
    """Whether it is called by mutual TLS between gateways."""
    return endpoint.spec.replica is not None and target.secure


def _may_stay(problem: Condition) -> bool:
    """Inputs that are missing, or a ModelReplica whose status was lost, stop no requests; a refusal does."""
    return problem.reason is not Reason.OUTBOUND_REFUSED


def _not_vouched(request: ComposeRequest[ModelEndpoint]) -> Condition | None:
    """Whether it lacks the word of its ModelReplica that the address is its own."""
    found = request.fetched(_REPLICA)
    if found is None:
        return unknown(ConditionType.ROUTE_READY, Reason.UNRESOLVED, "spec.replica: the ModelReplica is not read yet")
    if any(text_at(each, "status", "address") == address_of(request.resource) for each in found):
        return None
    replica, field = request.resource.spec.replica, field_of_address(request.resource)
    message = f"{field}: ModelReplica {replica.name if replica else ''} does not report this address"
    return fails(ConditionType.ROUTE_READY, Reason.INVALID, message)


def _refused(request: ComposeRequest[ModelEndpoint], target: ExternalAddress) -> Condition | None:
    found = request.fetched(_GATEWAY)
    if found is None:
        message = f"InferenceGateway {DEFAULT_GATEWAY} is not read yet"
        return unknown(ConditionType.ROUTE_READY, Reason.UNRESOLVED, message)
    try:
        rule = OutboundRule.read(_allowed(found))
    except ValueError as error:
        message = f"InferenceGateway {DEFAULT_GATEWAY}: spec.outbound.allow: {error}"
        return fails(ConditionType.ROUTE_READY, Reason.INVALID, message)
    field, refusal = field_of_address(request.resource), rule.refuse_host(target.host)
    if refusal is None and _is_resolved(request, target) and request.resolve is not None:
        addresses = request.resolve(target.host)
        if addresses is None:
            return unknown(
                ConditionType.ROUTE_READY,
                Reason.UNRESOLVED,
                f"{field}: {target.host} is looked up",
            )
        refusal = rule.refuse_resolved(target.host, addresses)
    if refusal is None:
        return None
    allow = f"InferenceGateway {DEFAULT_GATEWAY} may allow it in spec.outbound.allow"
    return fails(ConditionType.ROUTE_READY, Reason.OUTBOUND_REFUSED, f"{field}: {refusal}; {allow}")


def _is_resolved(request: ComposeRequest[ModelEndpoint], target: ExternalAddress) -> bool:
    return request.resolve is not None and target.by_name and request.resource.spec.replica is None


def _allowed(gateways: tuple[Manifest, ...]) -> tuple[str, ...]:
    """ValueError where the gateway cannot be read."""
    try:
        outbound = decode(InferenceGateway, gateways[0]).spec.outbound if gateways else None
    except InvalidObject as error:
        raise ValueError(str(error)) from error
    return outbound.allow if outbound is not None else ()


def _is_ready(request: ComposeRequest[ModelEndpoint], key: str) -> bool:
    seen = request.observed.get(key)
    return seen is not None and seen.ready


def _requirements(endpoint: ModelEndpoint) -> dict[str, Requirement]:
    namespace, wanted, replica = endpoint.metadata.namespace, credential_of(endpoint), endpoint.spec.replica
    if replica is not None:
        vouches = Requirement(API_VERSION, "ModelReplica", name=replica.name, namespace=namespace)
        cluster = Requirement(API_VERSION, "InferenceCluster", name=replica.cluster_name)
        target = endpoint_target(endpoint)
        named = target is not None and _is_hop(endpoint, target.address)
        return {_REPLICA: vouches, **({_CLUSTER: cluster} if named else {})}
    required = {_GATEWAY: Requirement(API_VERSION, "InferenceGateway", name=DEFAULT_GATEWAY)}
    if wanted is not None:
        required[_SECRET] = Requirement("v1", "Secret", name=wanted.secret, namespace=namespace)
    return required


def _backend(endpoint: ModelEndpoint, target: ExternalAddress) -> Manifest:
    spec: dict[str, object] = {"type": "Endpoints", "endpoints": [target.address()]}
    if _is_hop(endpoint, target) and endpoint.spec.replica is not None:
        trusted = {"group": "", "kind": "ConfigMap", "name": _authority_name(endpoint)}
        spec["tls"] = {"caCertificateRefs": [trusted], "sni": hop_hostname(endpoint.spec.replica.cluster_name)}
    elif target.secure:
        named = {"sni": target.host} if target.by_name else {}
        spec["tls"] = {"wellKnownCACertificates": "System", **named}
    return manifest(_GATEWAY_API, "Backend", endpoint.metadata.name, namespace=endpoint.metadata.namespace, spec=spec)


def _hop_authority(request: ComposeRequest[ModelEndpoint]) -> dict[str, Manifest] | Condition:
    """The CA of its cluster's gateway; or why it is not known."""
    endpoint = request.resource
    found = request.fetched(_CLUSTER) or ()
    authority = next((text for item in found if (text := text_at(item, "status", "gateway", "caCertificate"))), "")
    if not authority:
        message = "spec.replica: the CA of the cluster's gateway is not read yet"
        return unknown(ConditionType.ROUTE_READY, Reason.UNRESOLVED, message)
    name, namespace = _authority_name(endpoint), endpoint.metadata.namespace
    return {_AUTHORITY: manifest("v1", "ConfigMap", name, namespace=namespace, data={"ca.crt": authority})}


def _authority_name(endpoint: ModelEndpoint) -> str:
    return make_name(endpoint.metadata.name, endpoint.metadata.name, _AUTHORITY)


def _header_value(request: ComposeRequest[ModelEndpoint]) -> str | Condition:
    """The value of the credential's header, empty without a credential; or why there is none."""
    endpoint, kind = request.resource, ConditionType.ROUTE_READY
    wanted = credential_of(endpoint)
    if wanted is None or endpoint.spec.replica is not None:
        return ""
    field = "spec.auth.secretRef" if endpoint.spec.auth is not None else "spec.credential.apiKey.secretRef"
    found = request.fetched(_SECRET)
    if found is None:
        return unknown(kind, Reason.UNRESOLVED, f"{field}: the Secret is not read yet")
    key = _key(found[0], wanted.key) if found else None
    if key is None:
        message = f"{field}: no Secret {wanted.secret} with one line of text in key {wanted.key}"
        return fails(kind, Reason.INVALID, message)
    return f"Bearer {key}" if wanted.scheme == "Bearer" else key


def _credentials(endpoint: ModelEndpoint, value: str) -> dict[str, Manifest]:
    """The Secret and the filter that adds it to requests."""
    wanted = credential_of(endpoint)
    if wanted is None or not value:
        return {}
    name = make_name(endpoint.metadata.name, endpoint.metadata.name, _CREDENTIAL)
    secret = manifest("v1", "Secret", name, namespace=endpoint.metadata.namespace)
    data = {"credential": base64.b64encode(value.encode()).decode()}
    injection = {"header": wanted.header, "overwrite": True, "credential": {"valueRef": {"name": name}}}
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


def _requeue_after_s(request: ComposeRequest[ModelEndpoint], problem: Condition) -> float | None:
    """A host may show the ModelReplica later than its endpoint, and a lookup ends without an event."""
    if request.resource.spec.replica is not None:
        return _VOUCHING_S
    return _RESOLVING_S if request.resolve is not None and problem.reason is Reason.UNRESOLVED else None


def _undecided(request: ComposeRequest[ModelEndpoint], problem: Condition) -> ComposeResult:
    return ComposeResult(
        desired=keep_observed(request),
        conditions=(problem,),
        ready=summarise([problem]),
        requirements=_requirements(request.resource),
        requeue_after_s=_requeue_after_s(request, problem),
    )
