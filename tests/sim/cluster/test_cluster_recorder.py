"""What is told of trouble with an object, and where."""

from modelplane.api.objects import manifest
from modelplane.sim.cluster import ClusterSettings
from modelplane.sim.cluster.controller import ControllerContext
from modelplane.sim.cluster.recorder import warn
from modelplane.testing.cluster import run_cluster


def test_the_same_trouble_is_counted_and_another_is_told_beside_it():
    async def main(lab):
        context = ControllerContext("east", lab.store, lab.clock, ClusterSettings())
        node = lab.store.create(manifest("v1", "Node", "n"))
        for message in ("gone", "gone", "back"):
            warn(context, node, "NodeNotReady", message, source="here")
            await lab.clock.sleep(10)
        return sorted(lab.store.list("", "Event"), key=lambda event: event["count"])

    back, gone = run_cluster(main)
    assert (gone["message"], gone["count"], gone["lastTimestamp"] > gone["firstTimestamp"]) == ("gone", 2, True)
    assert (back["message"], back["count"], back["metadata"]["namespace"]) == ("back", 1, "default")
    assert gone["involvedObject"] | {"uid": ""} == {
        "apiVersion": "v1",
        "kind": "Node",
        "namespace": "",
        "name": "n",
        "uid": "",
    }
