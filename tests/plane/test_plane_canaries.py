"""Secrets and prompts that are planted on a running plane, and every output that is read for them."""

import asyncio
import base64
import json
import logging
import stat
import tarfile
from pathlib import Path

import aiohttp
import msgspec
import pytest
import yaml
from aiohttp import web

from modelplane.api.objects import GROUP
from modelplane.cli import main
from modelplane.cli.manifests import read_documents
from modelplane.plane.plane import Plane, PlaneSettings
from modelplane.reconcile.store import ObjectRef
from modelplane.web.page_token import PageToken
from modelplane.web.pages import VIEWS
from modelplane.web.server import serve
from modelplane.web.source import DashboardSource
from tests.support.waiting import until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
IN_SECRETS = (
    "hf-token", "env-from", "pull-password", "bearer-key", "raw-key", "key-of-two-lines", "unused", "alice", "bob",
    "carol", "cache-token",
)  # fmt: skip
IN_REQUESTS = (
    "prompt", "system", "tool", "user", "completion-prompt", "image", "streamed", "malformed", "wrong-key", "header",
    "cookie", "query", "answered",
)  # fmt: skip
CANARY = {name: f"cnry{number:02d}x{number * 7919:08x}" for number, name in enumerate((*IN_SECRETS, *IN_REQUESTS))}
FORMS = {
    name: (value, *(base64.b64encode(b"x" * lead + value.encode()).decode()[4:20] for lead in (1, 2, 3)))
    for name, value in CANARY.items()
}
"""A canary as it is, and the middle of its base64 at each of the three offsets."""
SHOWN = "cnry-shown"
"""The name of a service: what is read for canaries must have it."""
PRIVATE = {"plane.db", "plane.db-wal", "plane.db-shm"}
"""Files with values, each for its owner only: the store, and what Envoy adds to requests."""

MANIFESTS = """
apiVersion: modelplane.ai/v1alpha1
kind: InferenceGateway
metadata: {name: default}
spec: {outbound: {allow: [localhost]}}
---
apiVersion: modelplane.ai/v1alpha1
kind: InferenceGateway
metadata: {name: keyed}
spec:
  clusterName: east
  auth:
    method: APIKey
    apiKey: {secretSelector: {matchLabels: {example.com/keys: all}}}
    callers:
    - {name: bob, services: [default/nothing]}
    - {name: carol, requestsPerMinute: 1}
  router: {}
"""


def secrets():
    docker = {"auths": {"registry.example": {"username": "u", "password": CANARY["pull-password"]}}}
    yield "default", "hf-token", {"HF_TOKEN": CANARY["hf-token"]}, {}
    yield "default", "provider-keys", {"OTHER": CANARY["env-from"]}, {}
    yield "default", "registry", {".dockerconfigjson": json.dumps(docker)}, {"type": "kubernetes.io/dockerconfigjson"}
    yield "default", "bearer", {"apiKey": CANARY["bearer-key"]}, {}
    yield "default", "raw", {"key": CANARY["raw-key"]}, {}
    yield "default", "broken", {"apiKey": f"{CANARY['key-of-two-lines']}\nb"}, {}
    yield "default", "unused", {"a": CANARY["unused"]}, {}
    yield "default", "cache", {"HF_TOKEN": CANARY["cache-token"]}, {}
    keys = {name: CANARY[name] for name in ("alice", "bob", "carol")}
    yield "modelplane-system", "callers", keys, {"labels": {"example.com/keys": "all"}}


def secret(namespace, name, values, more):
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    metadata = {"name": name, "namespace": namespace, "labels": more.get("labels", {})}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": more.get("type", "Opaque"),
        "data": data,
    }


def endpoint(name, port, **spec):
    metadata = {"name": name, "namespace": "default", "labels": {"example.com/vendor": name}}
    body = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelEndpoint", "metadata": metadata}
    return {**body, "spec": {"url": f"http://localhost:{port}", "model": "m", **spec}}


def service(name):
    endpoints = [{"name": "only", "selector": {"matchLabels": {"example.com/vendor": name}}}]
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelService", "metadata": metadata,
            "spec": {"endpoints": endpoints}}  # fmt: skip


