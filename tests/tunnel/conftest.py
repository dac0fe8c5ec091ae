"""A control plane, a cluster, a hub and an agent: two real APIs, two real processes, TLS between them."""

import asyncio
import base64
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from modelplane.api.labels import AGENT_STATE
from modelplane.apiserver.app import ApiServer
from modelplane.apiserver.lifecycle import ensure_namespaces
from modelplane.apiserver.store.database import Database, StoreSettings
from modelplane.reconcile.clock import SystemClock
from modelplane.tunnel.authority import AgentAuthority
from modelplane.tunnel.records import new_agent, record_secret
from tests.support.loops import end_loop

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "of-the-cluster"
WITHIN_S = 20.0


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait(holds, what="it"):
    deadline = time.monotonic() + WITHIN_S
    while not (found := holds()):
        assert time.monotonic() < deadline, f"{what}: not within {WITHIN_S} s"
        time.sleep(0.05)
    return found


class Api:
    """An embedded API server with TLS, on a thread of its own."""

    def __init__(self, token, folder):
        self.token, self.ca = token, folder / f"{token}.crt"
        authority = AgentAuthority.create(time.time())
        self.ca.write_bytes(authority.pair.certificate)
        pair, path = authority.server(["127.0.0.1"], time.time()), folder / f"{token}.pem"
        path.write_bytes(pair.certificate + pair.key)
        self._serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._serving.load_cert_chain(path)
        self._trusting = ssl.create_default_context(cafile=self.ca)
        self.loop, self._ready, self._done = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self.loop.run_until_complete, args=(self._serve(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(60)

    async def _serve(self):
        clock = SystemClock()
        with Database(None, clock=clock, settings=StoreSettings()) as database:
            store = database.store("plane")
            ensure_namespaces(store)
            server = ApiServer(store, token=self.token, clock=clock)
            await server.runner.setup()
            await web.TCPSite(server.runner, "127.0.0.1", 0, ssl_context=self._serving).start()
            self.url = "https://{}:{}".format(*server.runner.addresses[0][:2])
            self._ready.set()
            await self._done.wait()
            await server.close()

    def close(self):
        self.loop.call_soon_threadsafe(self._done.set)
        self._thread.join()
        end_loop(self.loop)

    def request(self, method, path, body=None, kind="application/json"):
        data = None if body is None else json.dumps({"apiVersion": "v1", **body}).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310  loopback
        with urllib.request.urlopen(request, context=self._trusting) as answer:  # noqa: S310  loopback
            return json.load(answer)

    def config_map(self, name, size=1):
        body = {"kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": "y" * size}}
        return self.request("POST", "/api/v1/namespaces/default/configmaps", body)


class World:
    def __init__(self, folder):
        self.folder = folder
        self.control, self.cluster = Api("of-the-control-plane", folder), Api(TOKEN, folder)
        self.port, self.proxy_port = free_port(), free_port()
        self.proxy_tokens, self.join_tokens, self._processes = {}, {}, []
        self._write_kubeconfig("control.yaml", self.control)
        (folder / "token").write_text(TOKEN)

    def _write_kubeconfig(self, name, api):
        authority = base64.b64encode(api.ca.read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": api.url, "certificate-authority-data": authority}}],
            "users": [{"name": "u", "user": {"token": api.token}}],
        }
        (self.folder / name).write_text(yaml.safe_dump(config))

    def start(self, *words, **environment):
        known = {"PYTHONPATH": str(ROOT / "src"), "PATH": os.environ["PATH"], "HOME": str(self.folder), **environment}
        path = self.folder / f"{words[0]}-{len(self._processes)}.log"
        with path.open("w") as log:
            command = [sys.executable, "-m", "modelplane", *map(str, words)]
            process = subprocess.Popen(command, env=known, stdout=log, stderr=log)
        process.log = path
        self._processes.append(process)
        return process

    def start_hub(self):
        ports = ("--port", self.port, "--proxy-port", self.proxy_port, "--heartbeat", "1")
        hub = self.start("hub", "--kubeconfig", self.folder / "control.yaml", "--address", "127.0.0.1", *ports)
        wait(lambda: self._listens(self.proxy_port), "the hub")
        secret = self.control.request("GET", "/api/v1/namespaces/modelplane-system/secrets/modelplane-hub-authority")
        (self.folder / "hub-ca.crt").write_bytes(base64.b64decode(secret["data"]["tls.crt"]))
        return hub

    @staticmethod
    def _listens(port):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    def enrol(self, cluster, now=None):
        """What `cluster add --agent` puts on the control plane."""
        made = new_agent(time.time() if now is None else now)
        path = "/api/v1/namespaces/modelplane-system/secrets"
        self.control.request("POST", path, record_secret(cluster, made.record))
        self.proxy_tokens[cluster], self.join_tokens[cluster] = made.proxy_token, made.join_token

    def start_agent(self, cluster="east", token=None):
        """With the join token, or another."""
        words = ("--hub", f"https://127.0.0.1:{self.port}", "--hub-ca", self.folder / "hub-ca.crt")
        api = ("--api-server", self.cluster.url, "--token-file", self.folder / "token", "--ca-file", self.cluster.ca)
        given = self.join_tokens.get(cluster, "") if token is None else token
        return self.start("agent", *words, "--cluster", cluster, *api, MODELPLANE_JOIN_TOKEN=given)

    def kubeconfig(self, cluster="east", token=None):
        authority = base64.b64encode((self.folder / "hub-ca.crt").read_bytes()).decode()
        server = f"https://127.0.0.1:{self.proxy_port}/clusters/{cluster}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": cluster,
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": "hub"}}],
            "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority-data": authority}}],
            "users": [{"name": "hub", "user": {"token": token or self.proxy_tokens[cluster]}}],
        }
        path = self.folder / f"{cluster}.yaml"
        path.write_text(yaml.safe_dump(config))
        return path

    def annotation(self, cluster="east"):
        found = self.control.request("GET", f"/apis/modelplane.ai/v1alpha1/inferenceclusters/{cluster}")
        return json.loads(found["metadata"].get("annotations", {}).get(AGENT_STATE, "{}"))

    def connected(self, hub, times=1):
        wait(lambda: hub.log.read_text().count('"an agent connected"') >= times, "the agent")

    def close(self):
        for process in self._processes:
            process.kill()
            process.wait()
        self.control.close()
        self.cluster.close()


@contextmanager
def open_world(folder):
    world = World(folder)
    try:
        yield world
    finally:
        world.close()


@pytest.fixture
def world(tmp_path):
    with open_world(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    """One cluster whose agent is connected, for many questions."""
    with open_world(tmp_path_factory.mktemp("world")) as made:
        made.hub = made.start_hub()
        made.enrol("east")
        made.enrol("west")
        made.agent = made.start_agent()
        made.connected(made.hub)
        yield made
