"""Every field of a deployment that placement reads reaches it."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import LabelSelector, ModelDeployment, Toleration
from modelplane.compose.placement_request import placement_request
from modelplane.placement.request import (
    CacheRequest,
    EngineRequest,
    FailoverPolicy,
    MemberRequest,
    NodeDeviceRequest,
    PlacementRequest,
    Preference,
    RebalancePolicy,
    ScoreWeights,
    SpreadRule,
)

TEMPLATE = {"spec": {"containers": [{"name": "engine", "image": "vllm"}]}}
EAST = LabelSelector(match_labels={"region": "east"})


def read(spec, status=None):
    metadata = {"name": "chat", "namespace": "team", "uid": "u"}
    return placement_request(decode(ModelDeployment, {"metadata": metadata, "spec": spec, "status": status or {}}))


def test_a_plain_deployment_asks_with_defaults():
    plain = read({"nodeSelector": {"devices": [{"name": "gpu"}]}, "workers": {"template": TEMPLATE}})
    engine = EngineRequest("main", 1, (MemberRequest(1, (NodeDeviceRequest("gpu", 1, ()),)),))
    assert plain == PlacementRequest(deployment=plain.deployment, replicas=1, engines=(engine,), check=plain.check)
    assert str(plain.deployment) == "team/chat"


def test_everything_that_can_be_said_is_heard():
    east = {"matchLabels": {"region": "east"}}
    asked = read(
        {
            "replicas": 4,
            "priority": "gold",
            "preemptionPolicy": "PreemptLowerPriority",
            "protected": True,
            "clusterSelector": east,
            "tolerations": [{"key": "team", "operator": "Exists"}],
            "placement": {
                "spread": [
                    {"topologyKey": "region", "maxSkew": 2},
                    {"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
                ],
                "required": [east],
                "preferred": [{"weight": 5, "selector": east}],
                "weights": {"price": 0, "spread": 7},
                "tiers": [east, {}],
                "rebalance": {"triggers": ["Tier", "Cost"], "minSavingPercent": 30, "intervalSeconds": 60},
            },
            "failover": {"policy": "Never", "gracePeriodSeconds": 5},
            "caches": [{"name": "a"}, {"name": "b", "policy": "Preferred"}],
            "nodeSelector": {"devices": [{"name": "gpu", "count": 8, "selectors": [{"cel": "true"}]}]},
            "workers": {"count": 2, "topology": {"tensor": 8, "pipeline": 3}, "template": TEMPLATE},
        },
        {"placement": {"preemption": {"cluster": "east", "replicas": ["r-1"]}}},
    )
    wanted = (NodeDeviceRequest("gpu", 8, ("true",)),)
    assert asked == PlacementRequest(
        deployment=asked.deployment,
        replicas=4,
        engines=(EngineRequest("main", 2, (MemberRequest(1, wanted), MemberRequest(2, wanted))),),
        cluster_selector=EAST,
        required=(EAST,),
        tiers=(EAST, LabelSelector()),
        rebalance=RebalancePolicy(tier=True, cost=True, min_saving=0.3, interval_s=60.0),
        preferred=(Preference(5, EAST),),
        spread=(SpreadRule("region", 2), SpreadRule("zone", 1, hard=False)),
        tolerations=(Toleration(key="team", operator="Exists"),),
        failover=FailoverPolicy(replace=False, grace_s=5.0),
        caches=(CacheRequest("a"), CacheRequest("b", required=False)),
        weights=ScoreWeights(price=0.0, spread=7.0),
        priority="gold",
        may_preempt=True,
        protected=True,
        nominated_victims=frozenset({"r-1"}),
        check=asked.check,
    )


@pytest.mark.parametrize(
    ("trigger", "policy"),
    [
        ("Tier", RebalancePolicy(tier=True)),
        ("Spread", RebalancePolicy(spread=True)),
        ("Cost", RebalancePolicy(cost=True)),
    ],
)
def test_replicas_move_by_the_trigger_that_is_named(trigger, policy):
    assert read({"placement": {"rebalance": {"triggers": [trigger]}}}).rebalance == policy
