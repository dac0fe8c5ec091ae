"""ModelEndpoint: the gateway's view of something that answers requests.

What a user names is checked by the outbound rule of InferenceGateway default. A host name is resolved here, and the
Backend and the status have the addresses that are permitted: what is checked is what is called (`checked_addresses`).
The endpoint of a replica may be in a private network, where the gateway of its cluster is. The ModelReplica's own
status must then have that address, since anybody may write `spec.replica`. Its Backend has the name where that is one,
so that clusters are reached while no control plane runs.

A Backend with its addresses, checked against the system's certificates where it is https. A replica whose cluster lets
in fleet gateways only is checked against the CA of its cluster's gateway, in a ConfigMap beside the Backend.
Credentials are added by a filter that the routes of services name; the gateway wants the whole value of the header
under a key of its own, so it gets a Secret beside the user's.
"""

import base64
from collections.abc import Mapping
from dataclasses import replace

from modelplane.api.codec import decode
from modelplane.api.conditions import Condition, ConditionType, fails, holds, summarise, unknown
from modelplane.api.errors import InvalidObject
from modelplane.api.labels import DEFAULT_GATEWAY
from modelplane.api.models import InferenceGateway, ModelEndpoint, ModelEndpointStatus, Routing
from modelplane.api.objects import API_VERSION, Manifest, manifest, text_at, value_at
from modelplane.api.outbound import CLUSTER_GATEWAYS, OutboundRule
from modelplane.api.reasons import Reason
from modelplane.compose.backend_objects import (
    CREDENTIAL_KEY,
    authority_map,
    backend,
    called_at,
    credential_filter,
    credential_name,
    hop_tls,
    provider_tls,
)
from modelplane.compose.checked_addresses import CheckedAddresses, check_addresses
from modelplane.compose.contract import ComposeRequest, ComposeResult, Desired, Local, Requirement, keep, keep_observed
from modelplane.compose.endpoint_target import (
    EndpointTarget,
    address_of,
    credential_of,
    endpoint_target,
    field_of_address,
)
from modelplane.compose.external import ExternalAddress
from modelplane.compose.provider_models import ListRequest, ModelsFact, models_fact

_BACKEND, _CREDENTIAL, _FILTER, _AUTHORITY = "backend", "credential", "filter", "authority"
_SECRET = "secret"  # noqa: S105  the name of a requirement
_GATEWAY, _REPLICA, _CLUSTER = "gateway", "replica", "cluster"
_RESOLVING_S = 1.0
_VOUCHING_S = 2.0
_RECHECK_S = 30.0
"""How often the addresses of a name are checked again. An answer counts for as long, so that requests follow a name
within a minute."""
_MAY_ALLOW = f"InferenceGateway {DEFAULT_GATEWAY} may allow it in spec.outbound.allow"


def compose(request: ComposeRequest[ModelEndpoint]) -> ComposeResult:
    endpoint = request.resource
    found = endpoint_target(endpoint)
    if found is None:
        message = f"{field_of_address(endpoint)}: {address_of(endpoint)!r} is not an http or https URL"
        return _undecided(request, fails(ConditionType.ROUTE_READY, Reason.INVALID, message))
    target, before = found.address, _called_before(endpoint, found)
    checked = _checked(request, target, before)
    permitted = not isinstance(checked, Condition)
    if isinstance(checked, Condition):
        if not _may_stay(checked):
            return replace(_undecided(request, checked), status=ModelEndpointStatus(origin=found.origin))
        if not _is_unchanged(request, target, before):
            return _undecided(request, checked)
        checked = CheckedAddresses(before)
    header = _header_value(request)
    if isinstance(header, Condition):
        return _undecided(request, header)
    credentials = _hop_authority(request) if _is_hop(endpoint, target) else _credentials(endpoint, header)
    if isinstance(credentials, Condition):
        return _undecided(request, credentials)
    objects = {_BACKEND: _backend(endpoint, target, checked.called), **credentials}
    desired = {key: Desired(Local(item), _is_ready(request, key)) for key, item in objects.items()}
    moving = _AUTHORITY in objects and _AUTHORITY not in request.observed and _BACKEND in request.observed
    if moving:
        # A Backend that names what is not there yet answers 500. Requests go on as before meanwhile.
        desired[_BACKEND] = keep(request.observed[_BACKEND])
    if (authority := _still_named(request)) is not None:
        desired.setdefault(_AUTHORITY, authority)
    ready = desired[_BACKEND].ready and (moving or all(each.ready for each in desired.values()))
    listed = _models(request, found, header, checked=permitted)
    condition = (
        _configured(endpoint, target, checked, listed.unreached)
        if ready
        else fails(ConditionType.ROUTE_READY, Reason.ROUTE_PENDING, "the Backend is not observed yet")
    )
    waits = [wait for wait in (_RECHECK_S if _is_resolved(request, target) else None, listed.requeue_after_s) if wait]
    return ComposeResult(
        desired=desired,
        status=ModelEndpointStatus(
            origin=found.origin,
            addresses=checked.called,
            routing=Routing(backend_name=endpoint.metadata.name) if ready else None,
            models=listed.models,
        ),
        conditions=(condition,),
        ready=summarise([condition]),
        requirements=_requirements(endpoint),
        requeue_after_s=min(waits, default=None),
    )


