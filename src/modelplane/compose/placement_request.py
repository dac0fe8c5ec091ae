"""The PlacementRequest of a ModelDeployment."""

from modelplane.api.models import ModelDeployment, ModelDeploymentSpec, Rebalance, Weights
from modelplane.compose.lowering import Lowered, lower
from modelplane.compose.render_check import RenderCheck
from modelplane.placement.request import (
    CacheRequest,
    FailoverPolicy,
    PlacementRequest,
    Preference,
    RebalancePolicy,
    ScoreWeights,
    SpreadRule,
)


def placement_request(deployment: ModelDeployment, lowered: Lowered | None = None) -> PlacementRequest:
    spec = deployment.spec
    lowered = lowered or lower(spec)
    placement = spec.placement
    return PlacementRequest(
        deployment=deployment.metadata.key,
        replicas=spec.replicas,
        engines=tuple(engine.request() for engine in lowered.engines),
        cluster_selector=lowered.cluster_selector,
        required=placement.required if placement else (),
        preferred=tuple(Preference(found.weight, found.selector) for found in placement.preferred) if placement else (),
        spread=_spread(spec),
        tiers=placement.tiers if placement else (),
        rebalance=_rebalance(placement.rebalance) if placement and placement.rebalance else None,
        tolerations=lowered.tolerations,
        failover=failover_policy(spec),
        caches=tuple(CacheRequest(cache.name, not cache.preferred) for cache in lowered.caches),
        weights=_weights(placement.weights if placement else None),
        priority=spec.priority,
        may_preempt=spec.preemption_policy == "PreemptLowerPriority",
        protected=spec.protected,
        nominated_victims=_nominated_victims(deployment),
        check=RenderCheck(deployment, lowered),
    )


def failover_policy(spec: ModelDeploymentSpec) -> FailoverPolicy:
    return FailoverPolicy(spec.failover.policy == "Replace", float(spec.failover.grace_period_seconds))


def _spread(spec: ModelDeploymentSpec) -> tuple[SpreadRule, ...]:
    rules = spec.placement.spread if spec.placement else ()
    return tuple(
        SpreadRule(rule.topology_key, rule.max_skew, rule.when_unsatisfiable == "DoNotSchedule") for rule in rules
    )


def _rebalance(rebalance: Rebalance) -> RebalancePolicy:
    triggers = set(rebalance.triggers)
    return RebalancePolicy(
        tier="Tier" in triggers,
        spread="Spread" in triggers,
        cost="Cost" in triggers,
        min_saving=rebalance.min_saving_percent / 100,
        interval_s=float(rebalance.interval_seconds),
    )


def _weights(weights: Weights | None) -> ScoreWeights:
    if weights is None:
        return ScoreWeights()
    given = {name: getattr(weights, name) for name in ScoreWeights.__struct_fields__}
    return ScoreWeights(**{name: float(value) for name, value in given.items() if value is not None})


def _nominated_victims(deployment: ModelDeployment) -> frozenset[str]:
    placement = deployment.status.placement
    preemption = placement.preemption if placement is not None else None
    return frozenset(preemption.replicas) if preemption is not None else frozenset()
