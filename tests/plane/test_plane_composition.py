"""One pass over a composite, in memory: what it writes, deletes and reports, and what it returns."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.conditions import ConditionType, holds
from modelplane.api.meta import ClusterName
from modelplane.api.models import ModelReplica
from modelplane.api.objects import manifest, name_of
from modelplane.api.reasons import Reason
from modelplane.apiserver.store.database import Database
from modelplane.compose.contract import (
    ComposeResult,
    Desired,
    Event,
    EventType,
    Helm,
    Local,
    ReadyWhen,
    Remote,
    Requirement,
    Use,
)
from modelplane.compose.registry import RegisteredKind
from modelplane.placement.snapshot import Fleet
from modelplane.plane.composition import FINALIZER, Composition, NotOursError
from modelplane.plane.ownership import Ownership, UsageIndex
from modelplane.plane.requirements import Requirements
from modelplane.reconcile.outcomes import Done, RequeueAfter
from modelplane.reconcile.store import ObjectRef
from modelplane.testing.clock import VirtualClock

EAST = ClusterName("east")
REPLICA = ObjectRef("modelplane.ai", "ModelReplica", "team", "r")
CLUSTER = ObjectRef("modelplane.ai", "InferenceCluster", "", EAST)
OWNED = {"modelplane.ai/owner": "modelplane.ai/ModelReplica/team/r/uid-1", "modelplane.ai/composition-key": "a"}
SPEC = {"clusterName": "east", "index": 0, "engines": []}
CREATED = {"modelplane.ai/ready-when": "Created"}


def config_map(name="a", **data):
    return manifest("v1", "ConfigMap", name, namespace="team", data=data)


class Bench:
    """A Composition over a real store; `result` is what the composer returns, `calls` what it was given."""

    def __init__(self):
        self.clock = VirtualClock()
        uids = iter(f"uid-{number}" for number in range(1, 1000))
        self.database = Database(None, clock=self.clock, new_id=lambda: next(uids))
        self.plane, self.east = self.database.store("plane"), self.database.store("cluster/east")
        self.reachable, self.result = True, ComposeResult()
        self.calls, self.events, self.missed = [], [], []
        stores = {EAST: self.east}
        clusters = lambda name: stores.get(name) if self.reachable else None  # noqa: E731
        self.ownership, self.uses = Ownership(is_reachable=lambda _name: self.reachable), UsageIndex()
        for cluster, store in ((None, self.plane), (EAST, self.east)):
            self.ownership.add_store(cluster, store)
            store.subscribe(lambda change, cluster=cluster: self.ownership.on_change(cluster, change))
        self.plane.subscribe(self.uses.on_change)
        self.composition = Composition(
            plane=self.plane,
            clusters=clusters,
            ownership=self.ownership,
            uses=self.uses,
            requirements=Requirements(self.plane, clusters),
            fleet=Fleet.of,
            clock=self.clock,
            admitted=lambda item: item,
            record=lambda owner, result: self.events.extend((owner.ref, event) for event in result.events),
            on_unreachable=lambda ref, cluster: self.missed.append((ref, cluster)),
            composers={"ModelReplica": RegisteredKind(ModelReplica, self._compose)},
        )
        self.plane.create(manifest("modelplane.ai/v1alpha1", "ModelReplica", "r", namespace="team", spec=SPEC))

    def _compose(self, request):
        self.calls.append(request)
        return self.result(request) if callable(self.result) else self.result

    def run(self, result=None, **desired):
        self.result = result or ComposeResult(desired={key: Desired(target) for key, target in desired.items()})
        return self.composition.reconcile(REPLICA)

    def delete(self):
        self.plane.delete(REPLICA)
        return self.composition.reconcile(REPLICA)

    @property
    def replica(self):
        return self.plane.get(REPLICA)

    @property
    def conditions(self):
        return {each["type"]: each for each in self.replica["status"]["conditions"]}

    def names(self, store=None):
        return [name_of(item) for item in (store or self.plane).list("", "ConfigMap")]


@pytest.fixture
def bench():
    return Bench()


def test_a_composite_that_is_gone_is_done(bench):
    bench.plane.delete(REPLICA)
    assert (bench.run(), bench.calls) == (Done(), [])


def test_the_composer_gets_the_resource_the_observed_and_the_required_objects(bench):
    wanted = {"cluster": Requirement("modelplane.ai/v1alpha1", "InferenceCluster", "east")}
    bench.plane.create(manifest("modelplane.ai/v1alpha1", "InferenceCluster", "east", spec={}))
    bench.run(a=Local(config_map()))
    bench.calls.clear()
    bench.run(ComposeResult(desired={"a": Desired(Local(config_map()))}, requirements=wanted))
    first, second = bench.calls
    assert (first.required, second.required) == ({}, {"cluster": (bench.plane.get(CLUSTER),)})
    assert second.resource == decode(ModelReplica, bench.replica)
    stored = bench.plane.get(ObjectRef("", "ConfigMap", "team", "a"))
    assert {key: (each.manifest, each.ready) for key, each in second.observed.items()} == {"a": (stored, True)}
    assert second.now == bench.clock.now()
    bench.calls.clear()
    bench.run(bench.result)
    assert len(bench.calls) == 1


def test_requirements_that_never_settle_are_a_defect(bench):
    def restless(_request):
        return ComposeResult(requirements={str(len(bench.calls)): Requirement("v1", "Secret", "s", "team")})

    with pytest.raises(RuntimeError, match="ModelReplica team/r: requirements still change after 5 rounds"):
        bench.run(restless)


@pytest.mark.parametrize(
    ("target", "store", "annotations"),
    [
        (Local(config_map(k="v")), "plane", {**OWNED, **CREATED}),
        (Remote(EAST, config_map(k="v"), ReadyWhen.READY), "east", {**OWNED, "modelplane.ai/ready-when": "Ready"}),
        (Remote(EAST, config_map(k="v"), shared=True), "east", None),
    ],
    ids=["local", "remote", "shared"],
)
def test_a_desired_object_is_written_with_its_owner(bench, target, store, annotations):
    assert bench.run(a=target) == Done()
    (made,) = getattr(bench, store).list("", "ConfigMap")
    assert made["data"] == {"k": "v"}
    assert made["metadata"].get("annotations") == annotations
    assert bench.replica["metadata"]["finalizers"] == [FINALIZER]


def test_the_same_result_again_writes_nothing(bench):
    for _ in range(2):
        bench.run(a=Local(config_map(k="v")), b=Remote(EAST, config_map("b")))
        revisions = bench.plane.revision, bench.east.revision
    bench.run(bench.result)
    assert (bench.plane.revision, bench.east.revision) == revisions


def test_a_changed_object_keeps_its_status_and_what_others_wrote_on_it(bench):
    bench.run(a=Local(manifest("v1", "ConfigMap", "a", namespace="team", labels={"x": "1"}, data={"k": "old"})))
    (made,) = bench.plane.list("", "ConfigMap")
    annotations = {**made["metadata"]["annotations"], "theirs": "kept"}
    made = bench.plane.replace({**made, "metadata": {**made["metadata"], "annotations": annotations}})
    bench.plane.replace_status({**made, "status": {"seen": True}})
    bench.run(a=Local(config_map(k="new")))
    (after,) = bench.plane.list("", "ConfigMap")
    assert (after["data"], after["status"]) == ({"k": "new"}, {"seen": True})
    assert after["metadata"]["annotations"] == {**OWNED, **CREATED, "theirs": "kept"}
    assert "labels" not in after["metadata"]


def test_an_object_of_somebody_else_is_not_overwritten(bench):
    bench.plane.create(config_map(k="theirs"))
    with pytest.raises(NotOursError, match=r"ConfigMap team/a exists and was not composed by ModelReplica team/r"):
        bench.run(a=Local(config_map(k="ours")))
    assert bench.plane.list("", "ConfigMap")[0]["data"] == {"k": "theirs"}


def test_an_object_that_is_not_desired_any_more_is_deleted_after_those_it_outlives(bench):
    route, backend = Desired(Local(config_map("route"))), Desired(Local(config_map("backend")), outlives=("route",))
    bench.run(ComposeResult(desired={"route": route, "backend": backend}))
    left = []
    for _ in range(2):
        bench.run(ComposeResult())
        left.append(bench.names())
    assert left == [["backend"], []]


def test_a_chart_is_released_by_an_object_of_the_plane(bench):
    bench.run(a=Helm(EAST, "chart", "https://example.org", "1.0.0", "team", {"replicas": 2}, "mp-chart"))
    (found,) = bench.plane.list("helm.m.crossplane.io", "Release")
    assert found["metadata"]["namespace"] == "modelplane-system"
    assert found["metadata"]["annotations"]["crossplane.io/external-name"] == "mp-chart"
    assert found["spec"]["forProvider"]["values"] == {"replicas": 2}
    bench.run(a=Helm(EAST, "chart", "https://example.org", "1.0.0", "team", {"replicas": 2}, "mp-chart"))
    observed = bench.calls[-1].observed["a"]
    assert (observed.ready, observed.target.ready_when.value) == (False, "Ready")


@pytest.mark.parametrize(
    ("reachable", "requeue_after_s", "outcome", "missed"),
    [
        (True, None, Done(), []),
        (True, 30.0, RequeueAfter(30.0), []),
        (False, None, RequeueAfter(5.0), [(REPLICA, EAST)]),
        (False, 2.0, RequeueAfter(2.0), [(REPLICA, EAST)]),
        (False, 30.0, RequeueAfter(5.0), [(REPLICA, EAST)]),
    ],
)
def test_when_the_composite_is_reconciled_again(bench, reachable, requeue_after_s, outcome, missed):
    bench.reachable = reachable
    desired = {"a": Desired(Remote(EAST, config_map()))}
    assert bench.run(ComposeResult(desired=desired, requeue_after_s=requeue_after_s)) == outcome
    assert (bench.missed, bench.names(bench.east)) == (missed, ["a"] if reachable else [])


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (ComposeResult(), ("True", "Available", None)),
        (ComposeResult(desired={"b": Desired(Local(config_map()))}), ("False", "Creating", "not ready: b")),
        (
            ComposeResult(ready=holds(ConditionType.READY, Reason.AVAILABLE, "as said")),
            ("True", "Available", "as said"),
        ),
    ],
    ids=["nothing composed", "derived", "the composer's own"],
)
def test_the_ready_condition(bench, result, expected):
    bench.run(result)
    ready = bench.conditions["Ready"]
    assert (ready["status"], ready["reason"], ready.get("message") or None) == expected
    assert ready["observedGeneration"] == 1


def test_events_are_recorded_with_their_owner(bench):
    event = Event(EventType.NORMAL, Reason.AVAILABLE, "it serves")
    bench.run(ComposeResult(events=(event,)))
    assert bench.events == [(REPLICA, event)]


def test_what_is_used_is_written_on_the_user_and_kept_from_deletion(bench):
    used = Use("modelplane.ai/v1alpha1", "ModelReplica", "r", "team")
    user = ObjectRef("modelplane.ai", "ModelReplica", "team", "user")
    bench.plane.create(manifest("modelplane.ai/v1alpha1", "ModelReplica", "user", namespace="team", spec=SPEC))
    bench.run(ComposeResult())
    bench.result = ComposeResult(uses=(used,))
    bench.composition.reconcile(user)
    written = bench.plane.get(user)["metadata"]["annotations"]
    assert written == {"modelplane.ai/uses": "modelplane.ai/ModelReplica/team/r"}
    assert bench.delete() == RequeueAfter(1.0)
    held = bench.conditions["Deletable"]
    assert (held["status"], held["reason"], held["message"]) == ("False", "InUse", "in use by ModelReplica user")
    ready = bench.conditions["Ready"]
    assert (ready["status"], ready["reason"], ready["message"]) == ("False", "Deleting", held["message"])
    bench.result = ComposeResult()
    bench.composition.reconcile(user)
    assert "annotations" not in bench.plane.get(user)["metadata"]
    assert (bench.composition.reconcile(REPLICA), bench.replica) == (Done(), None)


def test_a_deleted_composite_waits_for_its_objects(bench):
    bench.run(a=Local({**config_map(), "metadata": {**config_map()["metadata"], "finalizers": ["theirs"]}}))
    assert bench.delete() == RequeueAfter(1.0)
    (left,) = bench.plane.list("", "ConfigMap")
    assert "deletionTimestamp" in left["metadata"]
    ready = bench.conditions["Ready"]
    assert (ready["reason"], ready["message"]) == ("Deleting", "waiting for the deletion of 1 composed object")
    bench.plane.replace({**left, "metadata": {**left["metadata"], "finalizers": []}})
    assert (bench.composition.reconcile(REPLICA), bench.replica) == (Done(), None)


def test_objects_on_an_unreachable_cluster_are_abandoned_once_the_cluster_was_deleted_for_300_s(bench):
    cluster = manifest("modelplane.ai/v1alpha1", "InferenceCluster", "east", spec={})
    bench.plane.create({**cluster, "metadata": {"name": "east", "finalizers": ["theirs"]}})
    bench.run(a=Remote(EAST, config_map("a")), b=Remote(EAST, config_map("b")))
    bench.reachable = False
    outcomes, messages = [bench.delete()], [bench.conditions["Deletable"]["message"]]
    bench.plane.delete(CLUSTER)
    outcomes.append(bench.composition.reconcile(REPLICA))
    messages.append(bench.conditions["Deletable"]["message"])
    waits = "waiting for the deletion of 2 composed objects on east, which is unreachable; "
    assert outcomes == [RequeueAfter(1.0)] * 2
    assert messages[0] == waits + "deleting the InferenceCluster abandons them"
    assert messages[1].startswith(waits + "abandoned at 2")
    assert bench.conditions["Deletable"]["reason"] == "WaitingForCluster"
    bench.clock.advance(300)
    assert (bench.composition.reconcile(REPLICA), bench.replica) == (Done(), None)
    assert bench.names(bench.east) == ["a", "b"]
