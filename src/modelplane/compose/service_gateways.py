"""The InferenceGateways that serve a ModelService: all that select it, wherever they run.

A gateway that something of the service is observed at and that is missing from the list may exist all the same. It is
required by name; only when no object of that name exists does what is there leave.
"""

from modelplane.api.codec import decode
from modelplane.api.errors import InputError
from modelplane.api.labels import DEFAULT_GATEWAY, selects
from modelplane.api.models import InferenceGateway, ModelService
from modelplane.api.objects import API_VERSION, Manifest, items_at, name_of, text_at
from modelplane.compose.cluster_routes import RemoteGateway, observed_at, observed_gateways
from modelplane.compose.contract import ComposeRequest, Requirement
from modelplane.compose.fleet_gateways import is_serving, object_name_of, runs_on

_GATEWAYS, _GATEWAY = "gateways", "gateway-"


def gateway_requirements(request: ComposeRequest[ModelService]) -> dict[str, Requirement]:
    return {_GATEWAYS: Requirement(API_VERSION, "InferenceGateway"), **_unlisted(request)}


def serving_gateways(request: ComposeRequest[ModelService]) -> list[InferenceGateway] | None:
    """The gateways that serve it, the default one first; None until they are read."""
    found = listed_gateways(request)
    if found is None:
        return None
    gateways = [gateway for gateway in map(_read_gateway, found) if gateway is not None and is_serving(gateway)]
    chosen = [each for each in gateways if selects(each.spec.service_selector, request.resource.metadata.labels)]
    return sorted(chosen, key=lambda each: (each.metadata.name != DEFAULT_GATEWAY, each.metadata.name))


def remote_gateways(request: ComposeRequest[ModelService]) -> dict[str, RemoteGateway]:
    """Those of them that run on clusters, by name."""
    found = ((each, runs_on(each, embedded=request.embedded)) for each in serving_gateways(request) or ())
    return {
        each.metadata.name: RemoteGateway(each, cluster, observed_at(request.observed, each.metadata.name))
        for each, cluster in found
        if cluster is not None
    }


def listed_gateways(request: ComposeRequest[ModelService]) -> tuple[Manifest, ...] | None:
    """Those of the list, and those that were found by name; None until they are read."""
    found = request.fetched(_GATEWAYS)
    if found is None:
        return None
    return (*found, *(item for key in _unlisted(request) for item in request.fetched(key) or ()))


def unreadable_gateways(request: ComposeRequest[ModelService]) -> list[str]:
    return [name_of(item) for item in listed_gateways(request) or () if _read_gateway(item) is None]


def undecided_gateways(request: ComposeRequest[ModelService]) -> list[str]:
    """Gateways that something is observed at, and that are neither read nor known to be absent.

    Absent is what the list lacks and what is not found by name: without the list the second alone says nothing, and
    what is listed exists, whether it can be read or not.
    """
    listed = listed_gateways(request)
    if listed is None:
        return _observed_at(request)
    read = {name_of(item) for item in listed if _read_gateway(item) is not None}
    exist = {name_of(item) for item in listed}
    absent = {name for name in _observed_at(request) if name not in exist and request.fetched(_GATEWAY + name) == ()}
    return [name for name in _observed_at(request) if name not in read | absent]


def _unlisted(request: ComposeRequest[ModelService]) -> dict[str, Requirement]:
    found = request.fetched(_GATEWAYS)
    if found is None:
        return {}
    listed = {name_of(item) for item in found}
    return {
        _GATEWAY + name: Requirement(API_VERSION, "InferenceGateway", name=name)
        for name in _observed_at(request)
        if name not in listed
    }


def observed_parents(request: ComposeRequest[ModelService]) -> set[str]:
    """The Gateways beside the control plane that the observed routes name, by their names."""
    routes = [seen.manifest for key, seen in request.observed.items() if "/" not in key]
    return {text_at(parent, "name") for route in routes for parent in items_at(route, "spec", "parentRefs")}


def _observed_at(request: ComposeRequest[ModelService]) -> list[str]:
    """The gateways that something is observed at. Names of Gateways do not tell those of InferenceGateways."""
    known = (DEFAULT_GATEWAY, *(each.name for each in request.resource.status.gateways))
    parents = observed_parents(request)
    beside = {name for name in known if object_name_of(name) in parents}
    return sorted({*observed_gateways(request.observed), *beside})


def _read_gateway(item: Manifest) -> InferenceGateway | None:
    try:
        return decode(InferenceGateway, item)
    except InputError:
        return None
