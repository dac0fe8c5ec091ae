"""Devices and nodes that are faulty: what they still count, and what is said of them."""

import pytest

from modelplane.compose.capacity.bound import faulty_replicas
from modelplane.compose.capacity.devices import ObservedPool, observed_pools
from tests.compose.test_compose_capacity import DRIVER, HOPPER, claim, inventory, node


def tainted(item: dict, *names: str, effect: str = "NoSchedule") -> dict:
    for device in item["spec"]["devices"]:
        if device["name"] in names:
            device["taints"] = [{"key": "gpu.nvidia.com/xid", "value": "79", "effect": effect}]
    return item


def sick(name: str, kind: str, status: str, **more) -> dict:
    item = node(name, "gpu", **more)
    item["status"]["conditions"].append({"type": kind, "status": status, "message": "GPU 3 fell off the bus"})
    return item


XID = "device gpu-3 of node a has the taint gpu.nvidia.com/xid=79"


@pytest.mark.parametrize(
    ("nodes", "slices", "claims", "counted", "faulty"),
    [
        pytest.param([node("a", "gpu")], [tainted(inventory("a", 8), "gpu-3")], [], (1, 7, 0), {}, id="free"),
        pytest.param(
            [node("a", "gpu")],
            [tainted(inventory("a", 8), "gpu-3")],
            [claim("a", "gpu-2", "gpu-3", replica="chat")],
            (1, 8, 0),
            {"chat": XID},
            id="of a replica, which counts it by itself",
        ),
        pytest.param(
            [node("a", "gpu")],
            [tainted(inventory("a", 8), "gpu-3")],
            [claim("a", "gpu-3")],
            (1, 8, 1),
            {},
            id="of others",
        ),
        pytest.param(
            [node("a", "gpu")],
            [tainted(inventory("a", 8), "gpu-3", effect="NoExecute")],
            [],
            (1, 7, 0),
            {},
            id="a taint that also ends pods",
        ),
        pytest.param(
            [node("a", "gpu")],
            [tainted(inventory("a", 8), "gpu-3", effect="None")],
            [],
            (1, 8, 0),
            {},
            id="a mere note",
        ),
        pytest.param(
            [sick("a", "AcceleratedHardwareReady", "False"), node("b", "gpu")],
            [inventory("a", 8), inventory("b", 8)],
            [claim("a", "gpu-0", replica="chat")],
            (1, 8, 0),
            {"chat": "node a reports AcceleratedHardwareReady False: GPU 3 fell off the bus"},
            id="a node, as EKS' agent says",
        ),
        pytest.param(
            [sick("a", "XIDErrors", "True", unschedulable=True)],
            [inventory("a", 8)],
            [claim("a", "gpu-0", replica="chat")],
            (0, 0, 0),
            {"chat": "node a reports XIDErrors True: GPU 3 fell off the bus"},
            id="a node that is cordoned for it, as AKS' detector says",
        ),
        pytest.param(
            [sick("a", "XIDErrors", "False")], [inventory("a", 8)], [], (1, 8, 0), {}, id="a node that is well"
        ),
    ],
)
def test_a_faulty_device_takes_no_pods_and_its_replica_is_named(nodes, slices, claims, counted, faulty):
    found = observed_pools(nodes, slices, claims, {"chat"})["gpu"]
    assert ((found.nodes, *found.count(DRIVER, HOPPER)), found.faulty) == (counted, faulty)


def test_faulty_replicas_are_published_without_their_names():
    pools = observed_pools(
        [node("a", "gpu")], [tainted(inventory("a", 8), "gpu-3")], [claim("a", "gpu-3", replica="chat")], {"chat"}
    )
    (found,) = faulty_replicas(pools, {"chat": "r-1"})
    assert (found.replica, found.message) == ("r-1", XID)
    assert faulty_replicas(pools, {}) == ()


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("AcceleratedHardwareReady", "False"),
        ("GPUMissing", "True"),
        ("NVLinkStatusInactive", "True"),
        ("XIDErrors", "True"),
    ],
)
@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"message": "GPU 3 fell off the bus", "reason": "Xid79"}, "GPU 3 fell off the bus"),
        ({"reason": "Xid79"}, "Xid79"),
        ({}, None),
    ],
)
def test_a_faulty_node_is_named_with_what_its_agent_says(kind, status, said, why):
    sick = node("a", "gpu")
    sick["status"]["conditions"].append({"type": kind, "status": status, **said})
    found = observed_pools([sick], [inventory("a", 8)], [claim("a", "gpu-0", replica="chat")], {"chat"})
    assert found["gpu"].faulty == {"chat": f"node a reports {kind} {status}: {why or kind}"}


def test_a_status_tells_of_256_faulty_replicas_and_256_characters_of_each_fault():
    names = [f"chat-{at:03}" for at in range(257)]
    pools = {"gpu": ObservedPool(faulty=dict.fromkeys(names, "x" * 257))}
    found = faulty_replicas(pools, {name: name for name in names})
    assert [(each.replica, each.message) for each in found] == [(name, "x" * 256) for name in names[:256]]
