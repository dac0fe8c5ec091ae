"""InferenceGateway: the fleet's Gateway on the control plane.

ModelServices use the one named `default`. Any other is NotSupported.
"""

from modelplane.api.conditions import Condition, ConditionType, fails, holds, summarise
from modelplane.api.labels import DEFAULT_GATEWAY, FLEET_GATEWAY, SYSTEM_NAMESPACE
from modelplane.api.models import InferenceGateway, InferenceGatewayStatus, NameReference, Tls
from modelplane.api.objects import manifest
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ComposeRequest, ComposeResult, Desired, Local, ReadyWhen
from modelplane.compose.readiness import first_address, programming_problem

_GATEWAY = "gateway"


def compose(request: ComposeRequest[InferenceGateway]) -> ComposeResult:
    name = request.resource.metadata.name
    if name != DEFAULT_GATEWAY:
        message = f"ModelServices use InferenceGateway {DEFAULT_GATEWAY}; {name} is unused"
        unused = fails(ConditionType.GATEWAY_READY, Reason.NOT_SUPPORTED, message)
        return ComposeResult(status=InferenceGatewayStatus(), conditions=(unused,), ready=summarise([unused]))
    spec = request.resource.spec
    listener: dict[str, object] = {"name": "http", "port": 80, "protocol": "HTTP"}
    if spec.tls is not None:
        certificates = [{"name": each.name} for each in certificate_refs(spec.tls)]
        listener |= {"name": "https", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": certificates}}
    if spec.hostname is not None:
        listener["hostname"] = spec.hostname
    listener["allowedRoutes"] = {"namespaces": {"from": "All"}}
    class_name = spec.envoy_gateway.gateway_class_name if spec.envoy_gateway else FLEET_GATEWAY
    gateway = manifest(
        "gateway.networking.k8s.io/v1",
        "Gateway",
        FLEET_GATEWAY,
        namespace=SYSTEM_NAMESPACE,
        spec={"gatewayClassName": class_name, "listeners": [listener]},
    )
    seen = request.observed.get(_GATEWAY)
    address = first_address(seen.manifest) if seen else None
    condition = _condition(address, programming_problem(seen.manifest) if seen else None)
    return ComposeResult(
        desired={_GATEWAY: Desired(Local(gateway, ReadyWhen.ADDRESSED), ready=seen is not None and seen.ready)},
        status=InferenceGatewayStatus(address=address),
        conditions=(condition,),
        ready=summarise([condition]),
    )


def certificate_refs(tls: Tls) -> tuple[NameReference, ...]:
    """The Secrets with certificates, in either form."""
    return tls.certificate_refs or ((tls.secret_ref,) if tls.secret_ref is not None else ())


def _condition(address: str | None, problem: str | None) -> Condition:
    kind, waits = ConditionType.GATEWAY_READY, Reason.WAITING_FOR_GATEWAY
    if address is None:
        return fails(kind, waits, f"the gateway has no address: {problem}" if problem else "the gateway has no address")
    if problem is not None:
        return fails(kind, waits, f"the gateway rejected its latest configuration: {problem}")
    return holds(kind, Reason.GATEWAY_RUNNING, address)
