"""What a service has on the cluster of a gateway that runs there: routes, policies, Backends and what those name.

Beside the control plane a ModelEndpoint composes its own Backend. On the clusters of gateways the service does: only
where a gateway serves it are addresses, CAs and copies of credentials, and each is there before a route leads to it and
until no observed route does. Until the inputs of an endpoint are read, it stays as it is.

The keys of these objects begin with the gateway's name, so a gateway that is missing from a list is known by them.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from modelplane.api.codec import decode
from modelplane.api.errors import InputError
from modelplane.api.labels import COPIED_FROM
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceCluster, InferenceGateway, ModelService
from modelplane.api.objects import API_VERSION, Manifest, manifest, name_of, text_at, with_metadata
from modelplane.compose.backend_objects import (
    authority_map,
    authority_name,
    backend,
    called_at,
    credential_filter,
    credential_name,
    hop_tls,
    provider_tls,
)
from modelplane.compose.contract import (
    ComposeRequest,
    CopiedFrom,
    Desired,
    Observed,
    ReadyWhen,
    Remote,
    Requirement,
    keep,
)
from modelplane.compose.endpoint_routes import endpoint_routes, is_routed
from modelplane.compose.external import ExternalAddress
from modelplane.compose.fleet_gateways import composes_router, gateway_object_name, route_accepted
from modelplane.compose.gateway_routes import (
    backend_refs,
    endpoint_policy,
    http_route,
    path_rewrite,
    static_route,
    traffic_policy,
    unserved_filter,
)
from modelplane.compose.object_names import ObjectNames, backend_name, names_at
from modelplane.compose.service_plan import PlanEndpoint, ServicePlan
from modelplane.compose.tenancy import tenant_namespace

ROUTE: Final = "route"
_NAMESPACE, _ENDPOINT_POLICY, _ENDPOINTS = "namespace", "endpoint-policy", "endpoints-"
_BACKEND, _AUTHORITY, _CREDENTIAL, _FILTER = "backend-", "authority-", "credential-", "filter-"
_OF_ENDPOINT: Final = (_BACKEND, _AUTHORITY, _CREDENTIAL, _FILTER)
_CLUSTER: Final = "cluster-"


@dataclass(frozen=True, slots=True)
class RemoteGateway:
    """A gateway on a cluster, and what of a service is observed there."""

    gateway: InferenceGateway
    cluster: ClusterName
    observed: Mapping[str, Observed]
    """By key, without the gateway's name."""

    @property
    def name(self) -> str:
        return self.gateway.metadata.name

    @property
    def route(self) -> Observed | None:
        return self.observed.get(ROUTE)

    @property
    def accepts(self) -> bool:
        """Whether its route is in force, as far as the cluster answers."""
        seen = self.route
        return seen is not None and seen.ready and route_accepted(seen.manifest, gateway_object_name(self.gateway))

    @property
    def led_to(self) -> set[str]:
        """Names of what observed routes, Backends and filters refer to."""
        return {name for seen in self.observed.values() for name in _names_below(seen.manifest.get("spec"))}

    def reaches(self, endpoint: PlanEndpoint) -> bool:
        """Whether all that it takes to call an endpoint is there."""
        keys = [each + endpoint.name for each in _OF_ENDPOINT if each + endpoint.name in self.observed]
        return _BACKEND + endpoint.name in keys and all(map(self.is_ready, keys))

    def is_ready(self, key: str) -> bool:
        seen = self.observed.get(key)
        return seen is not None and seen.ready

    def remote(self, item: Manifest, ready_when: ReadyWhen = ReadyWhen.CREATED) -> Remote:
        return Remote(self.cluster, item, ready_when)


