"""Which endpoints a pod makes."""

import pytest

from modelplane.epp.datalayer.discovery.datastore import DiscoveredEndpoint
from modelplane.epp.datalayer.discovery.pods import ServingPod, active_ports, endpoints_of, pod_of


def raw(*, ready="True", ip="10.0.0.1", **metadata):
    conditions = [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": ready}]
    return {
        "metadata": {"name": "p", "namespace": "team", "uid": "u", **metadata},
        "spec": {"containers": []},
        "status": {"podIP": ip, "phase": "Running", "conditions": conditions},
    }


POD = ServingPod("team", "p", "u", "10.0.0.1", {})


@pytest.mark.parametrize(
    ("given", "pod"),
    [
        (raw(), POD),
        (raw(labels={"a": "b"}), ServingPod("team", "p", "u", "10.0.0.1", {"a": "b"})),
        (raw(ready="False"), None),
        (raw(ready="Unknown"), None),
        (raw(ip=""), None),
        (raw(deletionTimestamp="2026-01-01T00:00:00Z"), None),
        ({"metadata": {"name": "p"}}, None),
        ({"metadata": {"name": "p"}, "status": {"podIP": "10.0.0.1", "conditions": None}}, None),
        (raw(annotations={"llm-d.ai/active-ports": "1"}), ServingPod("team", "p", "u", "10.0.0.1", {}, "1")),
        (
            raw(annotations={"inference.networking.k8s.io/active-ports": "2"}),
            ServingPod("team", "p", "u", "10.0.0.1", {}, "2"),
        ),
        (
            raw(annotations={"inference.networking.k8s.io/active-ports": "2", "llm-d.ai/active-ports": ""}),
            ServingPod("team", "p", "u", "10.0.0.1", {}, ""),
        ),
    ],
)
def test_what_matters_of_a_pod(given, pod):
    assert pod_of(given) == pod


@pytest.mark.parametrize(
    ("pod", "ports", "found"),
    [
        (POD, (8000,), [DiscoveredEndpoint("team/p", "10.0.0.1:8000", "u")]),
        (
            POD,
            (8000, 8001),
            [
                DiscoveredEndpoint("team/p:8000", "10.0.0.1:8000", "u"),
                DiscoveredEndpoint("team/p:8001", "10.0.0.1:8001", "u"),
            ],
        ),
        (ServingPod("team", "p", "u", "fd00::1", {}), (8000,), [DiscoveredEndpoint("team/p", "[fd00::1]:8000", "u")]),
        (
            ServingPod("team", "p", "u", "10.0.0.1", {}, "8001"),
            (8000, 8001),
            [DiscoveredEndpoint("team/p:8001", "10.0.0.1:8001", "u")],
        ),
        (ServingPod("team", "p", "u", "10.0.0.1", {}, ""), (8000, 8001), []),
    ],
)
def test_endpoints_of_a_pod(pod, ports, found):
    assert list(endpoints_of([pod], ports)) == found


def test_active_ports():
    listed = active_ports("8000, 8001 , x, -1, 9000")
    assert listed == {8000, 8001, 9000}
    assert listed & {8000, 8001, 8002} == {8000, 8001}
    assert active_ports("") == frozenset()
    assert active_ports("٣,123456789012") == frozenset()
