"""An update of a fleet that serves: requests keep coming, engines take seconds to load, and none fails.

In place as well, where another replica answers meanwhile; but with half of the capacity.
"""

import pytest

from tests.e2e.test_e2e_journey import MODEL, PLATFORM, Load

LOAD_S = 3
IMAGE = (
    '[{"op": "replace", "path": "/spec/workers/template/spec/containers/0/image", "value": "vllm/vllm-openai:v0.28.0"}]'
)


@pytest.mark.submission
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("strategy", "fewest"), [("Surge", 2), ("InPlace", 1)])
def test_no_request_fails_while_every_replica_is_updated(up, strategy, fewest):
    plane = up(*PLATFORM, "-f", MODEL)
    plane.ready("modeldeployment/qwen3-8b", "modelservice/chat")
    for name in ("east", "west"):
        plane.sim("slow-load", name, str(LOAD_S))
    plane.kubectl(
        "patch", "md/qwen3-8b", "--type=merge", "-p", f'{{"spec": {{"rollout": {{"strategy": "{strategy}"}}}}}}'
    )
    seen = []

    def is_complete():
        seen.append(plane.kubectl("get", "modelendpoints", "-o", "name").count("modelendpoint"))
        _, said = plane.modelplane("rollout", "status", "md/qwen3-8b")
        return "Complete: revision 2: 2 of 2 replicas updated, 2 of 2 ready" in said

    with Load(f"{plane.gateway.rstrip('/')}/default/chat") as load:
        load.wait()
        plane.kubectl("patch", "md/qwen3-8b", "--type=json", "-p", IMAGE)
        plane.until(is_complete)
        load.wait()
    assert load.failures() == []
    assert min(seen) == fewest
