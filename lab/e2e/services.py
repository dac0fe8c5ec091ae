"""Steps about the fleet router behind genuine Envoy Gateway: callers, tiers, and what goes on when a part is killed."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

from lab.client import Manifest, items, text, value
from lab.e2e import provider as providers
from lab.e2e.picking import address_of
from lab.e2e.router_pod import ROUTER, RouterPod, router_pod
from lab.e2e.steps import SERVICE, expect, remove
from lab.e2e.world import OURS, World
from lab.envoy_gateway import PROVIDER
from lab.supervisor import Phase
from modelplane.api.labels import DEFAULT_GATEWAY, FLEET_GATEWAY, SYSTEM_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

MODEL = f"default/{SERVICE}"
_TIERS = "tiers"
KEY, _CALLER, _LEAVER = "lab-key", "lab-caller", "lab-leaving-key"
_KEYS = {"lab.modelplane.ai/keys": "callers"}
GATEWAY: Manifest = {"apiVersion": OURS, "kind": "InferenceGateway", "metadata": {"name": DEFAULT_GATEWAY}}
_EXTENSIONS = "gateway.envoyproxy.io/v1alpha1"
_OK, _UNAUTHORIZED, _NOT_FOUND, _UNAVAILABLE = 200, 401, 404, 503
_SERVED_BY = "x-modelplane-served-by"
_AWAY_S, _PAUSE_S = float(os.environ.get("MODELPLANE_SURVIVE_SECONDS", "60")), 0.2
_FAILING_S, _READY_S = 30.0, 120.0
_SETTLED_S = 5.0
"""How long requests go on after a Secret is gone: Envoy Gateway may be late with what it would answer."""
_MOST = 40


@dataclass(frozen=True, slots=True)
class Reply:
    """What a caller got."""

    status: int
    endpoint: str
    body: str
    retry_after: str


@dataclass(frozen=True, slots=True)
class Door:
    """A gateway with its router, and callers who need a key."""

    base: str
    pod: RouterPod

    async def post(self, model: str, *, path: str = "/v1/chat/completions", **headers: str) -> Reply:
        """With the key, unless a header says otherwise."""
        body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
        given = {name.replace("_", "-"): content for name, content in headers.items()}
        return await _post(f"{self.base}{path}", body, given or {"authorization": f"Bearer {KEY}"})

    async def answers(self, model: str, status: int = _OK, path: str = "/v1/chat/completions") -> bool:
        return (await self.post(model, path=path)).status == status


async def _post(url: str, body: Manifest, headers: Mapping[str, str]) -> Reply:
    timeout = aiohttp.ClientTimeout(total=30.0)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(url, json=body, headers=headers) as response,
    ):
        said = await response.text()
        endpoint, after = response.headers.get(_SERVED_BY, ""), response.headers.get("retry-after", "")
        return Reply(response.status, endpoint, said, after)


async def routed(world: World) -> str:
    """Callers, models and the usage log with the router; without it the static plan."""
    async with open_door(world) as door:
        await _callers(door)
        undisturbed = await _caller_leaves(world, door)
        clusters = await _clusters_of(world, door, MODEL)
        expect(len(clusters) == len(world.sites), f"answers came from {dict(clusters)}")
        record = await _recorded(world, door)
        streamed = await _streamed(door)
        without = await _without_router(world, door)
    told = f"200, 401 and 404; {undisturbed}; both schemas; {streamed} events; clusters {dict(clusters)}"
    return f"{told}; recorded {record}; router killed: {without}"


async def _caller_leaves(world: World, door: Door) -> str:
    """A labelled Secret comes, cannot be used, and is deleted: its callers notice, and no other."""
    leaves = _callers_secret("lab-leaves", {"leaver": _LEAVER})
    async with sending(door) as statuses:
        try:
            await world.control.apply(leaves)
            came = await world.wait("a new key", lambda: _takes(door, _LEAVER, _OK), within_s=_READY_S)
            await world.control.apply(_callers_secret("lab-leaves", {"leaver": _LEAVER, "twice": KEY}))
            await world.wait("the entry that is left out", lambda: _names(world, "twice"), within_s=_READY_S)
            expect(await _takes(door, _LEAVER, _OK), "an entry that is left out took its Secret along")
        finally:
            await world.control.delete(leaves)
        went = await world.wait("its refusal", lambda: _takes(door, _LEAVER, _UNAUTHORIZED), within_s=_READY_S)
        await asyncio.sleep(_SETTLED_S)
    expect(set(statuses) == {_OK}, f"another caller got {dict(statuses)} while a Secret with keys came and went")
    return (
        f"a new key was taken after {came:.1f} s, and refused {went:.1f} s after its Secret was deleted, with "
        f"{statuses.total()} of {statuses.total()} requests of another caller answered"
    )


async def _takes(door: Door, key: str, status: int) -> bool:
    return (await door.post(MODEL, authorization=f"Bearer {key}")).status == status


async def _names(world: World, caller: str) -> bool:
    """Whether the gateway says that the caller is left out."""
    found = await world.control.get(OURS, "InferenceGateway", DEFAULT_GATEWAY, namespace="")
    return any(f"{caller} is left out" in text(each, "message") for each in items(found, "status", "conditions"))


async def _callers(door: Door) -> None:
    """Who may call, and what."""
    wanted = {
        "no key": (await door.post(MODEL, x_lab="none"), _UNAUTHORIZED),
        "a wrong key": (await door.post(MODEL, authorization="Bearer wrong"), _UNAUTHORIZED),
        "a key as x-api-key": (await door.post(MODEL, x_api_key=KEY), _OK),
        "a model that nobody declares": (await door.post("nobody/nothing"), _NOT_FOUND),
        "Anthropic's schema": (await door.post(MODEL, path="/anthropic/v1/messages", x_api_key=KEY), _OK),
        "an endpoint of the client's choice": (
            await door.post(MODEL, authorization=f"Bearer {KEY}", x_modelplane_endpoint="default/none"),
            _OK,
        ),
    }
    for what, (reply, status) in wanted.items():
        expect(reply.status == status, f"{what}: {reply.status}, not {status}: {reply.body[:200]}")
    listed = await _models(door)
    expect(MODEL in listed, f"GET /v1/models lists {listed}")


async def _models(door: Door) -> list[str]:
    headers = {"authorization": f"Bearer {KEY}"}
    async with aiohttp.ClientSession() as session, session.get(f"{door.base}/v1/models", headers=headers) as response:
        return [str(each["id"]) for each in (await response.json())["data"]]


async def _clusters_of(world: World, door: Door, model: str) -> Counter[str]:
    """The clusters that answered, until each did."""
    found: Counter[str] = Counter()
    while len(found) < len(world.sites) and found.total() < _MOST:
        found[await _cluster(world, (await door.post(model)).endpoint)] += 1
    return found


async def _cluster(world: World, endpoint: str) -> str:
    namespace, _, name = endpoint.partition("/")
    item = await world.control.get(OURS, "ModelEndpoint", name, namespace=namespace) if name else None
    return text(item, "spec", "replica", "clusterName")


async def _recorded(world: World, door: Door) -> str:
    """The usage record of a request that was served: who called, what answered, how much."""

    async def written() -> bool:
        return any(each.get("status") == _OK for each in door.pod.usage())

    await world.wait("a usage record", written, within_s=30.0)
    record = next(each for each in reversed(door.pod.usage()) if each.get("status") == _OK)
    expect(record["caller"] == _CALLER, f"the record names {record['caller']!r}")
    expect(record["service"] == MODEL, f"the record is of {record['service']!r}")
    return f"{record['inputTokens']}+{record['outputTokens']} tokens of {record['caller']}"


async def _streamed(door: Door) -> int:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8, "stream": True}
    reply = await _post(f"{door.base}/v1/chat/completions", body, {"authorization": f"Bearer {KEY}"})
    events = [line for line in reply.body.splitlines() if line.startswith("data: ")]
    expect(events[-1:] == ["data: [DONE]"], f"the stream ended with {events[-1:]}: {reply.status}")
    return len(events)


async def _without_router(world: World, door: Door) -> str:
    """Killed: the address of a service answers by the static plan; /v1 needs the body and says when to come again."""
    await door.pod.kill()
    path = f"/{MODEL}/v1/chat/completions"
    replies = [await door.post("qwen3-8b", path=path) for _ in range(10)]
    served = sum(reply.status == _OK for reply in replies)
    expect(served == len(replies), f"by the service's address {[reply.status for reply in replies]}")
    named = await door.post(MODEL)
    expect((named.status, bool(named.retry_after)) == (_UNAVAILABLE, True), f"/v1 said {named}")
    kept = await door.post("qwen3-8b", path=path, authorization=f"Bearer {KEY}", x_modelplane_residency="fleet")
    expect(kept.status == _UNAVAILABLE, f"a request that must stay in the fleet got {kept.status}")
    dark = await _one_dark(world, door, path)
    await door.pod.start()
    await world.wait("an answer by the model's name again", lambda: door.answers(MODEL))
    told = f"{served} of {len(replies)} by the service's address, 503 by the model's name"
    return f"{told}; with one cluster dark {dark} of {dark} by the service's address"


async def _one_dark(world: World, door: Door, path: str) -> int:
    """Requests of a cluster that is dark are tried again at the other; it gets its share as soon as it is back."""
    name = f"{next(iter(world.sites))}-envoy"
    await asyncio.to_thread(world.tell, "hold", name=name)
    dark = [(await door.post("qwen3-8b", path=path)).status for _ in range(20)]
    await asyncio.to_thread(world.tell, "resume", name=name)
    expect(set(dark) == {_OK}, f"{name} was held, and requests got {Counter(dark)}")
    await asyncio.sleep(1.0)
    after = [(await door.post("qwen3-8b", path=path)).status for _ in range(20)]
    expect(set(after) == {_OK}, f"a second after {name} was back requests got {Counter(after)}")
    return len(dark)


async def tiers(world: World) -> str:
    """Every cluster of the first tier goes dark, the provider of the second answers; and back."""
    async with open_door(world) as door, providers.provider(world) as provider:
        made = _tiered()
        for item in made:
            await world.control.apply(item)
        try:
            await world.ready("ModelService", _TIERS)
            await world.wait("the provider's list of models", lambda: _lists(world))
            model = f"default/{_TIERS}"
            await world.wait("an answer of the first tier", lambda: _answered_by(door, model, first=True))
            expect(not provider.seen, f"the second tier was used: {provider.seen[:1]}")
            await world.wait("the provider in the router's plans", lambda: door.pod.serves("default/acme"))
            lost, took = await _fail_over(world, door, model)
            expect(provider.seen[-1][:2] == ("/openai/v1/chat/completions", providers.MODEL), f"{provider.seen[-1]}")
            back = await world.wait("the first tier again", lambda: _answered_by(door, model, first=True))
        finally:
            await remove(world, made)
    told = f"the provider answered {took:.1f} s after the clusters went dark, {lost.total()} requests lost {dict(lost)}"
    return f"{told}; the clusters again after {back:.1f} s"


async def _lists(world: World) -> bool:
    """Whether the endpoint says what its provider lists, fetched with the key by the function server."""
    acme = await world.control.get(OURS, "ModelEndpoint", "acme", namespace="default")
    return value(acme, "status", "models", "names") == [providers.MODEL]


async def _fail_over(world: World, door: Door, model: str) -> tuple[Counter[str], float]:
    """What was lost, and seconds, until the second tier answers. The clusters are back when it returns."""
    gateways = [f"{site}-envoy" for site in world.sites]
    for name in gateways:
        await asyncio.to_thread(world.tell, "hold", name=name)
    began = time.monotonic()
    lost: Counter[str] = Counter()
    try:
        while not _is_of(reply := await door.post(model), first=False):
            lost[f"{reply.status} of {reply.endpoint or 'nobody'}: {reply.body[:80]}"] += 1
            expect(time.monotonic() - began < _FAILING_S, f"{dict(lost)}: {door.pod.said()[-500:]}")
            await asyncio.sleep(_PAUSE_S)
        return lost, time.monotonic() - began
    finally:
        for name in gateways:
            await asyncio.to_thread(world.tell, "resume", name=name)


async def _answered_by(door: Door, model: str, *, first: bool) -> bool:
    return _is_of(await door.post(model), first=first)


def _is_of(reply: Reply, *, first: bool) -> bool:
    """Whether a replica of the first tier answered, or else the provider of the second."""
    return reply.status == _OK and (reply.endpoint == "default/acme") is not first


def _tiered() -> list[Manifest]:
    key = base64.b64encode(providers.KEY.encode()).decode()
    reference = {"name": "acme-key", "key": "apiKey"}
    endpoint = {
        "origin": f"https://{PROVIDER}:{providers.PORT}",
        "api": {"prefix": "/openai/v1"},
        "model": providers.MODEL,
        "credential": {"method": "APIKey", "apiKey": {"secretRef": reference}},
    }
    groups = [
        {"name": "fleet", "priority": 0, "selector": {"matchLabels": {"app": "qwen3-8b"}}},
        {"name": "hosted", "priority": 1, "selector": {"matchLabels": {"vendor": "acme"}}},
    ]
    acme = {"name": "acme", "namespace": "default", "labels": {"vendor": "acme"}}
    service = {"name": _TIERS, "namespace": "default"}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "acme-key", "namespace": "default"},
         "data": {"apiKey": key}},
        {"apiVersion": OURS, "kind": "ModelEndpoint", "metadata": acme, "spec": endpoint},
        {"apiVersion": OURS, "kind": "ModelService", "metadata": service, "spec": {"endpoints": groups}},
    ]  # fmt: skip


async def survives(world: World) -> str:
    """Everything of the control plane is stopped, its API server too: no request fails."""
    state = await asyncio.to_thread(world.tell, "status")
    stopped = control_plane(items(state, "programs"))
    async with open_door(world) as door:
        for name in stopped:
            await asyncio.to_thread(world.tell, "hold", name=name)
        try:
            async with sending(door) as statuses:
                await asyncio.sleep(_AWAY_S)
        finally:
            for name in reversed(stopped):
                await asyncio.to_thread(world.tell, "resume", name=name)
            await world.wait("the API server", world.control.ready)
    expect(set(statuses) == {_OK}, f"statuses {dict(statuses)}")
    return f"{statuses.total()} of {statuses.total()} requests in {_AWAY_S:.0f} s without {', '.join(stopped)}"


def control_plane(programs: Iterable[Manifest]) -> list[str]:
    """What is to be stopped, the API server last. After an upgrade the function server is another program."""
    ready = [text(each, "name") for each in programs if text(each, "phase") == Phase.READY.value]
    functions = [name for name in ready if name.partition("-")[0] == "function"]
    expect(functions, f"no function server among {', '.join(ready)}")
    return ["crossplane", *functions, "provider-kubernetes", "control-controller-manager", "control-apiserver"]


async def gateway_killed(world: World) -> str:
    """Envoy Gateway and its Envoy die at once; requests are answered again without anybody's help."""
    async with open_door(world) as door:
        await asyncio.to_thread(world.tell, "kill", name="control-envoy-gateway")
        waited = await world.wait("an answer after the kill", lambda: door.answers(MODEL))
    return f"answers again {waited:.1f} s after kill -9 of the gateway"


