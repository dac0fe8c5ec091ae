"""The second block of the README, typed at once: clusters and model in one `kubectl apply`."""

import pytest


@pytest.mark.timeout(300)
def test_a_model_applied_with_its_clusters_gets_a_replica_on_each(up):
    plane = up()
    plane.kubectl("apply", "-f", "examples/quickstart")
    plane.ready("modeldeployment/qwen3-8b", "modelservice/chat")
    summary = plane.kubectl("get", "md", "qwen3-8b", "-o", "jsonpath={.status.placement.summary}")
    assert summary == "1 on east, 1 on west"
