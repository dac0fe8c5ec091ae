"""What runs on a cluster that dials, and what the control plane has of it."""

import yaml

from modelplane.kube import config_of
from modelplane.views.agent_objects import agent_objects, hub_kubeconfig

MADE = agent_objects(
    "east", hub="https://hub.example.org:8443", authority="PEM", image="r.example/agent:v1", join_token="once"
)


def test_the_agent_has_the_shipped_role_and_no_token_in_a_secret():
    assert [(item["kind"], item["metadata"]["name"]) for item in MADE] == [
        ("Namespace", "modelplane-system"),
        ("ServiceAccount", "modelplane"),
        ("ClusterRole", "modelplane-workload"),
        ("ClusterRoleBinding", "modelplane-workload"),
        ("ClusterRole", "modelplane-collector"),
        ("ClusterRoleBinding", "modelplane-collector"),
        ("Secret", "modelplane-agent"),
        ("Deployment", "modelplane-agent"),
    ]
    assert MADE[-2]["stringData"] == {"ca.crt": "PEM", "join-token": "once"}


def test_the_agent_is_started_as_the_program_takes_it():
    from modelplane.cli._main import _parser

    (container,) = MADE[-1]["spec"]["template"]["spec"]["containers"]
    words = ["agent", *container["args"]]
    arguments = _parser(words).parse_args(words)
    assert (arguments.hub, arguments.cluster) == ("https://hub.example.org:8443", "east")
    assert "once" not in str(MADE[-1])


def test_the_kubeconfig_is_one_that_the_control_plane_accepts():
    text = yaml.safe_dump(hub_kubeconfig("east", authority="UEVN", proxy_token="t"))
    config = config_of(text, "the test")
    assert config.cluster.server == "https://modelplane-hub.modelplane-system.svc:8444/clusters/east"
