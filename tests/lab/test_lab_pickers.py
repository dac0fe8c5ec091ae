"""The lab runs in a picker's pod what was rendered, and the product takes every flag of it."""

import argparse
from pathlib import Path

import pytest

from lab.manifests import read_folder
from lab.pickers import Pickers, seats
from modelplane.cli import _picker_serve, _picker_sidecar

GOLDEN = Path("tests/compose/golden")


def rendered(name):
    """Containers of that name in what replicas are rendered to, with their namespaces."""
    for path in sorted(GOLDEN.glob("*.native.*.yaml")) + sorted(GOLDEN.glob("*.pool.*.yaml")):
        for item in read_folder(path):
            template = item.get("spec", {}).get("template", {})
            for container in template.get("spec", {}).get("containers", []) if item["kind"] == "Deployment" else []:
                if container["name"] == name:
                    yield pytest.param(container, item["metadata"]["namespace"], id=path.stem)


@pytest.mark.parametrize(("container", "namespace"), list(rendered("picker")))
def test_what_is_rendered_is_what_the_picker_takes(container, namespace):
    parser = argparse.ArgumentParser()
    _picker_serve.configure(parser)
    chosen = parser.parse_args(Pickers.arguments(container, {"config": "/there"}, "10.0.0.1"))
    assert chosen.config == Path("/there/config.yaml")
    assert chosen.pool_namespace == namespace
    ports = {each["name"]: str(each["containerPort"]) for each in container["ports"]}
    assert (chosen.grpc_port, chosen.grpc_health_port, chosen.metrics_port) == tuple(ports.values())[:3]
    assert (chosen.peer_port if chosen.peers else None) == ports.get("peers")
    assert chosen.secure_serving == "true"


@pytest.mark.parametrize(("container", "namespace"), list(rendered("routing-sidecar")))
def test_what_is_rendered_is_what_the_sidecar_takes(container, namespace):
    parser = argparse.ArgumentParser()
    _picker_sidecar.configure(parser)
    chosen = parser.parse_args(Pickers.arguments(container, {}, "10.0.0.1"))
    assert chosen.decoder.startswith("10.0.0.1:")
    assert chosen.vllm_port is None
    assert chosen.inference_pool.startswith(f"{namespace}/")
    assert [chosen.port] == [each["containerPort"] for each in container["ports"]]


def test_files_of_other_volumes_stay_where_they_are():
    container = {"args": ["--config-file=/etc/a/x", "--other=/etc/b/y"]}
    container["volumeMounts"] = [{"name": "a", "mountPath": "/etc/a"}, {"name": "b", "mountPath": "/etc/b"}]
    assert Pickers.arguments(container, {"a": "/here"}, "10.0.0.1") == ["--config-file=/here/x", "--other=/etc/b/y"]


@pytest.mark.parametrize(
    ("status", "deleted", "runs"),
    [
        ({"phase": "Running", "podIP": "10.0.0.1"}, None, True),
        ({"phase": "Pending"}, None, False),
        ({"phase": "Running"}, None, False),
        ({"phase": "Running", "podIP": "10.0.0.1"}, "now", False),
    ],
)
def test_only_pods_with_an_address_that_are_to_stay_run(status, deleted, runs):
    containers = [{"name": "engine"}, {"name": "routing-sidecar"}]
    pod = {"metadata": {"uid": "u", "deletionTimestamp": deleted}, "spec": {"containers": containers}, "status": status}
    assert [each.container for each in seats(pod)] == (["routing-sidecar"] if runs else [])


def kserve_pod(labels, containers, initial=()):
    return {
        "metadata": {"uid": "u", "labels": labels},
        "spec": {"containers": containers, "initContainers": list(initial)},
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }


@pytest.mark.parametrize(
    ("pod", "programs"),
    [
        pytest.param(
            kserve_pod(
                {"app.kubernetes.io/component": "llminferenceservice-router-scheduler"},
                [{"name": "main"}, {"name": "tokenizer"}],
            ),
            {"main": "serve"},
            id="its picker",
        ),
        pytest.param(
            kserve_pod(
                {"app.kubernetes.io/component": "llminferenceservice-workload"},
                [{"name": "main"}],
                [{"name": "llm-d-routing-sidecar", "restartPolicy": "Always"}, {"name": "storage-initializer"}],
            ),
            {"llm-d-routing-sidecar": "sidecar"},
            id="its sidecar, which starts before the engine and stays",
        ),
    ],
)
def test_containers_of_kserves_own_pods_run_ours(pod, programs):
    assert {each.container: each.program for each in seats(pod)} == programs


def test_words_of_a_command_are_taken_without_its_program_and_without_blanks():
    """Its presets leave blanks where TLS is off."""
    command = ["/app/pd-sidecar", "--port=8000", "--vllm-port=8001", "--kv-connector=nixlv2", ""]
    parser = argparse.ArgumentParser()
    _picker_sidecar.configure(parser)
    chosen = parser.parse_args(Pickers.arguments({"command": command}, {}, "10.0.0.1"))
    assert (chosen.port, chosen.decoder) == (8000, "10.0.0.1:8001")
