"""Services: rows, and one with its tiers, the shares of its endpoints, why some are left out, and how it is called."""

from collections.abc import Iterable

from modelplane.api.codec import decode_readable
from modelplane.api.models import ModelService, ModelServiceStatus, TierEndpoint, TierStatus
from modelplane.compose.canary_analysis import endpoint_traffic
from modelplane.views.fleet_load import MeasuredTraffic, measured_traffic
from modelplane.views.overview import ServiceRow
from modelplane.views.service_load import TokenPrice, token_price
from modelplane.views.services import endpoint_share, why_left_out
from modelplane.web.paging import ViewQuery, select
from modelplane.web.shapes import EndpointOfTier, RowPage, ServicePage, ServiceShown, ServiceTier
from modelplane.web.snapshot import DashboardSnapshot, ObjectPlace
from modelplane.web.timeline import events_about
from modelplane.web.trees import object_tree

_MOST_ENDPOINTS = 200


def services_page(snapshot: DashboardSnapshot, query: ViewQuery) -> RowPage[ServiceShown]:
    ours = (row for row in snapshot.overview.services if query.namespace in {"", row.namespace})
    return select(ours, query, words=_words, state=lambda row: row.health.state, show=lambda row: _shown(snapshot, row))


def service_page(snapshot: DashboardSnapshot, query: ViewQuery) -> ServicePage:
    place = (query.namespace, query.name)
    tree, omitted = object_tree(snapshot, "ModelService", place)
    row = next(row for row in snapshot.overview.services if (row.namespace, row.name) == place)
    tiers = _status(snapshot, place).tiers
    return ServicePage(
        service=_shown(snapshot, row),
        tiers=tuple(_tier(snapshot, query.namespace, tier) for tier in tiers),
        tree=tree,
        omitted=omitted,
        events=events_about(snapshot, "ModelService", *place),
    )


def _status(snapshot: DashboardSnapshot, place: ObjectPlace) -> ModelServiceStatus:
    """Empty where the service cannot be read: its row says so."""
    found = decode_readable(ModelService, (snapshot.objects["ModelService"][place],))
    return next((item.status for item in found), ModelServiceStatus())


def _words(row: ServiceRow) -> str:
    return f"{row.namespace}/{row.name} {row.address} {row.health.why}"


def _shown(snapshot: DashboardSnapshot, row: ServiceRow) -> ServiceShown:
    status = _status(snapshot, (row.namespace, row.name))
    names = (entry.name for tier in status.tiers for entry in tier.endpoints)
    return ServiceShown(
        namespace=row.namespace,
        name=row.name,
        health=row.health,
        model=status.model or "",
        address=row.address,
        endpoints=row.endpoints,
        serving=row.serving,
        routes_ready=(status.routes.ready if status.routes else None) or 0,
        routes=(status.routes.total if status.routes else None) or 0,
        traffic=_traffic(snapshot, row.namespace, names),
        token_price=_token_price(snapshot, row),
    )


def _token_price(snapshot: DashboardSnapshot, row: ServiceRow) -> TokenPrice | None:
    tokens, seconds = snapshot.counted
    number = tokens.get(f"{row.namespace}/{row.name}", 0)
    load = snapshot.services.get((row.namespace, row.name)) if number else None
    return token_price(load.price, number, seconds) if load is not None else None


def _tier(snapshot: DashboardSnapshot, namespace: str, tier: TierStatus) -> ServiceTier:
    percent = tier.share_percent or 0
    return ServiceTier(
        priority=tier.priority,
        share_percent=percent,
        matched=tier.matched or 0,
        ready=tier.ready or 0,
        endpoints=tuple(_endpoint(snapshot, namespace, entry, percent) for entry in tier.endpoints[:_MOST_ENDPOINTS]),
    )


def _endpoint(snapshot: DashboardSnapshot, namespace: str, entry: TierEndpoint, percent: int) -> EndpointOfTier:
    return EndpointOfTier(
        name=entry.name,
        group=entry.group or "",
        cluster=entry.cluster or "",
        share_percent=endpoint_share(percent, entry.share_permille or 0),
        why=why_left_out(entry.reason or "", entry.message or ""),
        traffic=_traffic(snapshot, namespace, (entry.name,)),
    )


def _traffic(snapshot: DashboardSnapshot, namespace: str, names: Iterable[str]) -> MeasuredTraffic | None:
    known = snapshot.objects["ModelEndpoint"]
    items = (known[namespace, name] for name in names if (namespace, name) in known)
    return measured_traffic([found for item in items if (found := endpoint_traffic(item, snapshot.now)) is not None])
