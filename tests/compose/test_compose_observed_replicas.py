"""Replicas as they are observed, where the fleet or they themselves say otherwise."""

from functools import partial

import msgspec
import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelReplica
from modelplane.compose.contract import Local, Observed
from modelplane.compose.observed_replicas import with_observed, without_contradicted
from modelplane.placement.snapshot import Fleet
from modelplane.testing.fleets import assignment, claim, cluster, key, replica

READ = partial(decode, ModelReplica)
CHAT = key("chat", "team")
SERVING = [{"type": kind, "status": "True", "reason": "X"} for kind in ("WorkloadReady", "RouteReady")]


def observed(place, *, cluster_name, index, conditions=SERVING, engines=None):
    """A replica at a place, with a spec that may name another."""
    pod = {"spec": {"containers": [{"name": "engine", "image": "i"}]}}
    claimed = {"name": "gpu", "deviceClassName": "gpu.nvidia.com", "count": 8}
    member = {"role": "Standalone", "nodePoolName": "h200", "deviceRequests": [claimed], "template": pod}
    spec = {
        "clusterName": cluster_name,
        "index": index,
        "deployment": {"name": "chat", "uid": CHAT.uid},
        "engines": [{"name": "main", "members": [member]}] if engines is None else engines,
    }
    item = {"metadata": {"name": f"chat-{place}", "namespace": "team"}, "spec": spec}
    return {f"replica-{place}": Observed(Local({**item, "status": {"conditions": conditions}}), ready=True)}


def owned(fleet):
    return [(found.cluster, found.index, found.serving, bool(found.fault)) for found in fleet.owned_by(CHAT)]


FLEET = [cluster("a"), cluster("b")]


@pytest.mark.parametrize("engines", [None, 7], ids=["readable", "unreadable"])
def test_a_replica_that_names_another_place_counts_at_its_own_and_not_there(engines):
    """The fleet has it where its spec says; nothing is observed there."""
    misread = replica("b", 3, assignment("h200", claim(8)), serving=True)
    seen = observed("a-0", cluster_name="b", index=3, engines=engines)
    found = with_observed(Fleet.of(FLEET, [misread]), CHAT, seen, READ)
    assert owned(found) == [("a", 0, True, True)]


def test_a_place_that_two_replicas_name_keeps_the_one_that_is_observed_there():
    both = {**observed("a-0", cluster_name="b", index=3), **observed("b-3", cluster_name="b", index=3)}
    found = with_observed(Fleet.of(FLEET), CHAT, both, READ)
    assert owned(found) == [("a", 0, True, True), ("b", 3, True, False)]


def test_a_listed_replica_counts_unless_it_is_observed_at_another_place_or_with_another_owner():
    def listed(name, uid=CHAT.uid, **place):
        (item,) = observed(name, **{"cluster_name": "a", "index": 0, **place}).values()
        spec = {**item.manifest["spec"], "deployment": {"name": "chat", "uid": uid}}
        return {**item.manifest, "spec": spec}

    same, unseen = listed("a-0"), listed("b-1", cluster_name="b", index=1)
    others = [listed("a-0", cluster_name="b"), listed("a-0", index=1), listed("a-0", uid="other")]
    seen = observed("a-0", cluster_name="a", index=0)
    assert without_contradicted([same, *others, unseen], CHAT, seen) == [same, unseen]
    # Its endpoint has the same name.
    both = {**seen, "endpoint-a-0": Observed(Local({"metadata": same["metadata"]}), ready=True)}
    assert without_contradicted([same, *others, unseen], CHAT, both) == [same, unseen]


@pytest.mark.parametrize(("deleted", "leaving"), [({}, False), ({"deletionTimestamp": "2026-01-02T00:00:00Z"}, True)])
def test_what_is_known_of_a_replica_that_names_another_place(deleted, leaving):
    seen = observed("a-0", cluster_name="b", index=3)
    item = seen["replica-a-0"].manifest
    metadata = {**item["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z", **deleted}
    given = {"replica-a-0": Observed(Local({**item, "metadata": metadata}), ready=True)}
    (found,) = with_observed(Fleet.of(FLEET), CHAT, given, READ).owned_by(CHAT)
    assert (found.assignments, found.serving, found.created, found.leaving) == (
        (),
        True,
        "2026-01-01T00:00:00Z",
        leaving,
    )


def test_what_an_unreadable_replica_holds_is_known_by_the_fleet():
    known = replica("a", 0, assignment("h200", claim(8)), serving=True)
    found = with_observed(
        Fleet.of(FLEET, [known]), CHAT, observed("a-0", cluster_name="a", index=0, engines=7, conditions=[]), READ
    )
    assert (owned(found), found.owned_by(CHAT)[0].assignments) == ([("a", 0, True, False)], known.assignments)


@pytest.mark.parametrize(
    ("known", "conditions", "serving"),
    [
        pytest.param(True, [], True, id="the fleet says so"),
        pytest.param(False, SERVING, True, id="it says so itself"),
        pytest.param(False, [], False, id="nobody says so"),
    ],
)
@pytest.mark.parametrize("engines", [None, 7], ids=["readable", "unreadable"])
def test_a_replica_serves_when_the_fleet_or_it_itself_says_so(engines, known, conditions, serving):
    listed = replica("a", 0, assignment("h200", claim(8)), serving=known)
    seen = observed("a-0", cluster_name="a", index=0, engines=engines, conditions=conditions)
    assert owned(with_observed(Fleet.of(FLEET, [listed]), CHAT, seen, READ)) == [("a", 0, serving, False)]


def test_a_replica_that_the_fleet_has_and_that_is_not_observed_does_not_serve():
    known = replica("a", 0, assignment("h200", claim(8)), serving=True)
    found = with_observed(Fleet.of(FLEET, [known]), CHAT, {}, READ)
    assert found.owned_by(CHAT) == (msgspec.structs.replace(known, serving=False),)
