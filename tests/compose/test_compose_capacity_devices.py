"""What is said of nodes and devices that are faulty."""

import pytest

from modelplane.compose.capacity.devices import observed_pools
from tests.compose.test_compose_capacity import claim, inventory, node


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"message": "GPU 3 fell off the bus", "reason": "Xid79"}, "GPU 3 fell off the bus"),
        ({"reason": "Xid79"}, "Xid79"),
        ({}, "XIDErrors"),
    ],
)
def test_a_faulty_node_is_named_with_what_its_agent_says(said, why):
    sick = node("a", "gpu")
    sick["status"]["conditions"].append({"type": "XIDErrors", "status": "True", **said})
    found = observed_pools([sick], [inventory("a", 8)], [claim("a", "gpu-0", replica="chat")], {"chat"})
    assert found["gpu"].faulty == {"chat": f"node a reports XIDErrors True: {why}"}