def cache():
    source = {"repo": "acme/tiny", "authSecret": {"name": "cache"}}
    metadata = {"name": "weights", "namespace": "default"}
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelCache", "metadata": metadata,
            "spec": {"source": "HuggingFace", "huggingFace": source, "storage": {"sizeGiB": 1}}}  # fmt: skip


def gated():
    (found,) = yaml.safe_load_all((EXAMPLES / "gated" / "model.yaml").read_text())
    pod = found["spec"]["workers"]["template"]["spec"]
    pod["imagePullSecrets"] = [{"name": "registry"}]
    pod["containers"][0]["envFrom"] = [{"secretRef": {"name": "provider-keys"}}]
    return {**found, "spec": {**found["spec"], "replicas": 1}}


class Provider:
    """Answers with a canary, and remembers the credentials that it got."""

    def __init__(self):
        self.credentials = set()

    async def answer(self, request):
        self.credentials |= {request.headers.get("Authorization"), request.headers.get("x-api-key")}
        message = {"role": "assistant", "content": CANARY["answered"]}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return web.json_response(
            {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        )

    async def start(self):
        self.runner = web.ServerRunner(web.Server(self.answer))
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        return self.runner.addresses[0][1]


def plant(plane, port, file):
    raw = {"header": "x-api-key", "scheme": "Raw", "secretRef": {"name": "raw", "key": "key"}}
    objects = [
        *yaml.safe_load_all(MANIFESTS),
        *(secret(*each) for each in secrets()),
        endpoint("bearer", port, auth={"secretRef": {"name": "bearer", "key": "apiKey"}}),
        endpoint("raw", port, auth=raw),
        endpoint("broken", port, auth={"secretRef": {"name": "broken", "key": "apiKey"}}),
        *map(service, ("bearer", "raw", "broken", SHOWN)),
        cache(),
        gated(),
    ]
    file.write_text(yaml.safe_dump_all(objects))
    plane.apply(read_documents([EXAMPLES / "quickstart", file]))


def condition(plane, kind, namespace, name, type_):
    found = plane.store.get(ObjectRef(GROUP, kind, namespace, name)) or {}
    conditions = found.get("status", {}).get("conditions", [])
    return {each["type"]: each["status"] for each in conditions}.get(type_)


async def until_true(plane, *named):
    await until(lambda: condition(plane, *named) == "True", seconds=120)


async def send(session, url, path, body, **headers):
    """The status and the request's id; a refused connection is tried again."""
    async with asyncio.timeout(120):
        while True:
            try:
                async with session.post(f"{url}{path}", data=body, headers=headers) as response:
                    await response.read()
                    return response.status, response.headers.get("x-request-id", "")
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.2)


def chat(model, content, **more):
    given = {"model": model, "max_tokens": 3, "messages": [{"role": "user", "content": content}], **more}
    return json.dumps(given).encode()


def requests():
    """Paths, bodies and headers. The first is sent until it is answered."""
    c = CANARY
    tool = {"type": "function", "function": {"name": "f", "description": c["tool"], "parameters": {}}}
    spoken = [{"role": "system", "content": c["system"]}, {"role": "user", "content": "x"}]
    image = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{c['image']}"}}]
    yield "/v1/chat/completions", chat("default/chat", c["prompt"]), {}
    yield "/v1/chat/completions", chat("default/chat", "x", messages=spoken, tools=[tool], user=c["user"]), {}
    yield "/v1/chat/completions", chat("default/chat", image), {}
    yield "/v1/chat/completions", chat("default/chat", c["streamed"], stream=True), {}
    completion = {"model": "default/chat", "prompt": c["completion-prompt"], "max_tokens": 3}
    yield "/v1/completions", json.dumps(completion).encode(), {}
    yield "/v1/chat/completions", b'{"model": "default/chat", "messages": ["' + c["malformed"].encode(), {}
    yield f"/v1/chat/completions?api_key={c['query']}", chat("default/chat", "x"), {}
    yield f"/default/chat/v1/chat/completions?api_key={c['query']}", chat("default/chat", "x"), {}
    yield f"/default/{SHOWN}/v1/chat/completions", chat("m", c["prompt"]), {}
    yield f"/nowhere?api_key={c['query']}", b"{}", {}
    private = {
        "x-private": c["header"],
        "Cookie": f"session={c['cookie']}",
        "Authorization": f"Bearer {c['wrong-key']}",
    }
    yield "/v1/chat/completions", chat("default/chat", "x"), private
    for name in ("bearer", "raw", "broken"):
        yield f"/default/{name}/v1/chat/completions", chat("m", "x"), {}


