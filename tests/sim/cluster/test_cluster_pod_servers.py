"""Which container of a pod serves, and on which port."""

import pytest

from modelplane.sim.cluster.pod_servers import server_container, serving_port


@pytest.mark.parametrize(
    ("ports", "expected"),
    [([{"name": "http", "containerPort": 9000}, {"containerPort": 1}], 9000), ([], 8000), (None, 8000)],
)
def test_the_port_that_an_engine_answers_on(ports, expected):
    pod = {"spec": {"containers": [{"name": "side", "ports": [{"containerPort": 1}]}, {"name": "engine"}]}}
    if ports is not None:
        pod["spec"]["containers"][1]["ports"] = ports
    assert serving_port(pod) == expected


def test_an_endpoint_picker_serves_on_its_own_port():
    picker = {"name": "picker", "args": ["--pool-name=p", "--grpc-port=9100"]}
    pod = {"spec": {"containers": [picker]}}
    assert (server_container(pod), serving_port(pod)) == (picker, 9100)


def test_other_pods_have_no_server():
    assert server_container({"spec": {"containers": [{"name": "web"}]}}) is None
