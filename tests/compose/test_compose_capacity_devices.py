"""What is said of nodes and devices that are faulty."""

import pytest

from modelplane.compose.capacity.bound import faulty_replicas
from modelplane.compose.capacity.devices import ObservedPool, observed_pools
from tests.compose.test_compose_capacity import claim, inventory, node


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
