from pathlib import Path

import pytest

from modelplane.machine.container_process import NoProgramError, container_process
from modelplane.reconcile.store import ObjectRef

OBJECTS = {
    ObjectRef("", "Secret", "team", "hub"): {"data": {"token": "c2VjcmV0", "other": "eA=="}},
    ObjectRef("", "ConfigMap", "team", "levels"): {"data": {"LEVEL": "debug"}},
}
ANY = "0.0.0.0"  # noqa: S104  what is replaced
FOLDERS = {"/mnt/models": Path("/data/v1"), "/mnt/downloads": Path("/data/v2")}


class Store:
    def get(self, ref):
        return OBJECTS.get(ref)


def process(port=4000, **container):
    pod = {"metadata": {"name": "p", "namespace": "team", "uid": "u1"}, "spec": {"containers": [
        {"name": "engine", **container}]}}  # fmt: skip
    return container_process(pod, pod["spec"]["containers"][0], port, FOLDERS, Store())


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"command": ["serve", "--port", "8000"]}, ("serve", "--port", "4000")),
        ({"command": ["serve"], "args": ["--port=8000", "x"]}, ("serve", "--port=4000", "x")),
        ({"command": ["serve", "x"]}, ("serve", "x")),
        ({"image": "vllm/vllm-openai:v1", "args": ["Q"]},
         ("vllm", "serve", "Q", "--port", "4000", "--host", "127.0.0.1")),
        ({"image": "vllm/vllm-openai:v1", "args": ["Q", "--host=::1"]},
         ("vllm", "serve", "Q", "--host=::1", "--port", "4000")),
        ({"command": ["a", "--host", ANY, ANY]}, ("a", "--host", "127.0.0.1", ANY)),
        ({"image": "ghcr.io/ggml-org/llama.cpp:server", "args": ["-hf", "Q", "--port", "8000"]},
         ("llama-server", "-hf", "Q", "--port", "4000")),
        ({"command": ["python3", "-m", "sglang.launch_server", "--model-path", "/mnt/models/q"]},
         ("python3", "-m", "sglang.launch_server", "--model-path", "/data/v1/q", "--port", "4000")),
        ({"command": ["a", "$(LEVEL)", "$$(LEVEL)", "$(NOPE)"], "envFrom": [{"configMapRef": {"name": "levels"}}]},
         ("a", "debug", "$(LEVEL)", "$(NOPE)")),
        ({"command": ["a", "/mnt/models", "/mnt/modelsx", "--m=/mnt/models"]},
         ("a", "/data/v1", "/mnt/modelsx", "--m=/mnt/models")),
    ],
)  # fmt: skip
def test_words(container, words):
    assert process(**container).words == words


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ({"env": [{"name": "A", "value": "b"}, {"name": "C", "value": "$(A)/c"}]}, {"A": "b", "C": "b/c"}),
        ({"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}]}, {"T": "secret"}),
        ({"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "none", "key": "token"}}}]}, {}),
        ({"envFrom": [{"prefix": "HUB_", "secretRef": {"name": "hub"}}]}, {"HUB_token": "secret", "HUB_other": "x"}),
        ({"env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]}, {"IP": "127.0.0.1"}),
        ({"env": [{"name": "U", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]}, {"U": "u1"}),
        ({"env": [{"name": "HF_HOME", "value": "/mnt/downloads"}]}, {"HF_HOME": "/data/v2"}),
    ],
)  # fmt: skip
def test_variables(monkeypatch, entries, found):
    monkeypatch.setattr("os.environ", {"PATH": "/bin", "KUBECONFIG": "k", "CUDA_VISIBLE_DEVICES": "0"})
    assert process(command=["a"], **entries).variables == {"PATH": "/bin", "PORT": "4000", **found}


def test_a_container_starts_in_its_folder():
    assert process(command=["a"], workingDir="/mnt/models/w").folder == Path("/data/v1/w")
    assert process(command=["a"]).folder is None


def test_an_image_that_is_not_known_needs_a_command():
    with pytest.raises(NoProgramError, match="image acme/own:1: a process needs a command"):
        process(image="acme/own:1")
