"""InferenceGateway: a front door of the fleet.

A Gateway of Envoy Gateway, a SecurityPolicy and a Secret where callers need keys, and the fleet router where it has
one. Any number of them: each serves the ModelServices that it selects. A gateway whose keys cannot be read lets nobody
in.

All of it is in the control plane's cluster, or on the InferenceCluster of `clusterName` (`gateway_cluster`). The
embedded plane runs every gateway itself and says so.
"""

from collections.abc import Sequence

from modelplane.api.conditions import Condition, ConditionType, fails, holds, summarise, unknown
from modelplane.api.labels import FLEET_GATEWAY, SYSTEM_NAMESPACE
from modelplane.api.models import BaseUrls, InferenceGateway, InferenceGatewayStatus
from modelplane.api.objects import Manifest, items_at, manifest
from modelplane.api.reasons import Reason
from modelplane.compose.caller_keys import POLICY, caller_requirements, caller_secret, current_callers
from modelplane.compose.callers import CallerSecrets
from modelplane.compose.contract import ComposeRequest, ComposeResult, Desired, Local, ReadyWhen, keep
from modelplane.compose.fleet_gateways import composes_router, gateway_object_name, runs_on
from modelplane.compose.gateway_cluster import compose_on_cluster, observation_problem
from modelplane.compose.gateway_identity import (
    awaits_identity,
    backend_tls,
    client_authorities,
    identity_desired,
    identity_note,
    identity_requirements,
)
from modelplane.compose.gateway_router import restricts_callers, router_desired, router_requirements
from modelplane.compose.gateway_routes import CALLER_HEADER
from modelplane.compose.gateway_secrets import (
    GATEWAY,
    certificate_names,
    certificate_requirements,
    credential_names,
    missing_certificate,
    secret_copies,
)
from modelplane.compose.gateway_tracing import gateway_infrastructure, gateway_proxy
from modelplane.compose.readiness import first_address, programming_problem
from modelplane.compose.router_objects import EXTENSION

_CLUSTER_CLASS = "envoy"
"""The GatewayClass of clusters."""
_HOP_REQUEUE_S = 10.0
"""A certificate on a cluster comes without an event here."""


def compose(request: ComposeRequest[InferenceGateway]) -> ComposeResult:
    cluster = runs_on(request.resource, embedded=request.embedded)
    return _compose(request) if cluster is None else compose_on_cluster(request, cluster, _compose)


def _compose(request: ComposeRequest[InferenceGateway]) -> ComposeResult:
    callers = current_callers(request)
    seen = request.observed.get(GATEWAY)
    desired = {
        GATEWAY: Desired(Local(_gateway(request), ReadyWhen.ADDRESSED), ready=bool(seen and seen.ready)),
        **_policies(request, callers),
        **caller_secret(request, callers),
        **secret_copies(request, callers),
        **_tracing(request),
        **identity_desired(request),
        **router_desired(request, callers),
    }
    address = _address(request)
    condition = _condition(request, address, callers)
    return ComposeResult(
        desired=desired,
        status=_status(request, address, callers),
        conditions=(condition,),
        ready=summarise([condition]),
        requirements={
            **router_requirements(request),
            **caller_requirements(request),
            **certificate_requirements(request),
            **identity_requirements(request),
        },
        requeue_after_s=_HOP_REQUEUE_S if awaits_identity(request) else None,
    )


def _address(request: ComposeRequest[InferenceGateway]) -> str | None:
    """On a cluster the last one stays while the Gateway is not seen: nobody moved it."""
    seen = request.observed.get(GATEWAY)
    found = first_address(seen.manifest) if seen is not None else None
    on_cluster = runs_on(request.resource, embedded=request.embedded) is not None
    return found or (request.resource.status.address if on_cluster else None)


