"""The plane's side of the embedded plane on a real store, with the cluster's side played by hand."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from modelplane.api.codec import decode
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceClass
from modelplane.api.objects import with_metadata
from modelplane.apiserver.store.database import Database
from modelplane.plane.controller import PlaneController
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster import ClusterSettings, NodePoolSpec
from modelplane.sim.cluster.controller import ControllerContext
from modelplane.sim.cluster.nodes import Nodes
from modelplane.testing.clock import run_virtual

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
GATEWAY_API = "gateway.networking.k8s.io"
ROUTED = [{"conditions": [{"type": "Accepted", "status": "True"}, {"type": "ResolvedRefs", "status": "True"}]}]


class Fleet:
    """A controller with the quickstart applied and two clusters that report what they are told."""

    def __init__(self, clock, database=None):
        self.database = database or Database(None, clock=clock)
        self.controller = PlaneController(self.database, clock, admitted=lambda manifest: manifest)
        self.plane = self.controller.plane
        self.clusters = {name: self.controller.add_cluster(ClusterName(name)) for name in ("east", "west")}
        for name, store in self.clusters.items():
            publish_nodes(name, store, clock)

    def apply_quickstart(self):
        for path in sorted(EXAMPLES.glob("*.yaml")):
            for manifest in yaml.safe_load_all(path.read_text()):
                self.plane.create(manifest)

    async def settle(self):
        assert await self.controller.loop.settle(60)

    async def gateways_get_addresses(self):
        for port, store in enumerate((self.plane, *self.clusters.values()), start=10000):
            address = [{"type": "IPAddress", "value": f"127.0.0.1:{port}"}]
            self.report(store, GATEWAY_API, "Gateway", addresses=address)
        await self.settle()

    async def workloads_become_available(self, *names):
        for name in names or self.clusters:
            store = self.clusters[name]
            available = [{"type": "Available", "status": "True"}]
            self.report(store, "apps", "Deployment", conditions=available, availableReplicas=1)
            self.report(store, GATEWAY_API, "HTTPRoute", parents=ROUTED)
        await self.settle()

    def roll_out(self):
        """Every workload runs its newest spec."""
        available = [{"type": "Available", "status": "True"}]
        counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
        for store in self.clusters.values():
            for item in store.list("apps", "Deployment"):
                status = {"conditions": available, "observedGeneration": item["metadata"]["generation"], **counts}
                store.replace_status({**item, "status": status})

    async def routes_take_effect(self):
        self.report(self.plane, GATEWAY_API, "HTTPRoute", parents=ROUTED)
        await self.settle()

    def report(self, store, group, kind, **status):
        for manifest in store.list(group, kind):
            store.replace_status({**manifest, "status": status})

    def one(self, kind, name=None):
        found = [m for m in self.plane.list("modelplane.ai", kind) if name in {None, m["metadata"]["name"]}]
        assert len(found) == 1
        return found[0]

    def conditions(self, kind, name=None):
        return {c["type"]: (c["status"], c["reason"]) for c in self.one(kind, name)["status"]["conditions"]}

    def delete(self, kind, name, namespace=""):
        self.plane.delete(ObjectRef("modelplane.ai", kind, namespace, name))


def publish_nodes(name, store, clock):
    """The hardware that the quickstart declares."""
    (hardware,) = yaml.safe_load_all((EXAMPLES / "1-hardware.yaml").read_text())
    nodes = Nodes(ControllerContext(name, store, clock, ClusterSettings()))
    nodes.set_pools([NodePoolSpec(name="h200", nodes=2, devices=decode(InferenceClass, hardware).spec.devices)])
    nodes.reconcile(nodes.key)


@asynccontextmanager
async def running(clock, database=None):
    fleet = Fleet(clock, database)
    task = asyncio.create_task(fleet.controller.loop.run())
    try:
        fleet.apply_quickstart()
        await fleet.settle()
        yield fleet
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def serve(fleet):
    await fleet.gateways_get_addresses()
    await fleet.workloads_become_available()
    await fleet.routes_take_effect()


def virtually(story):
    async def main(clock):
        async with running(clock) as fleet:
            await story(fleet, clock)

    run_virtual(main)


def test_readiness_climbs_only_with_what_was_observed():
    async def story(fleet, _clock):
        assert fleet.conditions("InferenceCluster", "east")["Ready"] == ("False", "WaitingForGateway")
        assert fleet.conditions("ModelDeployment")["Ready"] == ("False", "WaitingForClusters")
        await fleet.gateways_get_addresses()
        assert fleet.conditions("ModelDeployment") == {
            "ReplicasScheduled": ("True", "AllPlaced"),
            "ReplicasReady": ("False", "WorkloadStarting"),
            "Progressing": ("True", "RollingOut"),
            "Ready": ("False", "WorkloadStarting"),
        }
        await fleet.workloads_become_available("east")
        assert fleet.one("ModelDeployment")["status"]["readyReplicas"] == 1
        assert fleet.conditions("ModelService")["EndpointsResolved"] == ("True", "EndpointsFound")
        await fleet.workloads_become_available("west")
        await fleet.routes_take_effect()
        assert fleet.conditions("ModelDeployment")["Ready"] == ("True", "Available")
        assert fleet.conditions("ModelService")["Ready"] == ("True", "Available")
        assert fleet.one("ModelService")["status"]["address"] == "http://127.0.0.1:10000/default/chat"

    virtually(story)


def test_replicas_wait_for_the_cluster_that_is_ready_later():
    async def story(fleet, _clock):
        address = [{"type": "IPAddress", "value": "127.0.0.1:1"}]
        fleet.report(fleet.clusters["east"], GATEWAY_API, "Gateway", addresses=address)
        await fleet.settle()
        assert fleet.conditions("ModelDeployment")["ReplicasScheduled"] == ("False", "WaitingForClusters")
        assert [item["name"] for item in fleet.one("ModelDeployment")["status"]["clusters"]] == ["east"]
        fleet.report(fleet.clusters["west"], GATEWAY_API, "Gateway", addresses=address)
        await fleet.settle()
        assert fleet.one("ModelDeployment")["status"]["placement"]["summary"] == "1 on east, 1 on west"

    virtually(story)


def test_replicas_do_not_wait_longer_than_30_s():
    async def story(fleet, _clock):
        address = [{"type": "IPAddress", "value": "127.0.0.1:1"}]
        fleet.report(fleet.clusters["east"], GATEWAY_API, "Gateway", addresses=address)
        await fleet.settle()
        await asyncio.sleep(31)
        assert fleet.one("ModelDeployment")["status"]["placement"]["summary"] == "2 on east"

    virtually(story)


def test_the_replicas_are_spread_over_the_clusters():
    async def story(fleet, _clock):
        await serve(fleet)
        assert fleet.one("ModelDeployment")["status"]["clusters"] == [
            {"name": "east", "replicas": 1, "ready": 1},
            {"name": "west", "replicas": 1, "ready": 1},
        ]

    virtually(story)


def test_at_rest_nothing_is_written_and_no_pass_is_made():
    async def story(fleet, clock):
        await serve(fleet)
        revision, passes = fleet.plane.revision, fleet.controller.loop.stats().passes
        await clock.sleep(10_000)
        assert (fleet.plane.revision, fleet.controller.loop.stats().passes) == (revision, passes)

    virtually(story)


def test_a_class_deleted_by_mistake_stays_while_a_cluster_needs_it():
    async def story(fleet, clock):
        await serve(fleet)
        fleet.delete("InferenceClass", "h200-8x")
        await clock.sleep(10)
        assert fleet.conditions("InferenceClass")["Deletable"] == ("False", "InUse")
        assert fleet.conditions("InferenceCluster", "east")["Ready"] == ("True", "Available")
        assert fleet.one("ModelDeployment")["status"]["readyReplicas"] == 2

    virtually(story)


def test_a_cluster_with_replicas_goes_after_them():
    async def story(fleet, clock):
        await serve(fleet)
        fleet.delete("InferenceCluster", "east")
        await clock.sleep(10)
        assert fleet.conditions("InferenceCluster", "east")["Deletable"] == ("False", "InUse")
        assert fleet.conditions("InferenceCluster", "east")["Ready"] == ("False", "Deleting")
        await clock.sleep(1_000)  # a deletion starts no grace period: the replicas stay
        assert fleet.one("ModelDeployment")["status"]["readyReplicas"] == 2
        fleet.delete("ModelDeployment", "qwen3-8b", "default")
        await clock.sleep(10)
        assert [m["metadata"]["name"] for m in fleet.plane.list("modelplane.ai", "InferenceCluster")] == ["west"]

    virtually(story)


def test_an_object_of_somebody_else_is_never_taken_over():
    async def story(fleet, _clock):
        await fleet.gateways_get_addresses()
        route = fleet.plane.list(GATEWAY_API, "HTTPRoute")[0]
        fleet.delete("ModelService", "chat", "default")
        await fleet.settle()
        theirs = {
            "apiVersion": f"{GATEWAY_API}/v1",
            "kind": "HTTPRoute",
            "metadata": {"name": "chat", "namespace": "default"},
        }
        fleet.plane.create({**theirs, "spec": {"theirs": True}})
        service = next(iter(yaml.safe_load_all((EXAMPLES / "3-model.yaml").read_text().split("---")[1])))
        fleet.plane.create(service)
        await asyncio.sleep(1)
        assert fleet.conditions("ModelService")["Ready"] == ("False", "NotOurs")
        kept = fleet.plane.list(GATEWAY_API, "HTTPRoute")[0]
        assert (kept["spec"], kept["metadata"]["uid"] != route["metadata"]["uid"]) == ({"theirs": True}, True)

    virtually(story)


def test_a_copy_of_a_composed_object_does_not_take_its_place():
    async def story(fleet, _clock):
        await serve(fleet)
        endpoint = fleet.plane.list("modelplane.ai", "ModelEndpoint")[0]
        kept = {name: endpoint["metadata"][name] for name in ("namespace", "labels", "annotations")}
        fleet.plane.create({**endpoint, "metadata": {**kept, "name": "copy"}})
        await fleet.settle()
        fleet.delete("ModelDeployment", "qwen3-8b", "default")
        await fleet.settle()
        assert [m["metadata"]["name"] for m in fleet.plane.list("modelplane.ai", "ModelEndpoint")] == ["copy"]

    virtually(story)


@pytest.mark.parametrize("mark", ["x", "a/b/c/d/e", "modelplane.ai/ModelService/default/chat/some-uid"])
def test_marks_that_somebody_else_wrote_harm_nobody(mark):
    async def story(fleet, clock):
        stranger = {"apiVersion": "v1", "kind": "ConfigMap"}
        annotations = {"modelplane.ai/owner": mark, "modelplane.ai/ready-when": "Never"}
        metadata = {"name": "stranger", "namespace": "default", "annotations": annotations}
        fleet.plane.create({**stranger, "metadata": metadata})
        await serve(fleet)
        assert fleet.conditions("ModelService")["Ready"] == ("True", "Available")
        again = PlaneController(fleet.database, clock, admitted=lambda manifest: manifest)
        assert again.plane.get(ObjectRef("", "ConfigMap", "default", "stranger")) is not None

    virtually(story)


def test_what_was_composed_before_a_restart_is_removed_after_it(tmp_path):
    """Also when the deletion comes before the cluster is back."""

    async def before(clock):
        database = Database(tmp_path / "plane.db", clock=clock)
        async with running(clock, database) as fleet:
            await fleet.gateways_get_addresses()
            assert [len(store.list("apps", "Deployment")) for store in fleet.clusters.values()] == [1, 1]
        database.close()

    async def after(clock):
        database = Database(tmp_path / "plane.db", clock=clock)
        controller = PlaneController(database, clock, admitted=lambda manifest: manifest)
        task = asyncio.create_task(controller.loop.run())
        controller.plane.delete(ObjectRef("modelplane.ai", "ModelDeployment", "default", "qwen3-8b"))
        await clock.sleep(10)
        stores = [controller.add_cluster(ClusterName(name)) for name in ("east", "west")]
        await clock.sleep(30)
        left = [len(store.list("apps", "Deployment")) for store in stores]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        database.close()
        return left, controller.plane.list("modelplane.ai", "ModelReplica")

    run_virtual(before)
    assert run_virtual(after) == ([0, 0], ())


def test_an_edit_that_makes_no_sense_keeps_what_runs():
    async def story(fleet, _clock):
        await serve(fleet)
        deployment = fleet.one("ModelDeployment")
        broken = {"devices": [{"name": "gpu", "selectors": [{"cel": "device.nope =="}]}]}
        fleet.plane.replace({**deployment, "spec": {**deployment["spec"], "nodeSelector": broken}})
        await fleet.settle()
        assert fleet.conditions("ModelDeployment")["Ready"] == ("False", "InvalidSelector")
        assert len(fleet.plane.list("modelplane.ai", "ModelReplica")) == 2
        assert len(fleet.plane.list("modelplane.ai", "ModelEndpoint")) == 2

    virtually(story)


def test_a_replica_that_stops_answering_loses_its_endpoint_and_the_service_says_so():
    async def story(fleet, clock):
        await serve(fleet)
        for store in fleet.clusters.values():
            fleet.report(store, "apps", "Deployment", conditions=[{"type": "Available", "status": "False"}])
        await clock.sleep(5)
        await fleet.settle()
        assert fleet.plane.list("modelplane.ai", "ModelEndpoint") == ()
        assert fleet.conditions("ModelService")["Ready"] == ("False", "NoEndpoints")
        route = fleet.plane.list(GATEWAY_API, "HTTPRoute")[0]
        assert "backendRefs" not in route["spec"]["rules"][0]

    virtually(story)


def test_claims_that_no_pod_needs_any_more_go_while_their_replica_stays():
    async def story(fleet, clock):
        await serve(fleet)
        before = {name: claim_templates(store) for name, store in fleet.clusters.items()}
        deployment = fleet.one("ModelDeployment")
        wanted = {"devices": [{**deployment["spec"]["nodeSelector"]["devices"][0], "count": 2}]}
        fleet.plane.replace({**deployment, "spec": {**deployment["spec"], "nodeSelector": wanted}})
        for _ in before:
            await fleet.settle()
            fleet.roll_out()
            await clock.sleep(5)
        await fleet.settle()
        for name, store in fleet.clusters.items():
            assert len(claim_templates(store)) == 1
            assert claim_templates(store) != before[name]

    virtually(story)


def claim_templates(store):
    return [item["metadata"]["name"] for item in store.list("resource.k8s.io", "ResourceClaimTemplate")]


def test_scaling_down_and_deleting_leave_nothing_behind():
    async def story(fleet, clock):
        await serve(fleet)
        deployment = fleet.one("ModelDeployment")
        fleet.plane.replace({**deployment, "spec": {**deployment["spec"], "replicas": 1}})
        await fleet.settle()
        assert [len(store.list("apps", "Deployment")) for store in fleet.clusters.values()] == [1, 0]
        fleet.delete("ModelService", "chat", "default")
        fleet.delete("ModelDeployment", "qwen3-8b", "default")
        for name in ("east", "west"):
            fleet.delete("InferenceCluster", name)
        fleet.delete("InferenceGateway", "default")
        fleet.delete("InferenceClass", "h200-8x")
        await clock.sleep(30)
        for store in fleet.clusters.values():
            left = [kind for _, kind in store.kinds() if kind not in {"Node", "ResourceSlice", "DeviceClass"}]
            assert left == ["Namespace"]
            assert [m["metadata"]["name"] for m in store.list("", "Namespace")] == ["modelplane-system"]
        assert {kind for _, kind in fleet.plane.kinds()} == {"Event"}

    virtually(story)


def test_a_pass_that_breaks_is_told_and_tried_again():
    async def story(fleet, clock):
        await serve(fleet)
        deployment = fleet.one("ModelDeployment")
        fleet.plane.replace({**deployment, "spec": {**deployment["spec"], "replicas": "two"}})
        await clock.sleep(5)
        assert fleet.conditions("ModelDeployment")["Ready"] == ("Unknown", "Broken")
        assert len(fleet.plane.list("modelplane.ai", "ModelReplica")) == 2
        fleet.plane.replace({**fleet.one("ModelDeployment"), "spec": deployment["spec"]})
        await fleet.settle()
        assert fleet.conditions("ModelDeployment")["Ready"] == ("True", "Available")

    virtually(story)


def test_a_restart_continues_where_it_was(tmp_path):
    async def before(clock):
        database = Database(tmp_path / "plane.db", clock=clock)
        controller = PlaneController(database, clock, admitted=lambda manifest: manifest)
        store = controller.add_cluster(ClusterName("east"))
        task = asyncio.create_task(controller.loop.run())
        for path in sorted(EXAMPLES.glob("*.yaml")):
            for manifest in yaml.safe_load_all(path.read_text()):
                controller.plane.create(manifest)
        assert await controller.loop.settle(60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        seen = {kind: controller.plane.list(group, kind) for group, kind in controller.plane.kinds()}
        remote = {kind: store.list(group, kind) for group, kind in store.kinds()}
        database.close()
        return seen, remote

    async def after(clock):
        database = Database(tmp_path / "plane.db", clock=clock)
        controller = PlaneController(database, clock, admitted=lambda manifest: manifest)
        store = controller.add_cluster(ClusterName("east"))
        task = asyncio.create_task(controller.loop.run())
        assert await controller.loop.settle(60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        seen = {kind: controller.plane.list(group, kind) for group, kind in controller.plane.kinds()}
        remote = {kind: store.list(group, kind) for group, kind in store.kinds()}
        database.close()
        return seen, remote

    assert run_virtual(before) == run_virtual(after)


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda item: {**item, "spec": {**item["spec"], "replicas": 7}}, id="its content"),
        pytest.param(lambda item: with_metadata(item, labels={"mine": "yes"}), id="its labels"),
        pytest.param(lambda item: with_metadata(item, labels=None), id="no labels"),
    ],
)
def test_what_somebody_changes_of_a_composed_object_is_put_back(edit):
    async def story(fleet, _clock):
        await serve(fleet)
        (before,) = fleet.clusters["east"].list("apps", "Deployment")
        fleet.clusters["east"].replace(edit(before))
        await fleet.settle()
        (after,) = fleet.clusters["east"].list("apps", "Deployment")
        assert (after["spec"], after["metadata"]["labels"]) == (before["spec"], before["metadata"]["labels"])

    virtually(story)


def test_what_somebody_deletes_of_a_composed_object_is_made_again():
    async def story(fleet, _clock):
        await serve(fleet)
        (before,) = fleet.clusters["east"].list("apps", "Deployment")
        metadata = before["metadata"]
        fleet.clusters["east"].delete(ObjectRef("apps", "Deployment", metadata["namespace"], metadata["name"]))
        await fleet.settle()
        (after,) = fleet.clusters["east"].list("apps", "Deployment")
        assert after["metadata"]["uid"] != metadata["uid"]
        assert after["spec"] == before["spec"]

    virtually(story)


def test_annotations_of_others_stay_on_a_composed_object():
    async def story(fleet, _clock):
        await serve(fleet)
        store = fleet.clusters["east"]
        (before,) = store.list("apps", "Deployment")
        noted = {**before["metadata"]["annotations"], "team.example/note": "keep"}
        store.replace(with_metadata(before, annotations=noted))
        await fleet.settle()
        (after,) = store.list("apps", "Deployment")
        assert after["metadata"]["annotations"] == noted

    virtually(story)
