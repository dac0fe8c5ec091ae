"""The views of the dashboard by name, and how they become JSON.

Every text of an object is on one line and prints: what does not could reverse the writing direction, or hide a name.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

import msgspec

from modelplane.api.errors import NotFoundError
from modelplane.api.models import EndpointTraffic
from modelplane.api.objects import Manifest
from modelplane.k8s.admission.decode import escape
from modelplane.web.cache_views import caches_page
from modelplane.web.deployment_views import deployment_page, deployments_page
from modelplane.web.fleet_map import cluster_page, cluster_words, fleet_page
from modelplane.web.paging import ViewQuery
from modelplane.web.service_views import service_page, services_page
from modelplane.web.snapshot import DashboardSnapshot, ObjectPlace
from modelplane.web.summary import fleet_summary, overview_page
from modelplane.web.timeline import timeline
from modelplane.web.traffic import with_traffic

View = Callable[[DashboardSnapshot, ViewQuery], msgspec.Struct]
VIEWS: Final[Mapping[str, View]] = {
    "summary": fleet_summary,
    "overview": overview_page,
    "fleet": fleet_page,
    "cluster": cluster_page,
    "deployments": deployments_page,
    "deployment": deployment_page,
    "services": services_page,
    "service": service_page,
    "caches": caches_page,
    "events": timeline,
}


def prepared(
    objects: Mapping[str, Mapping[ObjectPlace, Manifest]],
    traffic: Mapping[ObjectPlace, EndpointTraffic] | None = None,
    *,
    now: float,
    gateway: str,
    counted: tuple[Mapping[str, int], float] = ({}, 0.0),
) -> DashboardSnapshot:
    """A snapshot with what the views look up, which takes longer than a view may: the host calls this in a thread."""
    endpoints = with_traffic(objects["ModelEndpoint"], traffic, now)
    found = {**objects, "ModelEndpoint": endpoints}
    snapshot = DashboardSnapshot.of(found, now=now, gateway=gateway, counted=counted)
    overview_page(snapshot)
    fleet_summary(snapshot)
    cluster_words(snapshot)
    for name, value in vars(DashboardSnapshot).items():
        if isinstance(value, cached_property):
            getattr(snapshot, name)
    return snapshot


def view_json(name: str, snapshot: DashboardSnapshot, query: ViewQuery) -> bytes:
    """NotFoundError for a view or an object that does not exist."""
    if name not in VIEWS:
        raise NotFoundError(f"there is no view {escape(name)}; those are {', '.join(VIEWS)}")
    return to_json(VIEWS[name](snapshot, query))


def to_json(value: object) -> bytes:
    return msgspec.json.encode(_printable(msgspec.to_builtins(value)))


def _printable(value: object) -> object:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, dict):
        return {escape(str(key)): _printable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(inner) for inner in value]
    return value
