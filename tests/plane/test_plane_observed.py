"""Observed is input, on the embedded plane: statuses are lost or garbled, clusters and replicas are missing.

A deployment and its replicas are reconciled over a real store until nothing changes. Then statuses are damaged, the
fleet loses clusters and replicas, and the deployment is reconciled again: no replica and no endpoint is deleted.
"""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.apiserver.store.database import Database
from modelplane.compose.fleet_snapshot import fleet_of
from modelplane.compose.registry import COMPOSERS
from modelplane.plane.composition import Composition
from modelplane.plane.ownership import Ownership, UsageIndex
from modelplane.plane.requirements import Requirements
from modelplane.reconcile.store import ObjectRef
from modelplane.testing.clock import VirtualClock
from tests.support import settled

GROUP = "modelplane.ai"
DEPLOYMENT = ObjectRef(GROUP, "ModelDeployment", "team", "chat")
KINDS = ("ModelReplica", "ModelEndpoint")
SERVING = settled.as_observed({"kind": "ModelReplica", "metadata": {"name": "r"}})["status"]
STATUSES = ({}, {"conditions": []}, {"conditions": None}, {"conditions": [7, {"type": []}]}, {"gpuPools": []})
pytestmark = pytest.mark.slow


class Host:
    """A Composition over a real store, with a fleet that may lack some of what is stored."""

    def __init__(self, clusters, replicas):
        clock = VirtualClock()
        uids = iter(f"uid-{number}" for number in range(1, 1000))
        self.plane = Database(None, clock=clock, new_id=lambda: next(uids)).store("plane")
        self.hidden = frozenset()
        ownership, uses = Ownership(is_reachable=lambda _name: True), UsageIndex()
        ownership.add_store(None, self.plane)
        self.plane.subscribe(lambda change: ownership.on_change(None, change))
        self.plane.subscribe(uses.on_change)
        self.composition = Composition(
            plane=self.plane,
            clusters=lambda _name: None,
            ownership=ownership,
            uses=uses,
            requirements=Requirements(self.plane),
            fleet=self.fleet,
            clock=clock,
            admitted=lambda item: item,
            record=lambda _owner, _result: None,
            on_unreachable=lambda _ref, _cluster: None,
            composers=COMPOSERS,
        )
        for name in clusters:
            self.plane.create(settled.make_cluster(name))
        composite = copy.deepcopy(settled.deployment("b", 1, 8).composite)
        self.plane.create({**composite, "spec": {**composite["spec"], "replicas": replicas}, "status": {}})
        for _ in range(3):
            self.reconcile()

    def listed(self, kind):
        return self.plane.list(GROUP, kind, namespace=None, labels={})

    def fleet(self):
        shown = [item for item in self.listed("InferenceCluster") if item["metadata"]["name"] not in self.hidden]
        replicas = [item for item in self.listed("ModelReplica") if item["metadata"]["name"] not in self.hidden]
        return fleet_of(shown, replicas)

    def reconcile(self):
        """A pass, and what is new serves."""
        before = self.names()
        self.composition.reconcile(DEPLOYMENT)
        for kind in KINDS:
            for item in self.listed(kind):
                if (kind, item["metadata"]["name"]) not in before:
                    self.plane.replace_status({**item, "status": copy.deepcopy(SERVING)})

    def names(self):
        return {(kind, item["metadata"]["name"]) for kind in KINDS for item in self.listed(kind)}


@pytest.mark.parametrize(("clusters", "replicas"), [("b", 2), ("bc", 3)])
@given(
    chosen=st.lists(st.tuples(st.integers(0, 20), st.sampled_from(STATUSES)), max_size=4),
    hidden=st.sets(st.integers(0, 20), max_size=3),
)
@settings(max_examples=75)
def test_no_replica_or_endpoint_is_deleted(clusters, replicas, chosen, hidden):
    host = Host(clusters, replicas)
    before = host.names()
    assert len(before) == 2 * replicas
    host.plane.create(settled.make_cluster("0"))
    stored = [item for kind in ("InferenceCluster", *KINDS) for item in host.listed(kind)]
    for index, status in chosen:
        item = stored[index % len(stored)]
        ref = ObjectRef(GROUP, item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        host.plane.replace_status({**host.plane.get(ref), "status": status})
    host.hidden = frozenset(stored[index % len(stored)]["metadata"]["name"] for index in hidden)
    for _ in range(3):
        host.reconcile()
        assert before <= host.names()
