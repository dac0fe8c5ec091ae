"""A genuine API server as the cluster: enrolled by one command, and reached with the shipped role and no more.

etcd and kube-apiserver are those of the lab (`python -m lab build`); without them this is skipped.
"""

import asyncio
import base64
import json
import os
import socket
import subprocess
import threading
from contextlib import contextmanager

import pytest
import yaml

from lab.build import binary
from lab.cluster import new_cluster
from lab.components import COMPONENTS
from lab.places import find_places
from lab.supervisor import Supervisor
from tests.tunnel.conftest import free_port, wait
from tests.tunnel.test_tunnel_hub import call

pytestmark = pytest.mark.submission  # etcd and kube-apiserver start
SYSTEM = "/api/v1/namespaces/modelplane-system"


@contextmanager
def api_server(folder):
    programs = {part.name: binary(find_places(os.environ), part) for part in COMPONENTS}
    if not programs["kube-apiserver"].is_file() or not programs["etcd"].is_file():
        pytest.skip("there is no kube-apiserver: python -m lab build")
    loop, ready, done = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    cluster = new_cluster("real", free_base(), folder / "real", programs.__getitem__)

    async def serve():
        (folder / "logs").mkdir()
        supervisor = Supervisor(folder / "logs")
        try:
            await supervisor.start(cluster.etcd())
            await supervisor.start(cluster.api_server())
            ready.set()
            await done.wait()
        finally:
            await supervisor.stop()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        assert ready.wait(120)
        yield cluster, str(programs["kubectl"])
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(60)
        loop.close()


def free_base():
    """Ports beside each other that nobody has."""
    while True:
        base = free_port()
        if base < 60000 and all(is_free(base + offset) for offset in (1, 2, 3)):
            return base


def is_free(port):
    with socket.socket() as taken:
        try:
            taken.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def test_a_cluster_is_enrolled_by_one_command_and_reached_with_the_shipped_role(world, tmp_path):
    with api_server(tmp_path) as (cluster, kubectl):
        admin = cluster.kubeconfig
        run = runner(kubectl, admin)
        hub = world.start_hub()
        path = os.pathsep.join([os.path.dirname(kubectl), os.environ["PATH"]])  # noqa: PTH120  of a text
        words = ("--kubeconfig", admin, "--control-kubeconfig", world.folder / "control.yaml", "--apply", "--force")
        more = ("--agent", "https://hub.example.org:8443", "--image", "r.example/agent:v1")
        added = world.start("cluster", "add", "east", *words, *more, PATH=path)
        assert added.wait(60) == 0, added.log.read_text()

        # What the kubelet would give to the pod of the Deployment.
        deployment = json.loads(run("-n", "modelplane-system", "get", "deployment", "modelplane-agent", "-o", "json"))
        pod = deployment["spec"]["template"]["spec"]
        token = run("-n", "modelplane-system", "create", "token", pod["serviceAccountName"])
        (world.folder / "token").write_text(token)
        secret = json.loads(run("-n", "modelplane-system", "get", "secret", "modelplane-agent", "-o", "json"))["data"]
        (world.folder / "hub-ca.crt").write_bytes(base64.b64decode(secret["ca.crt"]))
        world.cluster.url, world.cluster.ca = cluster.server, tmp_path / "real-ca.crt"
        world.cluster.ca.write_bytes(cluster.keys.authority.pair.certificate)
        world.start_agent(token=base64.b64decode(secret["join-token"]).decode())
        world.connected(hub)

        stored = world.control.request("GET", f"{SYSTEM}/secrets/east-kubeconfig")["data"]["kubeconfig"]
        world.proxy_tokens["east"] = yaml.safe_load(base64.b64decode(stored))["users"][0]["user"]["token"]
        assert call(world, "/api/v1/namespaces/modelplane-system")[0] == 200
        code, refused = call(world, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings")
        assert code == 403
        assert "system:serviceaccount:modelplane-system:modelplane" in refused["message"]
        impersonated = call(
            world, "/apis/rbac.authorization.k8s.io/v1/clusterroles", **{"Impersonate-Group": "system:masters"}
        )
        assert impersonated[0] == 403
        through = runner(kubectl, world.kubeconfig())
        assert "namespace/team created" in through("create", "namespace", "team")
        assert watched(world, kubectl) == ["one", "two"]

        declared = world.control.request("GET", "/apis/modelplane.ai/v1alpha1/inferenceclusters/east")
        assert declared["spec"]["cluster"]["existing"]["connection"] == "Agent"
        wait(lambda: world.annotation().get("connected"))
        kept = json.dumps(world.control.request("GET", "/api/v1/secrets"))
        assert token not in kept
        assert base64.b64encode(token.encode()).decode() not in kept


def watched(world, kubectl):
    """What a watch of kubectl shows through the tunnel: what was there, and what comes after that was seen."""
    through = runner(kubectl, world.kubeconfig())
    through("-n", "team", "create", "configmap", "one")
    command = [
        kubectl,
        f"--kubeconfig={world.kubeconfig()}",
        "-n",
        "team",
        "get",
        "configmaps",
        "--watch",
        "-o",
        "name",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        try:
            first = watching.stdout.readline()
            through("-n", "team", "create", "configmap", "two")
            second = watching.stdout.readline()
        finally:
            watching.kill()
    return [line.strip().removeprefix("configmap/") for line in (first, second)]


def runner(kubectl, config):
    def run(*words):
        done = subprocess.run(
            [kubectl, f"--kubeconfig={config}", *words], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run