@contextlib.asynccontextmanager
async def sending(door: Door) -> AsyncIterator[Counter[int]]:
    """Sends requests, one after another, while the body runs. Their statuses are complete after it; 0 is no answer."""
    found: Counter[int] = Counter()
    ended = asyncio.Event()

    async def send() -> None:
        while not ended.is_set():
            try:
                found[(await door.post(MODEL)).status] += 1
            except (aiohttp.ClientError, TimeoutError):
                found[0] += 1
            await asyncio.sleep(_PAUSE_S)

    task = asyncio.create_task(send(), name="send requests")
    try:
        yield found
    finally:
        ended.set()
        await task


@contextlib.asynccontextmanager
async def open_door(world: World) -> AsyncIterator[Door]:
    """The fleet's gateway with a router that runs and with callers, until this ends."""
    address = await address_of(world, SERVICE)
    expect(address, f"there is no ModelService {MODEL} with an address")
    secret = _callers_secret("lab-callers", {_CALLER: KEY})
    await world.control.apply(secret)
    auth = {"method": "APIKey", "apiKey": {"secretSelector": {"matchLabels": _KEYS}}}
    spec: Manifest = {"router": {"image": "lab"}, "auth": auth, "outbound": {"allow": [PROVIDER]}}
    await world.control.patch(GATEWAY, {"spec": spec})
    try:
        await world.wait("the router's objects", lambda: _is_composed(world))
        async with router_pod(world) as pod:
            door = Door(address.removesuffix(f"/{MODEL}"), pod)
            await world.wait("policies that Envoy Gateway accepts", lambda: _are_accepted(world), within_s=_READY_S)
            await world.wait("a refusal of strangers", lambda: _refuses(door), within_s=_READY_S)
            await world.wait("an answer by the model's name", lambda: door.answers(MODEL), within_s=_READY_S)
            yield door
    finally:
        await world.control.patch(GATEWAY, {"spec": dict.fromkeys(spec)})
        await world.wait("a gateway open to everybody", lambda: _is_open(world), within_s=_READY_S)
        await world.control.delete(secret)