def _names_below(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        if isinstance(value.get("name"), str):
            yield value["name"]
        for inner in value.values():
            yield from _names_below(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _names_below(inner)


def observed_at(observed: Mapping[str, Observed], gateway: str) -> dict[str, Observed]:
    """What is observed at the gateway of that name, without its name."""
    start = f"{gateway}/"
    return {key.removeprefix(start): seen for key, seen in observed.items() if key.startswith(start)}


def observed_gateways(observed: Collection[str]) -> list[str]:
    """The gateways that something is observed at."""
    return sorted({key.partition("/")[0] for key in observed if "/" in key})


def observed_endpoints(observed: Collection[str]) -> set[str]:
    """The endpoints that have a Backend at some gateway on a cluster."""
    keys = (key.partition("/")[2] for key in observed)
    return {key.removeprefix(_BACKEND) for key in keys if key.startswith(_BACKEND)}


def place_requirements(plan: ServicePlan, remote: Collection[RemoteGateway]) -> dict[str, Requirement]:
    """The clusters of the gateways, those whose CA a Backend needs, and the credentials to copy."""
    if not remote:
        return {}
    routed = [each for each in plan.endpoints if is_routed(each)]
    clusters = {each.cluster for each in remote} | {str(each.cluster) for each in routed if _is_hop(each)}
    wanted = {_CLUSTER + name: Requirement(API_VERSION, "InferenceCluster", name=name) for name in sorted(clusters)}
    for endpoint in routed:
        if endpoint.credential is not None:
            wanted[_CREDENTIAL + endpoint.name] = Requirement(
                "v1", "Secret", name=credential_name(endpoint.name), namespace=plan.namespace
            )
    return wanted


def place_desired(
    request: ComposeRequest[ModelService], plan: ServicePlan, at: RemoteGateway, doubted: Collection[str]
) -> dict[str, Desired]:
    """The objects at one gateway, by key. While an endpoint there is in doubt, all stay as they are."""
    cluster = _cluster(request, at.cluster)
    if cluster is None or any(_BACKEND + name in at.observed for name in doubted):
        return kept_at(at.name, at.observed)
    namespace = Desired(tenant_namespace(cluster, plan.namespace), at.is_ready(_NAMESPACE))
    desired = {_NAMESPACE: namespace}
    if namespace.ready or len(at.observed) > 1:
        desired |= _objects(request, plan, at)
    return {f"{at.name}/{key}": item for key, item in desired.items()}


def kept_at(gateway: str, observed: Mapping[str, Observed]) -> dict[str, Desired]:
    return {f"{gateway}/{key}": keep(seen) for key, seen in observed.items()}


def _cluster(request: ComposeRequest[ModelService], name: str) -> InferenceCluster | None:
    """None until it is read, and where it cannot be or does not exist."""
    found = request.fetched(_CLUSTER + name)
    try:
        return decode(InferenceCluster, {**found[0], "status": {}}) if found and name_of(found[0]) else None
    except InputError:
        return None


def _objects(request: ComposeRequest[ModelService], plan: ServicePlan, at: RemoteGateway) -> dict[str, Desired]:
    names, led_to = names_at(plan, at.name), at.led_to
    made: dict[str, Desired] = {}
    there = set()
    for endpoint in (each for each in plan.endpoints if is_routed(each)):
        found = _endpoint_objects(request, endpoint, names, at)
        made |= found
        serves = names.backend(endpoint) in led_to and (_is_hop(endpoint) or not found.keys() - at.observed.keys())
        if found and (serves or all(item.ready for item in found.values())):
            there.add(endpoint.name)
    kept = {key: keep(seen) for key, seen in at.observed.items() if _name_of_part(plan, at, key) in led_to}
    return {**kept, **made, **_routes(request, _reduced(plan, there), names, at)}


def _name_of_part(plan: ServicePlan, at: RemoteGateway, key: str) -> str | None:
    """The name of an object of an endpoint; None for others."""
    start = next((each for each in _OF_ENDPOINT if key.startswith(each)), None)
    if start is None:
        return None
    name = backend_name(plan, at.name, key.removeprefix(start))
    return {_AUTHORITY: authority_name(name), _CREDENTIAL: credential_name(name)}.get(start, name)


def _reduced(plan: ServicePlan, there: Collection[str]) -> ServicePlan:
    """The plan over the endpoints that the gateway can reach by now."""
    tiers = (
        replace(tier, endpoints=tuple(each for each in tier.endpoints if each.name in there)) for tier in plan.tiers
    )
    return replace(plan, tiers=tuple(tiers))


def _routes(
    request: ComposeRequest[ModelService], plan: ServicePlan, names: ObjectNames, at: RemoteGateway
) -> dict[str, Desired]:
    static, parent = static_route(plan), [gateway_object_name(at.gateway)]
    backends = backend_refs(static, names)
    route = http_route(plan, parent, path_rewrite(static), backends, names, joined=static.joined)
    made = {"policy": traffic_policy(plan, names), "unserved": unserved_filter(plan, names)}
    if composes_router(at.gateway, embedded=request.embedded):
        made[_ENDPOINT_POLICY] = endpoint_policy(plan, names)
        if _ENDPOINT_POLICY in at.observed:
            # The policy must be there before the routes that it is for.
            made |= {_ENDPOINTS + name: item for name, item in endpoint_routes(plan, parent, names).items()}
    found = {key: Desired(at.remote(item), at.is_ready(key)) for key, item in made.items()}
    return {ROUTE: Desired(at.remote(route, ReadyWhen.ROUTED), at.is_ready(ROUTE)), **found}


def _endpoint_objects(
    request: ComposeRequest[ModelService], endpoint: PlanEndpoint, names: ObjectNames, at: RemoteGateway
) -> dict[str, Desired]:
    """A Backend and what it names. What was made stays while an input is missing; nothing is made without all."""
    before = {key + endpoint.name: at.observed.get(key + endpoint.name) for key in _OF_ENDPOINT}
    targets = _targets(request, endpoint, names, at)
    if targets is None:
        return {key: keep(seen) for key, seen in before.items() if seen is not None}
    made = {key + endpoint.name: Desired(item, at.is_ready(key + endpoint.name)) for key, item in targets.items()}
    known = before[_BACKEND + endpoint.name]
    if known is not None and _AUTHORITY in targets and not at.is_ready(_AUTHORITY + endpoint.name):
        # A Backend that names what is not there yet answers 500. Requests go on as before meanwhile.
        made[_BACKEND + endpoint.name] = keep(known)
    return made


def _targets(
    request: ComposeRequest[ModelService], endpoint: PlanEndpoint, names: ObjectNames, at: RemoteGateway
) -> dict[str, Remote] | None:
    """None while an input is not there."""
    name, namespace = names.backend(endpoint), names.namespace
    target = ExternalAddress(endpoint.secure, endpoint.address, endpoint.port, by_name=endpoint.is_named)
    called = called_at(target, endpoint.addresses, by_name=endpoint.replica is not None)
    if _is_hop(endpoint):
        authority = _authority(request, str(endpoint.cluster))
        if not authority:
            return None
        made = backend(name, namespace, called, hop_tls(name, str(endpoint.cluster)))
        return {_BACKEND: at.remote(made), _AUTHORITY: at.remote(authority_map(name, namespace, authority))}
    found = {_BACKEND: at.remote(backend(name, namespace, called, provider_tls(target)))}
    if endpoint.credential is None:
        return found
    original = next(iter(request.fetched(_CREDENTIAL + endpoint.name) or ()), None)
    if original is None:
        return None
    added = at.remote(credential_filter(name, namespace, endpoint.credential))
    return {**found, _CREDENTIAL: _credential(request, original, names, endpoint, at), _FILTER: added}


def _credential(
    request: ComposeRequest[ModelService],
    original: Manifest,
    names: ObjectNames,
    endpoint: PlanEndpoint,
    at: RemoteGateway,
) -> Remote:
    """A copy of what the ModelEndpoint composes for the gateway: the whole value of a header. Its host copies it."""
    source = CopiedFrom(
        "v1",
        "Secret",
        credential_name(endpoint.name),
        request.resource.metadata.namespace,
        version=text_at(original, "metadata", "resourceVersion"),
    )
    made = manifest("v1", "Secret", credential_name(names.backend(endpoint)), namespace=names.namespace)
    made = with_metadata(made, annotations={COPIED_FROM: f"{source.namespace}/{source.name}"})
    return replace(at.remote({**made, "type": "Opaque"}), copied_from=source)


def _is_hop(endpoint: PlanEndpoint) -> bool:
    """Whether it is called by mutual TLS between gateways."""
    return endpoint.replica is not None and endpoint.secure and endpoint.cluster is not None


def _authority(request: ComposeRequest[ModelService], cluster: str) -> str:
    found = request.fetched(_CLUSTER + cluster) or ()
    return next((text for item in found if (text := text_at(item, "status", "gateway", "caCertificate"))), "")