async def exercise(session, plane, keyed):
    """Ids of what was sent."""
    ids = []
    first, *others = requests()

    async def is_served():
        status, number = await send(session, plane.gateway_url, *first[:2])
        ids.append(number)
        return status == 200

    async with asyncio.timeout(120):
        while not await is_served():  # noqa: ASYNC110  endpoints come up
            await asyncio.sleep(0.2)
    for path, body, headers in others:
        ids.append((await send(session, plane.gateway_url, path, body, **headers))[1])
    keys = [CANARY["alice"], CANARY["bob"], CANARY["carol"], CANARY["carol"], CANARY["wrong-key"]]
    statuses = []
    for key in keys:
        found = await send(
            session, keyed, "/chat/completions", chat("default/chat", "x"), Authorization=f"Bearer {key}"
        )
        statuses.append(found[0])
        ids.append(found[1])
    return [each for each in ids if each], statuses


async def pages(session, plane):
    """What the side doors of the routers and the page show."""
    for door in plane.routers.values():
        for path in ("/requests", "/endpoints", "/metrics"):
            async with session.get(f"{door}{path}") as response:
                yield f"{door}{path}", await response.text()
    async for each in views(session, plane):
        yield each
    stores = [plane.store, *(plane.store.database.store(f"cluster/{name}") for name in ("east", "west"))]
    for store in stores:
        for group, kind in store.kinds():
            if kind != "Secret":
                yield kind, msgspec.json.encode(store.list(group, kind)).decode()


async def views(session, plane):
    """Every view of the dashboard, of each object that has one."""
    page = await serve(DashboardSource(plane.store, plane.gateway_url), token=PageToken.printed("token"))
    origin, _, port = page.url.partition("/?")[0].rpartition(":")
    named = {
        "cluster": [f"name={each}" for each in ("east", "west")],
        "deployment": [f"namespace=default&name={each}" for each in ("qwen3-8b", "llama-3-8b")],
        "service": [f"namespace=default&name={each}" for each in ("chat", "bearer", "raw", "broken", SHOWN)],
    }
    try:
        for path in (f"{origin}:{port}/api/{view}?{query}" for view in VIEWS for query in named.get(view, ("",))):
            async with session.get(path, headers={"Cookie": f"modelplane-{port}=token"}) as response:
                assert response.status == 200, path
                yield path, await response.text()
    finally:
        await page.close()


def commands(data, ids):
    at = ["--data", str(data)]
    yield from (["status", "-o", form, *at] for form in ("text", "wide", "json", "yaml", "name"))
    yield ["explain", "md/llama-3-8b", "-o", "yaml", *at]
    yield ["explain", "md/qwen3-8b", *at]
    yield ["plan", "-f", str(EXAMPLES / "gated"), "-o", "json", *at]
    yield ["fleet", "snapshot", *at]
    yield ["cache", "list", "-o", "yaml", *at]
    yield ["cache", "show", "weights", *at]
    yield from (["service", name, *at] for name in ("chat", "bearer", "raw", "broken"))
    yield ["rollout", "history", "md/llama-3-8b", *at]
    yield ["sim", "show", "east", *at]
    yield from (["explain", "request", each, *at] for each in ids)


