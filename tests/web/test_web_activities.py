"""What goes on: failovers, roll-outs, drains and staging, the soonest first."""

import pytest

from modelplane.web.activities import activities
from modelplane.web.shapes import Activity
from modelplane.web.snapshot import DashboardSnapshot
from tests.support.dashboard_fleet import NOW, by_kind, cache, cluster, deployment, fleet_objects, pool, ready, rolling

DRAINED = {"startTime": "2026-08-29T10:00:00Z", "deadline": "2026-08-29T11:00:00Z", "replicas": 0, "total": 3,
           "summary": "no replica is left"}  # fmt: skip
STAGED = {"name": "east", "phase": "Ready", "stagedBytes": 5, "totalBytes": 5}
UNSIZED = {"name": "west", "phase": "Hydrating"}


def halted():
    found = rolling("m", "team")
    condition = {"type": "Progressing", "status": "False", "reason": "RolloutHalted", "message": "revision 2: errors"}
    rollout = {**found["status"]["rollout"], "canary": None, "halted": {"message": "errors"}}
    return {**found, "status": {**found["status"], "rollout": rollout, "conditions": [ready(), condition]}}


CASES = [
    ("nothing", [cluster("east", pool()), deployment("a", 1, conditions=[ready()])], []),
    ("a drain that is done has no deadline", [cluster("east", pool(), drain=DRAINED)],
     [Activity(kind="Drain", object_kind="InferenceCluster", name="east", state="Drained",
               message="no replica is left", percent=100)]),
    ("a cache that is staged", [cache("c", STAGED)], []),
    ("a cache whose size is not known", [cache("c", STAGED, UNSIZED)],
     [Activity(kind="Staging", object_kind="ModelCache", namespace="default", name="c", state="Hydrating",
               message="")]),
    ("software that is up to date", [cluster("east", pool(), software={"phase": "UpToDate", "release": "a1"})], []),
    ("an upgrade without waves", [cluster("east", pool(), software={"phase": "Upgrading", "release": "b2"})],
     [Activity(kind="Upgrade", object_kind="InferenceCluster", name="east", state="Upgrading", message="release b2")]),
    ("a cluster that waits for its wave", [
        cluster("east", pool(), software={"phase": "Waiting", "message": "wave 0 is not healthy"},
                spec={"software": {"upgrade": {"wave": 1}}})],
     [Activity(kind="Upgrade", object_kind="InferenceCluster", name="east", state="Waiting",
               message="wave 1: wave 0 is not healthy")]),
    ("a roll-out that was halted", [halted()],
     [Activity(kind="Rollout", object_kind="ModelDeployment", namespace="team", name="m", state="Halted",
               message="revision 2: errors", percent=25)]),
    ("a roll-out that is complete", [
        {**rolling("m", "team"), "status": {**rolling("m", "team")["status"], "rollout": {"complete": True}}}], []),
]  # fmt: skip


def found_in(objects):
    return list(activities(DashboardSnapshot.of(by_kind(objects), now=NOW)))


@pytest.mark.parametrize(("objects", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_goes_on(objects, expected):
    assert found_in(objects) == expected


def test_the_soonest_comes_first():
    found = [(each.kind, each.until) for each in found_in(fleet_objects())]
    assert found == [
        ("Rollout", "2026-08-29T10:41:10Z"),
        ("Failover", "2026-08-29T10:43:00Z"),
        ("Drain", "2026-08-29T10:55:00Z"),
        ("Staging", ""),
        ("Upgrade", ""),
    ]
