"""`modelplane cluster` against a small Kubernetes API."""

import asyncio
import os
import stat
import threading
from contextlib import contextmanager

import pytest
import yaml

from modelplane.cli import main
from modelplane.kube import GroupVersionResource
from modelplane.views.workload_rights import ROLE
from tests.support.kube_api import KubeApi
from tests.support.loops import end_loop
from tests.views.test_views_cluster_review import node, published, signs

NODES = GroupVersionResource("", "v1", "nodes")
SLICES = GroupVersionResource("resource.k8s.io", "v1", "resourceslices")
SECRETS = GroupVersionResource("", "v1", "secrets")
PLURALS = {
    "APIService": GroupVersionResource("apiregistration.k8s.io", "v1", "apiservices"),
    "DeviceClass": GroupVersionResource("resource.k8s.io", "v1", "deviceclasses"),
    "GatewayClass": GroupVersionResource("gateway.networking.k8s.io", "v1", "gatewayclasses"),
}
LABEL = "modelplane.ai/pool"


@contextmanager
def serving(api):
    """The API on a thread of its own: the command has its own event loop."""
    loop, started = asyncio.new_event_loop(), threading.Event()
    done = asyncio.Event()

    async def serve():
        async with api.serving():
            started.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert started.wait(60)
        yield api
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        end_loop(loop)


def api_of(*lacking, **labels):
    api = KubeApi()
    for name in ("a", "b"):
        api.put(NODES, node(name, **labels))
        api.put(SLICES, published(name))
    for kind, names in signs(*lacking).items():
        for name in names:
            api.put(PLURALS[kind], {"metadata": {"name": name}})
    return api


def kubeconfig(folder, url, **user):
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user or {"token": "t"}}],
    }
    path = folder / "east.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def run(capsys, *words):
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_check_names_what_is_missing(tmp_path, capsys):
    with serving(api_of("cert-manager", **{LABEL: "h100"})) as api:
        path = kubeconfig(tmp_path, api.url)
        code, out, _ = run(capsys, "cluster", "check", "--kubeconfig", path, "--allow-insecure")
    lines = out.splitlines()
    assert code == 1
    assert [line for line in lines if line.startswith("not ok")] == [
        "not ok  cert-manager            missing: install it; it brings cert-manager.io/v1"
    ]
    assert lines[0] == "ok      Kubernetes              v1.35.1"
    assert lines[-1] == "1 of 9 requirements are not met"


def test_a_cluster_that_has_everything(tmp_path, capsys):
    with serving(api_of(**{LABEL: "h100"})) as api:
        code, out, _ = run(
            capsys, "cluster", "check", "--kubeconfig", kubeconfig(tmp_path, api.url), "--allow-insecure"
        )
    assert (code, out.splitlines()[-1]) == (0, "all requirements are met")


def test_a_proposal_is_printed_and_changes_nothing(tmp_path, capsys):
    with serving(api_of()) as api:
        path = kubeconfig(tmp_path, api.url)
        code, out, _ = run(capsys, "cluster", "add", "east", "--kubeconfig", path, "--allow-insecure")
        assert api.asked["patch"] == 0
    made = [item for item in yaml.safe_load_all(out) if item]
    assert (code, [item["kind"] for item in made]) == (0, ["InferenceClass", "InferenceCluster"])
    assert made[1]["spec"]["nodePools"][0]["nodeCount"] == 2
    assert "token" not in out


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """A kubectl that writes what it gets to a file."""
    program, written = tmp_path / "bin" / "kubectl", tmp_path / "applied.yaml"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat > {written}\n")
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return written


def test_adopting_labels_nodes_stores_the_kubeconfig_and_applies(tmp_path, capsys, kubectl):
    with serving(api_of()) as api:
        path = kubeconfig(tmp_path, api.url)
        code, out, _ = run(capsys, "cluster", "add", "east", "--kubeconfig", path, "--allow-insecure", "--apply")
        assert api.get(NODES, "a")["metadata"]["labels"] == {LABEL: "nvidia-h100-80gb-hbm3"}
    secret, _, cluster = yaml.safe_load_all(kubectl.read_text())
    assert (code, "node/b labelled" in out) == (0, True)
    assert secret["metadata"] == {
        "name": "east-kubeconfig",
        "namespace": "modelplane-system",
        "annotations": {"modelplane.ai/allow-insecure": "true"},
    }
    assert secret["stringData"]["kubeconfig"] == path.read_text()
    assert cluster["spec"]["cluster"]["existing"]["secretRef"]["name"] == secret["metadata"]["name"]


def test_what_is_stored_of_an_administrator_is_a_token_of_the_role(tmp_path, capsys, monkeypatch):
    calls = tmp_path / "calls"
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "# $@" >> {calls}\ncat >> {calls}\n')
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    api = api_of()
    metadata = {"name": "modelplane-token", "namespace": "modelplane-system"}
    api.put(SECRETS, {"metadata": metadata, "data": {"token": "dGhlLXRva2Vu"}})
    with serving(api):
        path = kubeconfig(tmp_path, api.url, token="of-an-administrator")
        words = ("cluster", "add", "east", "--kubeconfig", path, "--allow-insecure", "--apply", "--restrict")
        code, _, _ = run(capsys, *words)
    assert code == 0
    on_cluster, on_control = calls.read_text().split("# ")[1:]
    assert on_cluster.startswith(f"--kubeconfig={path} apply")
    assert f"name: {ROLE}" in on_cluster
    assert "of-an-administrator" not in on_control
    stored = yaml.safe_load(next(yaml.safe_load_all(on_control.partition("\n")[2]))["stringData"]["kubeconfig"])
    assert stored["users"] == [{"name": "modelplane", "user": {"token": "the-token"}}]
    assert stored["clusters"] == [{"name": "east", "cluster": {"server": api.url}}]


def test_nothing_is_applied_where_something_is_missing(tmp_path, capsys, kubectl):
    with serving(api_of("envoy-gateway")) as api:
        words = ("cluster", "add", "east", "--kubeconfig", kubeconfig(tmp_path, api.url), "--allow-insecure", "--apply")
        code, _, error = run(capsys, *words)
        assert (code, api.asked["patch"], kubectl.exists()) == (1, 0, False)
        assert "nothing was changed; install what is missing, or give --force" in error
        assert run(capsys, *words, "--force")[0] == 0
    assert kubectl.exists()


@pytest.mark.parametrize(
    ("url", "user", "why"),
    [
        ("https://example.org", {"exec": {"command": "aws"}}, "users[0].user.exec is refused"),
        ("https://example.org", {"client-key": "/etc/key"}, "users[0].user.client-key is refused"),
        ("http://example.org", {"token": "t"}, "clusters[0].cluster.server"),
    ],
)
def test_a_kubeconfig_that_the_control_plane_would_refuse_is_refused_with_the_reason(tmp_path, capsys, url, user, why):
    path = kubeconfig(tmp_path, url, **user)
    code, _, error = run(capsys, "cluster", "check", "--kubeconfig", path)
    assert code == 1
    assert why in error


def test_the_role_is_printed(capsys):
    code, out, _ = run(capsys, "cluster", "role", "--account", "fleet")
    kinds = [item["kind"] for item in yaml.safe_load_all(out)]
    assert (code, kinds) == (0, ["Namespace", "ServiceAccount", "Secret", *["ClusterRole", "ClusterRoleBinding"] * 2])
    assert ROLE in out