def _gateway(request: ComposeRequest[InferenceGateway]) -> Manifest:
    gateway, spec = request.resource, request.resource.spec
    listener: dict[str, object] = {"name": "http", "port": 80, "protocol": "HTTP"}
    if spec.tls is not None:
        certificates = [{"name": name} for name in certificate_names(request)]
        listener |= {"name": "https", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": certificates}}
    if spec.hostname is not None:
        listener["hostname"] = spec.hostname
    listener["allowedRoutes"] = {"namespaces": {"from": "All"}}
    return manifest(
        "gateway.networking.k8s.io/v1",
        "Gateway",
        gateway_object_name(gateway),
        namespace=SYSTEM_NAMESPACE,
        spec={
            "gatewayClassName": _class_name(request),
            **gateway_infrastructure(gateway, gateway_object_name(gateway)),
            "listeners": [listener],
            **backend_tls(request),
        },
    )


def _class_name(request: ComposeRequest[InferenceGateway]) -> str:
    """The default of the field is the class of the control plane's cluster. Others have one of their own."""
    given = request.resource.spec.envoy_gateway
    name = given.gateway_class_name if given is not None else FLEET_GATEWAY
    on_cluster = runs_on(request.resource, embedded=request.embedded) is not None
    return _CLUSTER_CLASS if on_cluster and name == FLEET_GATEWAY else name


def _tracing(request: ComposeRequest[InferenceGateway]) -> dict[str, Desired]:
    made = gateway_proxy(request.resource, gateway_object_name(request.resource))
    return {key: Desired(Local(item), ready=key in request.observed) for key, item in made.items()}


def _policies(request: ComposeRequest[InferenceGateway], callers: CallerSecrets | None) -> dict[str, Desired]:
    """The policy of the callers. Until the Secrets are read the observed one stays, or else nobody may call."""
    if request.resource.spec.auth is None:
        return {}
    seen = request.observed.get(POLICY)
    names = credential_names(request) if callers is not None and callers.callers else []
    if seen is not None and (callers is None or (callers.callers and not names)):
        return {POLICY: keep(seen)}
    return {POLICY: Desired(Local(_policy(request.resource, names)), ready=seen is not None)}


def _policy(gateway: InferenceGateway, secrets: Sequence[str]) -> Manifest:
    target = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": gateway_object_name(gateway)}
    spec: dict[str, object] = {"targetRefs": [target]}
    if secrets:
        spec["apiKeyAuth"] = {
            "credentialRefs": [{"name": name} for name in secrets],
            "extractFrom": [{"headers": ["Authorization"]}, {"headers": ["x-api-key"]}],
            "forwardClientIDHeader": CALLER_HEADER,
            "sanitize": True,
        }
    else:
        spec["authorization"] = {"defaultAction": "Deny"}
    name = gateway_object_name(gateway)
    return manifest("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy", name, namespace=SYSTEM_NAMESPACE, spec=spec)


def _status(
    request: ComposeRequest[InferenceGateway], address: str | None, callers: CallerSecrets | None
) -> InferenceGatewayStatus:
    gateway, authorities = request.resource, client_authorities(request)
    count = len(callers.callers) if callers is not None else gateway.status.callers
    if address is None:
        return InferenceGatewayStatus(
            callers=count if gateway.spec.auth is not None else None, client_ca_certificate=authorities
        )
    scheme, host = ("http" if gateway.spec.tls is None else "https"), gateway.spec.hostname or address
    urls = BaseUrls(open_ai=f"{scheme}://{host}/v1", anthropic=f"{scheme}://{host}/anthropic/v1")
    shown = urls if gateway.spec.hostname is None or "*" not in gateway.spec.hostname else None
    return InferenceGatewayStatus(
        address=address,
        endpoints=shown,
        callers=count if gateway.spec.auth is not None else None,
        client_ca_certificate=authorities,
    )


def _condition(
    request: ComposeRequest[InferenceGateway], address: str | None, callers: CallerSecrets | None
) -> Condition:
    kind, waits = ConditionType.GATEWAY_READY, Reason.WAITING_FOR_GATEWAY
    seen = request.observed.get(GATEWAY)
    unseen = observation_problem(request, seen)
    if unseen is not None:
        return unseen
    missing = missing_certificate(request)
    if missing is not None:
        return fails(kind, Reason.SECRET_MISSING, missing)
    problem = programming_problem(seen.manifest) if seen else None
    if address is None:
        return fails(kind, waits, f"the gateway has no address: {problem}" if problem else "the gateway has no address")
    if problem is not None:
        return fails(kind, waits, f"the gateway rejected its latest configuration: {problem}")
    running = holds(
        kind, Reason.GATEWAY_RUNNING, address + _note(request) + _router_note(request) + identity_note(request)
    )
    return _callers_condition(request, callers) or _router_condition(request) or running


def _callers_condition(request: ComposeRequest[InferenceGateway], callers: CallerSecrets | None) -> Condition | None:
    kind = ConditionType.GATEWAY_READY
    if request.resource.spec.auth is None:
        return None
    if callers is None:
        return unknown(kind, Reason.UNRESOLVED, "spec.auth.apiKey: the Secrets are not read yet; no new keys are taken")
    if callers.problems:
        more = f"; and {len(callers.problems) - 1} more" if len(callers.problems) > 1 else ""
        return fails(kind, Reason.CALLER_KEYS_INVALID, callers.problems[0] + more)
    if not callers.callers:
        message = "spec.auth.apiKey.secretSelector: no Secret in modelplane-system has these labels; nobody may call"
        return fails(kind, Reason.CALLER_KEYS_MISSING, message)
    policy = request.observed.get(POLICY)
    refused = _refusal(policy.manifest) if policy is not None else None
    return fails(kind, Reason.CALLER_KEYS_INVALID, f"the gateway refuses the keys: {refused}") if refused else None


def _router_condition(request: ComposeRequest[InferenceGateway]) -> Condition | None:
    """Where callers may not call every service, a gateway whose router is not called serves nobody."""
    refused = _router_refusal(request)
    if refused is None or not restricts_callers(request.resource):
        return None
    message = f"no request is served: the fleet router is not called: {refused}"
    return fails(ConditionType.GATEWAY_READY, Reason.WAITING_FOR_GATEWAY, message)


def _router_note(request: ComposeRequest[InferenceGateway]) -> str:
    refused = _router_refusal(request)
    return f"; the fleet router is not called, and limits do not hold: {refused}" if refused is not None else ""


def _router_refusal(request: ComposeRequest[InferenceGateway]) -> str | None:
    """What the gateway says against calling the router: that its Service has no ready endpoints, for one."""
    composes = composes_router(request.resource, embedded=request.embedded)
    policy = request.observed.get(EXTENSION) if composes else None
    return _refusal(policy.manifest) if policy is not None else None


def _refusal(policy: Manifest) -> str | None:
    for ancestor in items_at(policy, "status", "ancestors"):
        for condition in items_at(ancestor, "conditions"):
            if condition.get("type") == "Accepted" and condition.get("status") == "False":
                return str(condition.get("message") or condition.get("reason") or "not accepted")
    return None


def _note(request: ComposeRequest[InferenceGateway]) -> str:
    name = request.resource.spec.cluster_name
    if name is None:
        return ""
    return f"; the embedded plane runs it itself, and not on {name}" if request.embedded else f" on {name}"