def _callers_secret(name: str, callers: Mapping[str, str]) -> Manifest:
    data = {caller: base64.b64encode(key.encode()).decode() for caller, key in callers.items()}
    metadata = {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": _KEYS}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


async def _is_composed(world: World) -> bool:
    """Whether the service is in the plans of a router that is there."""
    held = await world.control.get("v1", "ConfigMap", f"{ROUTER}-plans-0", namespace=SYSTEM_NAMESPACE)
    deployment = await world.control.get("apps/v1", "Deployment", ROUTER, namespace=SYSTEM_NAMESPACE)
    return deployment is not None and value(held, "data", f"default.{SERVICE}.json") is not None


async def _refuses(door: Door) -> bool:
    return (await door.post(MODEL, x_lab="none")).status == _UNAUTHORIZED


async def _is_open(world: World) -> bool:
    return await _policy(world, "SecurityPolicy", FLEET_GATEWAY) is None


_POLICIES = (("EnvoyExtensionPolicy", ROUTER), ("ClientTrafficPolicy", ROUTER), ("SecurityPolicy", FLEET_GATEWAY))


async def _policy(world: World, kind: str, name: str) -> Manifest | None:
    return await world.control.get(_EXTENSIONS, kind, name, namespace=SYSTEM_NAMESPACE)


async def _are_accepted(world: World) -> bool:
    """No policy is refused. One that was made anew may be without a word: Envoy Gateway writes what changed."""
    for kind, name in _POLICIES:
        policy = await _policy(world, kind, name)
        told = [each for ancestor in items(policy, "status", "ancestors") for each in items(ancestor, "conditions")]
        if policy is None or any(text(each, "status") == "False" for each in told):
            return False
    return True
