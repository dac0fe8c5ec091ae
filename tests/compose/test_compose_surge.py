"""Surge: which replicas are replaced, and when a successor counts."""

from dataclasses import replace

import msgspec
import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelDeployment, ModelDeploymentStatus
from modelplane.compose.contract import ComposeRequest, Local, Observed
from modelplane.compose.fleet_snapshot import fleet_of
from modelplane.compose.rolling_update import RolloutRules
from modelplane.compose.surge import outdated_replicas, rollout_rules, without_unreached

NOW = 1_767_225_600.0
SURGE = {"strategy": "Surge"}


def replica(index, revision, *, since="2026-01-01T00:00:00Z", serves=True, leaving=False):
    conditions = [
        {"type": kind, "status": str(serves), "reason": "X", "lastTransitionTime": since}
        for kind in ("WorkloadReady", "RouteReady")
    ]
    return {
        "metadata": {
            "name": f"r{index}",
            "namespace": "team",
            "labels": {"modelplane.ai/revision": revision} if revision else {},
            **({"deletionTimestamp": since} if leaving else {}),
        },
        "spec": {"clusterName": "east", "index": index, "deployment": {"name": "chat", "uid": "u"}, "engines": []},
        "status": {"conditions": conditions},
    }


def request(*found, now=NOW, replicas=1, **rollout):
    spec = {"rollout": rollout, "replicas": replicas}
    item = {"metadata": {"name": "chat", "namespace": "team", "uid": "u"}, "spec": spec}
    observed = {f"replica-east-{each['spec']['index']}": Observed(Local(each), ready=True) for each in found}
    observed["endpoint-east-0"] = Observed(Local({}), ready=True)
    return ComposeRequest(decode(ModelDeployment, item), observed, now=now)


OLD = [replica(at, "old") for at in range(3)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(request(*OLD), [], id="in place"),
        pytest.param(request(*OLD, **SURGE), [0], id="one at a time"),
        pytest.param(request(*OLD, **SURGE, maxSurge=2), [0, 1], id="two at a time"),
        pytest.param(request(*OLD, **SURGE, paused=True), [], id="paused"),
        pytest.param(request(replica(0, "new"), *OLD[1:], **SURGE), [1], id="those that are new stay"),
        pytest.param(
            request(replica(0, "old", serves=False), *OLD[1:], **SURGE), [1], id="one that is down is updated"
        ),
        pytest.param(
            request(replica(0, "old", leaving=True), *OLD[1:], **SURGE), [1], id="one that leaves goes anyway"
        ),
        pytest.param(request(replica(0, None), **SURGE), [0], id="of before there were revisions"),
        pytest.param(request(**SURGE), [], id="no replicas"),
        pytest.param(request(*OLD, **SURGE, maxSurge=3, canary={}, replicas=3), [0], id="a canary"),
        pytest.param(
            request(*OLD, replica(3, "new"), **SURGE, canary={}, replicas=3), [0], id="a canary beside the old one"
        ),
        pytest.param(request(*OLD[1:], replica(3, "new"), **SURGE, canary={}, replicas=3), [], id="a canary is enough"),
    ],
)
def test_which_replicas_are_replaced(given, expected):
    assert sorted(index for _, index in outdated_replicas(given, "new")) == expected


def test_the_rules_are_those_of_the_deployment():
    assert rollout_rules(request(**SURGE, paused=True, minReadySeconds=30), "new") == RolloutRules(
        paused=True, surge=True, min_ready_s=30.0, now=NOW
    )


def serving(asked, *replicas):
    fleet = without_unreached(fleet_of([], replicas), asked, "new")
    found = sorted(fleet.owned_by(asked.resource.metadata.key), key=lambda each: each.index)
    return [each.serving for each in found]


@pytest.mark.parametrize(("canary", "expected"), [({"canary": {}}, [1]), ({}, [0])])
def test_replicas_of_an_abandoned_canary_go_before_those_of_the_stable_revision(canary, expected):
    made = request(replica(0, "stable"), replica(1, "abandoned"), replicas=2, **SURGE, **canary)
    revisions = [{"revision": at, "hash": name, "template": ""} for at, name in enumerate(("stable", "new"), 1)]
    status = decode(ModelDeploymentStatus, {"rollout": {"stable": "stable"}, "revisions": revisions})
    asked = replace(made, resource=msgspec.structs.replace(made.resource, status=status))
    assert sorted(index for _, index in outdated_replicas(asked, "new")) == expected


@pytest.mark.parametrize(("age_s", "expected"), [(10, [False, True]), (29.5, [False, True]), (30, [True, True])])
def test_a_successor_counts_when_it_has_served_for_long_enough(age_s, expected):
    replicas = [replica(0, "new"), replica(1, "old", since="2025-12-01T00:00:00Z")]
    assert serving(request(*replicas, now=NOW + age_s, minReadySeconds=30), *replicas) == expected


@pytest.mark.parametrize(
    ("others", "ready", "rollout", "expected"),
    [
        pytest.param(["old"], True, SURGE, [True, True], id="its endpoint is ready"),
        pytest.param(["old"], False, SURGE, [False, True], id="its endpoint is not ready"),
        pytest.param(["old"], None, SURGE, [False, True], id="it has no endpoint"),
        pytest.param(["old"], None, {}, [True, True], id="in place nothing leaves for it"),
        pytest.param(["new"], None, SURGE, [True, True], id="no old replica is left"),
    ],
)
def test_a_successor_counts_when_its_endpoint_is_ready(others, ready, rollout, expected):
    replicas = [replica(0, "new"), *(replica(at, each) for at, each in enumerate(others, start=1))]
    asked = request(*replicas, **rollout)
    endpoints = {} if ready is None else {"endpoint-east-0": Observed(Local({}), ready)}
    observed = {key: seen for key, seen in asked.observed.items() if not key.startswith("endpoint-")}
    assert serving(replace(asked, observed={**observed, **endpoints}), *replicas) == expected