def check_files(data):
    """Values are in the store and in what Envoy reads, and those are their owner's alone."""
    for path in (path for path in data.rglob("*") if path.is_file()):
        found = found_in(path.read_bytes().decode(errors="replace"))
        if found and path.name not in PRIVATE:
            assert path.suffix == ".json", f"{path.relative_to(data)} has {found}"
            assert found <= {"bearer-key", "raw-key", "alice", "bob", "carol"}, f"{path.relative_to(data)} has {found}"
        if found:
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 or is_private(path.parent, data), path


def is_private(folder, data):
    return stat.S_IMODE(data.stat().st_mode) & 0o077 == 0 and folder.is_relative_to(data)


def found_in(text):
    """Names of the canaries in a text, as they are or in base64, whatever comes before."""
    return {name for name, forms in FORMS.items() if any(form in text for form in forms)}


async def journey(data, capfd, caplog):
    provider = Provider()
    port = await provider.start()
    said = []
    try:
        settings = PlaneSettings(data=data, router=True, engine_speed=50)
        async with Plane(settings, report=said.append) as plane, aiohttp.ClientSession() as session:
            plant(plane, port, data.with_name("planted.yaml"))
            await until_true(plane, "ModelReplica", "default", await until(lambda: replica_of(plane)), "SecretsReady")
            await until_true(plane, "ModelEndpoint", "default", "raw", "Ready")
            await until_true(plane, "InferenceGateway", "", "keyed", "Ready")
            door = plane.store.get(ObjectRef(GROUP, "InferenceGateway", "", "keyed"))["status"]["endpoints"]["openAI"]
            ids, statuses = await exercise(session, plane, door)
            assert statuses == [200, 403, 200, 429, 401]
            assert provider.credentials >= {f"Bearer {CANARY['bearer-key']}", CANARY["raw-key"]}
            shown = [each async for each in pages(session, plane)]
            shown += [await output(words, capfd) for words in commands(data, ids)]
            shown += [each for words in bundles(data) for each in await bundled(words, data, capfd)]
            check_files(data)
    finally:
        await provider.runner.cleanup()
    return [*shown, ("reports", "\n".join(said)), ("log", caplog.text), ("printed", "".join(capfd.readouterr()))]


def replica_of(plane):
    names = [each["metadata"]["name"] for each in plane.store.list(GROUP, "ModelReplica")]
    return next((name for name in names if name.startswith("llama-3-8b")), "")


async def output(words, capfd):
    capfd.readouterr()
    await asyncio.to_thread(main, words)
    found = capfd.readouterr()
    assert found.out or found.err, words
    return " ".join(words), found.out + found.err


def bundles(data):
    yield ["debug-bundle", "--data", str(data)]
    yield ["debug-bundle", "--kubeconfig", str(data / "kubeconfig")]


async def bundled(words, data, capfd):
    """Every file of the archive, by the command and its name."""
    file = data.with_name("bundle.tar.gz")
    said = await output([*words, "-o", str(file)], capfd)
    with tarfile.open(file) as archive:
        members = [(f"{words[1]} {name}", archive.extractfile(name).read().decode()) for name in archive.getnames()]
    assert len(members) > 10, said
    return [said, *members]


@pytest.mark.submission
@pytest.mark.e2e
def test_no_output_has_a_secret_or_a_prompt(tmp_path, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    assert len(CANARY) >= 20
    shown = asyncio.run(journey(tmp_path / "data", capfd, caplog))
    assert len(shown) > 60
    assert {name: found for name, text in shown if (found := found_in(text))} == {}
    with_names = {name.partition(" --data")[0].rpartition("/")[2] for name, text in shown if SHOWN in text}
    assert with_names >= {"services?", "requests", "ModelService", "status -o text", "status -o wide", "status -o json"}
    assert with_names >= {
        "modelservices.modelplane.ai.yaml",
        "status.txt",
        "trace.txt",
        "access.log",
        "1-requests.json",
    }


@pytest.mark.parametrize("lead", ["", "a", "ab", "abc", "abcd"])
def test_a_canary_is_found_in_any_dress(lead):
    value = CANARY["prompt"]
    assert found_in(f"x {value} y") == {"prompt"}
    assert found_in(base64.b64encode(f"{lead}{value}z".encode()).decode()) == {"prompt"}
