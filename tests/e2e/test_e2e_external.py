"""A provider outside the fleet, over TLS and with a key: what it is asked for, and that it stands in for replicas."""

import asyncio
import json
import threading
import time

import httpx
import pytest
from aiohttp import web

from modelplane.plane.certificates import server_context
from tests.support.loops import end_loop

MANIFESTS = """
apiVersion: v1
kind: Secret
metadata: {{name: provider, namespace: default}}
stringData: {{key: s3cret}}
---
apiVersion: modelplane.ai/v1alpha1
kind: InferenceGateway
metadata: {{name: default}}
spec: {{outbound: {{allow: [localhost]}}}}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelEndpoint
metadata: {{name: provider, namespace: default, labels: {{app: provider}}}}
spec:
  url: https://localhost:{port}/openai
  auth: {{secretRef: {{name: provider, key: key}}}}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelService
metadata: {{name: both, namespace: default}}
spec:
  endpoints:
  - selector: {{matchLabels: {{app: qwen3-8b}}}}
  - selector: {{matchLabels: {{app: provider}}}}
    priority: 1
"""


class Provider:
    """An HTTPS server that remembers what it was asked."""

    def __init__(self, folder):
        self.asked = []
        self._context, certificate = server_context(folder, now=time.time())
        self.authorities = folder / "authorities.pem"
        self.authorities.write_bytes(certificate)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._ready.wait(30)

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())

    async def _serve(self):
        self._ending = asyncio.Event()
        runner = web.ServerRunner(web.Server(self._answer))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._context)
        await site.start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await self._ending.wait()
        await runner.cleanup()

    async def _answer(self, request):
        headers = {name: request.headers.get(name) for name in ("Host", "Authorization")}
        self.asked.append((request.path, headers, await request.json()))
        return web.json_response({"object": "chat.completion", "model": "far away"})

    def close(self):
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        end_loop(self._loop)


@pytest.fixture
def provider(tmp_path):
    found = Provider(tmp_path)
    yield found
    found.close()


def ask(address):
    body = {"model": "qwen3-8b", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}
    return httpx.post(
        f"{address}/v1/chat/completions", json=body, headers={"Authorization": "Bearer mine"}, timeout=150
    )


@pytest.mark.submission
@pytest.mark.timeout(500)
def test_a_provider_answers_while_no_replica_does(up, provider, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(provider.authorities))
    plane = up("-f", "examples/quickstart")
    plane.kubectl("apply", "-f", "-", stdin=MANIFESTS.format(port=provider.port))
    plane.ready("ms/both", "ms/chat", "me/provider", "md/qwen3-8b")
    address = f"{plane.gateway}/default/both"
    assert "x-served-by" in ask(address).headers
    assert provider.asked == []

    plane.kubectl("scale", "md/qwen3-8b", "--replicas=0")
    plane.until(lambda: ask(address).json().get("model") == "far away")
    path, headers, body = provider.asked[-1]
    assert (path, headers) == (
        "/openai/v1/chat/completions",
        {"Host": f"localhost:{provider.port}", "Authorization": "Bearer s3cret"},
    )
    assert body["messages"][0]["content"] == "hello"
    assert "s3cret" not in json.dumps(plane.objects("me,ms,httproutes.gateway.networking.k8s.io", "-A"))

    plane.kubectl("patch", "secret", "provider", "-p", '{"stringData": {"key": "an0ther"}}')
    plane.until(lambda: ask(address).status_code == 200 and provider.asked[-1][1]["Authorization"] == "Bearer an0ther")
    plane.kubectl("scale", "md/qwen3-8b", "--replicas=1")
    plane.until(lambda: "x-served-by" in ask(address).headers)


@pytest.mark.submission
@pytest.mark.timeout(500)
def test_a_provider_that_nobody_vouches_for_is_not_sent_the_key(up, provider):
    plane = up("-f", "examples/quickstart/1-hardware.yaml", "-f", "examples/quickstart/2-clusters.yaml")
    plane.kubectl("apply", "-f", "-", stdin=MANIFESTS.format(port=provider.port))
    plane.ready("ms/both", "me/provider")
    assert ask(f"{plane.gateway}/default/both").status_code == 503
    assert provider.asked == []
