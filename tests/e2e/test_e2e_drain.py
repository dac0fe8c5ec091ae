"""Maintenance of a fleet that serves: every cluster is drained in turn while requests keep coming, and none fails.

Engines take seconds to load, and Envoy is the real one. `python bench/drain.py` does the same at 50 requests/s with
engines that load for 10 s.
"""

import re

import pytest

from tests.e2e.test_e2e_journey import MODEL, PLATFORM, Load

LOAD_S = 3


def drain(plane, name):
    code, said = plane.modelplane("drain", "cluster", name, "--wait", "--timeout", "2m")
    assert code == 0, said
    assert re.search(r"Drained: 0 of \d+ replicas are left", said), said
    code, said = plane.modelplane("drain", "cluster", name, "--abort")
    assert code == 0, said


@pytest.mark.submission
@pytest.mark.timeout(300)
def test_no_request_fails_while_every_cluster_is_drained_in_turn(up):
    plane = up(*PLATFORM, "-f", MODEL)
    plane.ready("modeldeployment/qwen3-8b", "modelservice/chat")
    for name in ("east", "west"):
        plane.sim("slow-load", name, str(LOAD_S))
    with Load(f"{plane.gateway.rstrip('/')}/default/chat") as load:
        load.wait()
        for name in ("east", "west"):
            drain(plane, name)
            assert name not in plane.placed()
            load.wait()
    assert load.failures() == []
    assert load.servers(0.0) == {"east", "west"}
