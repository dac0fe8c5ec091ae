"""The status of a service from its plan: what each tier has, its share, and why an endpoint is left out."""

from collections.abc import Iterable

from modelplane.api.models import TierEndpoint, TierStatus
from modelplane.compose.service_plan import PlanEndpoint, PlanTier, ServicePlan

MOST_ENDPOINTS = 64
_NO_WEIGHT = "NoWeight"


def tier_statuses(plan: ServicePlan) -> tuple[TierStatus, ...]:
    """All requests go to the first tier that can answer; the others take over when it cannot."""
    first = plan.serving[0].priority if plan.serving else None
    return tuple(_tier(tier, 100 if tier.priority == first else 0) for tier in plan.tiers)


def _tier(tier: PlanTier, share: int) -> TierStatus:
    shown = sorted(tier.endpoints, key=lambda endpoint: (endpoint.serves, endpoint.key))[:MOST_ENDPOINTS]
    total = sum(endpoint.weight for endpoint in tier.endpoints)
    return TierStatus(
        priority=tier.priority,
        share_percent=share,
        matched=len(tier.endpoints),
        ready=sum(endpoint.ready for endpoint in tier.endpoints),
        endpoints=tuple(_endpoint(endpoint, total) for endpoint in _by_name(shown)),
    )


def _by_name(endpoints: Iterable[PlanEndpoint]) -> list[PlanEndpoint]:
    return sorted(endpoints, key=lambda endpoint: endpoint.key)


def _endpoint(endpoint: PlanEndpoint, total: int) -> TierEndpoint:
    reason, message = endpoint.reason, endpoint.message
    if endpoint.ready and not endpoint.weight:
        reason, message = _NO_WEIGHT, f"the weight of group {endpoint.group} is 0"
    return TierEndpoint(
        name=endpoint.name,
        group=endpoint.group,
        cluster=endpoint.cluster,
        share_permille=endpoint.weight * 1000 // total if total else 0,
        reason=reason or None,
        message=message or None,
    )
