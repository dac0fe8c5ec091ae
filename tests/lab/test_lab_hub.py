"""The hub of the lab: reached by the names that the product writes, and no part of a run that does not name it."""

from urllib.parse import urlsplit

from lab.e2e.run import _steps, known_steps
from lab.hub import _MOUNTED_CA, DIALLED, HOSTS
from lab.places import Places
from modelplane.crossplane.hub_objects import PROXY_PORT
from modelplane.views.agent_objects import agent_objects, hub_kubeconfig


def test_the_kubeconfig_and_the_agent_lead_to_it():
    config = hub_kubeconfig("east", authority="", proxy_token="t")
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    assert (server.hostname in HOSTS, server.port) == (True, PROXY_PORT)
    assert HOSTS[DIALLED] == HOSTS[server.hostname]
    *_, deployment = agent_objects("east", hub=f"https://{DIALLED}", authority="", image="i", join_token="t")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert _MOUNTED_CA in container["args"]


def test_the_step_runs_where_it_is_named(tmp_path):
    def names(*only):
        steps = _steps(Places(tmp_path, tmp_path), frozenset(only))
        return [getattr(action, "__name__", "") for _, action, _ in steps]

    assert "agent" in known_steps()
    assert "agent" not in names()
    assert names("agent")[-3:] == ["agent", "removal", "uninstall"]
