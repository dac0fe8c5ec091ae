"""The clients that people and programs have, against one plane that serves a model."""

import json
import os
import shutil
import signal
import subprocess
import sys

import httpx
import pytest

CURL = shutil.which("curl")


@pytest.fixture
def plane(up):
    found = up("-f", "examples/quickstart")
    found.ready("modelservice/chat", "modeldeployment/qwen3-8b")
    return found


KUBERNETES = """
import sys
import kubernetes

def serving(deployment):
    return sum(cluster.get("ready", 0) for cluster in deployment.get("status", {}).get("clusters", ()))

api = kubernetes.client.CustomObjectsApi(kubernetes.config.new_client_from_config(sys.argv[1]))
where = {"group": "modelplane.ai", "version": "v1alpha1", "namespace": "default", "plural": "modeldeployments"}
api.patch_namespaced_custom_object_scale(**where, name="qwen3-8b", body={"spec": {"replicas": 3}})
watch = kubernetes.watch.Watch()
for event in watch.stream(api.list_namespaced_custom_object, **where, timeout_seconds=150):
    if serving(event["object"]) == 3:
        watch.stop()
print(serving(api.get_namespaced_custom_object(**where, name="qwen3-8b")))
"""
KR8S = """
import sys
import kr8s

(service,) = kr8s.api(kubeconfig=sys.argv[1]).get("modelservices.modelplane.ai", namespace="default")
service.wait("condition=Ready", timeout=150)
print(service.status.address)
"""


def by_program(plane, text):
    """What a small program says: these clients leave sockets and threads to the end of theirs."""
    command = [sys.executable, "-W", "ignore", "-c", text, plane.kubeconfig]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def by_curl(address):
    """As the README has it."""
    told = subprocess.run(
        [CURL, "-sS", f"{address}/v1/models"], capture_output=True, text=True, check=True, timeout=150
    )
    return [model["id"] for model in json.loads(told.stdout)["data"]]


def by_page(plane):
    """A browser that follows the address with its token, and later comes back with its cookie."""
    with httpx.Client(follow_redirects=True) as browser:
        shown = browser.get(plane.page)
        again = browser.get(plane.page.partition("?")[0])
        stranger = httpx.get(plane.page.partition("?")[0])
        views = [browser.get(f"{again.url}api/{view}").text for view in ("overview", "fleet", "services")]
        return shown, again, stranger, views


@pytest.mark.timeout(500)
def test_every_client_finds_what_it_looks_for(plane):
    address = by_program(plane, KR8S)
    assert address == f"{plane.gateway}/default/chat"
    if CURL:
        assert by_curl(address) == ["qwen3-8b"]
    assert by_program(plane, KUBERNETES) == "3"
    shown, again, stranger, views = by_page(plane)
    assert (shown.status_code, again.status_code, stranger.status_code) == (200, 200, 401)
    assert "app.js" in shown.text
    for text in ("qwen3-8b", "east", "west", address):
        assert text in "".join(views)
    lose_envoy(plane, address)


def lose_envoy(plane, address):
    """The proxy ends by itself: another takes its place, with all that it carried."""
    os.kill(int(plane.said(r"Envoy +process (\d+)")), signal.SIGKILL)
    plane.until(lambda: models_at(address) == ["qwen3-8b"])
    plane.ready("inferencegateway/default", "modelservice/chat")


def models_at(address):
    try:
        found = httpx.get(f"{address}/v1/models", timeout=150)
    except httpx.TransportError:
        return None
    return [model["id"] for model in found.json()["data"]] if found.status_code == 200 else None