def _still_named(request: ComposeRequest[ModelEndpoint]) -> Desired | None:
    """The authority, for as long as the Backend that is there names it: what is undesired is deleted first."""
    seen, known = request.observed.get(_AUTHORITY), request.observed.get(_BACKEND)
    if seen is None or known is None or not value_at(known.manifest, "spec", "tls", "caCertificateRefs"):
        return None
    return keep(seen)


def _configured(
    endpoint: ModelEndpoint, target: ExternalAddress, checked: CheckedAddresses, unreached: str
) -> Condition:
    """What serves, and what of it does not.

    A provider that the control plane does not reach keeps its requests: the gateway may reach it from where it is.
    """
    kind, field = ConditionType.ROUTE_READY, field_of_address(endpoint)
    if checked.refusal:
        message = f"{field}: {checked.refusal}, which gets no requests; {_MAY_ALLOW}"
        return holds(kind, Reason.OUTBOUND_PARTLY_REFUSED, message)
    if checked.late:
        message = f"{field}: {target.host} does not resolve; requests go to the addresses of before"
        return holds(kind, Reason.ROUTE_CONFIGURED, message)
    if unreached:
        message = f"{field}: the control plane does not reach it, and requests go there all the same: {unreached}"
        return holds(kind, Reason.PROVIDER_NOT_REACHED, message)
    return holds(kind, Reason.ROUTE_CONFIGURED)


def _called_before(endpoint: ModelEndpoint, target: EndpointTarget) -> tuple[str, ...]:
    """The addresses that requests to this origin go to."""
    return endpoint.status.addresses if endpoint.status.origin == target.origin and target.address.by_name else ()


def _models(request: ComposeRequest[ModelEndpoint], target: EndpointTarget, value: str, *, checked: bool) -> ModelsFact:
    """A provider's own list, fetched where the outbound rule allows it. Replicas list their models to the router."""
    endpoint, wanted = request.resource, credential_of(request.resource)
    if endpoint.spec.replica is not None:
        return ModelsFact(None)
    allow = _allowed(request.fetched(_GATEWAY) or ()) if checked else ()
    listed = ListRequest(target.models_url, allow, wanted.header if wanted is not None else "", value)
    return models_fact(endpoint, listed, request.list_models if checked else None)


def _is_unchanged(request: ComposeRequest[ModelEndpoint], target: ExternalAddress, before: tuple[str, ...]) -> bool:
    """Whether requests go to this address already: it was checked then."""
    seen = request.observed.get(_BACKEND)
    return seen is not None and value_at(seen.manifest, "spec") == _backend(request.resource, target, before)["spec"]


def _is_hop(endpoint: ModelEndpoint, target: ExternalAddress) -> bool:
    """Whether it is called by mutual TLS between gateways."""
    return endpoint.spec.replica is not None and target.secure


def _may_stay(problem: Condition) -> bool:
    """Inputs that are missing, or a ModelReplica whose status was lost, stop no requests; a refusal does.

    So does a name that never had an address: there is none that was checked.
    """
    return problem.reason not in {Reason.OUTBOUND_REFUSED, Reason.HOST_NOT_FOUND}


def _not_vouched(request: ComposeRequest[ModelEndpoint]) -> Condition | None:
    """Whether an endpoint of a replica lacks the word of its ModelReplica that the address is its own."""
    replica = request.resource.spec.replica
    if replica is None:
        return None
    found = request.fetched(_REPLICA)
    if found is None:
        return unknown(ConditionType.ROUTE_READY, Reason.UNRESOLVED, "spec.replica: the ModelReplica is not read yet")
    if any(text_at(each, "status", "address") == address_of(request.resource) for each in found):
        return None
    field = field_of_address(request.resource)
    message = f"{field}: ModelReplica {replica.name} does not report this address"
    return fails(ConditionType.ROUTE_READY, Reason.INVALID, message)


def _checked(
    request: ComposeRequest[ModelEndpoint], target: ExternalAddress, before: tuple[str, ...]
) -> CheckedAddresses | Condition:
    """Where requests may go, none for an address that needs no resolving; or why nowhere."""
    rule = _not_vouched(request) or _rule(request)
    if isinstance(rule, Condition):
        return rule
    refusal = rule.refuse_host(target.host)
    if refusal is not None:
        return _refused(request, refusal)
    if request.resolve is None or not target.by_name:
        return CheckedAddresses()
    resolved = request.resolve(target.host)
    checked = check_addresses(rule, target.host, resolved, before)
    if checked.called:
        return checked
    if checked.refusal:
        return _refused(request, checked.refusal)
    field = field_of_address(request.resource)
    if resolved is None:
        return unknown(ConditionType.ROUTE_READY, Reason.UNRESOLVED, f"{field}: {target.host} is looked up")
    return fails(ConditionType.ROUTE_READY, Reason.HOST_NOT_FOUND, f"{field}: {target.host} does not resolve")


def _rule(request: ComposeRequest[ModelEndpoint]) -> OutboundRule | Condition:
    if request.resource.spec.replica is not None:
        return CLUSTER_GATEWAYS
    found = request.fetched(_GATEWAY)
    if found is None:
        message = f"InferenceGateway {DEFAULT_GATEWAY} is not read yet"
        return unknown(ConditionType.ROUTE_READY, Reason.UNRESOLVED, message)
    try:
        return OutboundRule.read(_allowed(found))
    except ValueError as error:
        message = f"InferenceGateway {DEFAULT_GATEWAY}: spec.outbound.allow: {error}"
        return fails(ConditionType.ROUTE_READY, Reason.INVALID, message)


def _refused(request: ComposeRequest[ModelEndpoint], refusal: str) -> Condition:
    message = f"{field_of_address(request.resource)}: {refusal}"
    may_allow = f"; {_MAY_ALLOW}" if request.resource.spec.replica is None else ""
    return fails(ConditionType.ROUTE_READY, Reason.OUTBOUND_REFUSED, f"{message}{may_allow}")


def _is_resolved(request: ComposeRequest[ModelEndpoint], target: ExternalAddress) -> bool:
    return request.resolve is not None and target.by_name


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


def _backend(endpoint: ModelEndpoint, target: ExternalAddress, addresses: tuple[str, ...]) -> Manifest:
    name, replica = endpoint.metadata.name, endpoint.spec.replica
    tls = hop_tls(name, replica.cluster_name) if replica is not None and target.secure else provider_tls(target)
    called = called_at(target, addresses, by_name=replica is not None)
    return backend(name, endpoint.metadata.namespace, called, tls)


def _hop_authority(request: ComposeRequest[ModelEndpoint]) -> dict[str, Manifest] | Condition:
    """The CA of its cluster's gateway; or why it is not known."""
    endpoint = request.resource
    found = request.fetched(_CLUSTER) or ()
    authority = next((text for item in found if (text := text_at(item, "status", "gateway", "caCertificate"))), "")
    if not authority:
        message = "spec.replica: the CA of the cluster's gateway is not read yet"
        return unknown(ConditionType.ROUTE_READY, Reason.UNRESOLVED, message)
    return {_AUTHORITY: authority_map(endpoint.metadata.name, endpoint.metadata.namespace, authority)}


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
    name, namespace = endpoint.metadata.name, endpoint.metadata.namespace
    secret = manifest("v1", "Secret", credential_name(name), namespace=namespace)
    data = {CREDENTIAL_KEY: base64.b64encode(value.encode()).decode()}
    filled = {**secret, "type": "Opaque", "data": data}
    return {_CREDENTIAL: filled, _FILTER: credential_filter(name, namespace, wanted)}


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
    if request.resolve is None:
        return None
    return _RESOLVING_S if problem.reason is Reason.UNRESOLVED else _RECHECK_S


def _undecided(request: ComposeRequest[ModelEndpoint], problem: Condition) -> ComposeResult:
    return ComposeResult(
        desired=keep_observed(request),
        conditions=(problem,),
        ready=summarise([problem]),
        requirements=_requirements(request.resource),
        requeue_after_s=_requeue_after_s(request, problem),
    )
