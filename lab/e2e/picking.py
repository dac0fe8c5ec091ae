"""Steps about the way of a request: client, fleet gateway, cluster gateway, picker, pod. Envoy's logs are the proof.

The gateways' access logs say for each request which pod answered it and which one the picker had named: the name is in
metadata that only the picker writes.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from lab.client import Manifest, items, name_of, text, value
from lab.cluster import answers
from lab.e2e.steps import DEPLOYMENT, REPLICAS, SERVICE, expect, remove
from lab.e2e.world import OURS, World
from lab.envoy_resources import REQUEST_HEADER
from lab.manifests import read_folder
from lab.routing import NO_BACKEND, POOLS
from modelplane.api.labels import FLEET_GATEWAY, SYSTEM_NAMESPACE
from modelplane.compose.picker import LABEL, METRICS_PORT

if TYPE_CHECKING:
    from collections.abc import Iterable

ROUTES = "gateway.networking.k8s.io/v1"
_DEFINITIONS = "apiextensions.k8s.io/v1"
DIVIDED = Path("examples/prefill-decode")
_OK = 200
_ERROR = 500
_UNAVAILABLE = 503
_NO_ENDPOINT_TRIES = 60
_LOGGED_S = 30.0
_MOST_REQUESTS = 40
PROMPT = "Say something about tides. " * 40


@dataclass(frozen=True, slots=True)
class Passage:
    """One request on a cluster's gateway. `picked` is what the picker said, if it was asked."""

    status: int
    upstream: str
    picked: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client got."""

    status: int
    lines: list[bytes]

    @property
    def events(self) -> list[bytes]:
        return [line.strip() for line in self.lines if line.startswith(b"data: ")]


async def ask(address: str, model: str, name: str, *, prompt: str = "hello", stream: bool = False) -> Answer:
    """What is asked while the service has no endpoint is asked again.

    Crossplane writes the conditions of a composite twice in a reconcile, first as it last saw them. On a busy machine
    that can be old ones: a replica that has just become ready is not for a moment, and loses its endpoint meanwhile.
    """
    answer = await _ask_once(address, model, name, prompt=prompt, stream=stream)
    for _ in range(_NO_ENDPOINT_TRIES):
        if not _lacks_backend(answer):
            break
        await asyncio.sleep(1.0)
        answer = await _ask_once(address, model, name, prompt=prompt, stream=stream)
    return answer


def _lacks_backend(answer: Answer) -> bool:
    """Envoy Gateway has no words for a route to a Backend that is gone, only 500."""
    return (answer.status, tuple(answer.lines)) in {(_UNAVAILABLE, (NO_BACKEND.encode(),)), (_ERROR, ())}


async def _ask_once(address: str, model: str, name: str, *, prompt: str, stream: bool) -> Answer:
    body = {"model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": 16, "stream": stream}
    headers = {REQUEST_HEADER: name}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{address}/v1/chat/completions", json=body, headers=headers) as answer,
    ):
        lines = [line async for line in answer.content]
        return Answer(answer.status, lines)


async def passage(world: World, site: str, request: str) -> Passage | None:
    """What the gateway of a cluster wrote about a request; None if it never saw it."""
    try:
        lines = await asyncio.to_thread((world.places.state / site / "envoy" / "access.log").read_text)
    except FileNotFoundError:
        return None
    for line in reversed(lines.splitlines()):
        if request in line:
            found = json.loads(line)
            return Passage(int(found["status"]), found["upstream"] or "", found["picked"] or "")
    return None


async def logged(world: World, request: str) -> Passage:
    """How a request was answered by whichever cluster: logs are written a moment later."""
    found: list[Passage] = []

    async def written() -> bool:
        seen = [await passage(world, site, request) for site in world.sites]
        found[:] = [each for each in seen if each is not None]
        return bool(found)

    await world.wait(f"the log of {request}", written, within_s=_LOGGED_S)
    return found[0]


async def address_of(world: World, service: str) -> str:
    return text(await world.control.get(OURS, "ModelService", service), "status", "address")


async def request(world: World) -> str:
    """Chat requests and streams through the fleet's gateway until a pod of every replica has answered."""
    address = await address_of(world, SERVICE)
    await _listening(world, DEPLOYMENT)
    answered: Counter[str] = Counter()
    while len(answered) < REPLICAS and answered.total() < _MOST_REQUESTS:
        number = answered.total()
        seen = await travelled(world, address, DEPLOYMENT, f"lab-request-{number}", stream=number % 2 == 1)
        answered[seen.upstream] += 1
    expect(len(answered) == REPLICAS, f"answers came from {dict(answered)}")
    told = f"{answered.total()} requests, every other one a stream; pods that pickers named answered: {dict(answered)}"
    return f"{told}; the service's route is {await _controller(world, SERVICE)}'s"


async def _controller(world: World, route: str) -> str:
    """Who accepted a route of the fleet's gateway."""
    found = await world.control.get(ROUTES, "HTTPRoute", route)
    parents = items(found, "status", "parents")
    expect(parents, f"nobody reports on HTTPRoute {route}")
    return text(parents[0], "controllerName")


async def pools(world: World) -> str:
    """What the genuine gateway of the control cluster says of a route to an InferencePool, in its own words."""
    site = next(iter(world.sites.values()))
    definition = await site.get(_DEFINITIONS, "CustomResourceDefinition", f"inferencepools.{POOLS}")
    kind: Manifest = {"apiVersion": _DEFINITIONS, "kind": "CustomResourceDefinition", "metadata": _kept(definition)}
    await world.control.apply({**kind, "spec": value(definition, "spec")})
    route = _pool_route()
    await world.control.apply(route)
    try:
        await world.wait("a word on the route", lambda: _reported(world, name_of(route)))
        found = await world.control.get(ROUTES, "HTTPRoute", name_of(route))
    finally:
        await world.control.delete(route)
        await world.control.delete(kind)
    (parent,) = items(found, "status", "parents")
    told = [
        f"{text(each, 'type')} {text(each, 'status')}: {text(each, 'message')}" for each in items(parent, "conditions")
    ]
    return f"{text(parent, 'controllerName')}: {'; '.join(told)}"


async def _reported(world: World, route: str) -> bool:
    return bool(items(await world.control.get(ROUTES, "HTTPRoute", route), "status", "parents"))


def _kept(definition: Manifest | None) -> Manifest:
    """Names and the approval that definitions of Kubernetes' own groups need."""
    return {"name": text(definition, "metadata", "name"), "annotations": value(definition, "metadata", "annotations")}


def _pool_route() -> Manifest:
    pool = {"group": POOLS, "kind": "InferencePool", "name": "any"}
    return {
        "apiVersion": ROUTES,
        "kind": "HTTPRoute",
        "metadata": {"name": "to-a-pool", "namespace": "default"},
        "spec": {
            "parentRefs": [{"name": FLEET_GATEWAY, "namespace": SYSTEM_NAMESPACE}],
            "rules": [{"matches": [{"path": {"type": "PathPrefix", "value": "/to-a-pool"}}], "backendRefs": [pool]}],
        },
    }


async def travelled(world: World, address: str, model: str, name: str, *, stream: bool = False) -> Passage:
    """A request that must be answered, by the pod that the picker named."""
    answer = await ask(address, model, name, stream=stream)
    expect(answer.status == _OK, f"status {answer.status}: {b''.join(answer.lines)[:300]!r}")
    if stream:
        expect(answer.events[-1:] == [b"data: [DONE]"], f"the stream ended with {answer.events[-1:]!r}")
    seen = await logged(world, name)
    expect(seen.picked == seen.upstream, f"{seen.upstream} answered, the picker said {seen.picked or 'nothing'}")
    return seen


def divided() -> list[Manifest]:
    """Prefill and decode apart."""
    kinds = ("ModelDeployment", "ModelService")
    found = [item for item in read_folder(DIVIDED) if item["kind"] in kinds]
    for item in found:
        if item["kind"] == "ModelService":
            item["metadata"] = {"name": "divided", "namespace": "default"}
    return found


def several() -> list[Manifest]:
    """One replica of two pods, so that there is something to choose."""
    member = {
        "nodeSelector": {"devices": [{"name": "gpu", "count": 1, "selectors": [{"cel": "true"}]}]},
        "template": {
            "spec": {"containers": [{"name": "engine", "image": "vllm/vllm-openai:v0.27.1", "args": ["example/small"]}]}
        },
    }
    template = {
        "metadata": {"labels": {"app": "several"}},
        "spec": {"engines": [{"name": "main", "copies": 2, "members": [member]}]},
    }
    return [_object("ModelDeployment", {"replicas": 1, "template": template}), _object("ModelService", _selecting())]


def _object(kind: str, spec: Manifest) -> Manifest:
    return {"apiVersion": OURS, "kind": kind, "metadata": {"name": "several", "namespace": "default"}, "spec": spec}


def _selecting() -> Manifest:
    return {"endpoints": [{"selector": {"matchLabels": {"app": "several"}}}]}


async def picks(world: World) -> str:
    """The picker sends a prompt where it went before; without a picker any pod answers; with it again, it chooses."""
    await _serve(world, several(), "several", "several")
    address, model = await address_of(world, "several"), "example/small"
    alike = {(await _picked(world, address, model, f"lab-alike-{turn}")).upstream for turn in range(4)}
    expect(len(alike) == 1, f"one prompt went to {sorted(alike)}")
    decided = await _decisions(world, "several")
    name = await _picker_program(world, "several")
    await asyncio.to_thread(world.tell, "hold", name=name)
    try:
        without = [await _unpicked(world, address, model, f"lab-without-{turn}") for turn in range(4)]
    finally:
        await asyncio.to_thread(world.tell, "resume", name=name)
    expect(len(set(without)) > 1, f"without its picker the pool was {set(without)}")
    await world.wait("the picker chooses again", lambda: _chooses(world, address, model))
    await remove(world, several())
    told = f"one prompt went to one pod 4 of 4 times by the picker's word ({decided:.0f} decisions)"
    return f"{told}; FailOpen: without the picker {len(set(without))} pods answered 4 of 4; it chooses again"


async def _serve(world: World, objects: Iterable[Manifest], deployment: str, service: str) -> None:
    for item in objects:
        await world.control.apply(item)
    await world.ready("ModelDeployment", deployment)
    await world.ready("ModelService", service)
    await _listening(world, deployment)


async def _listening(world: World, deployment: str) -> None:
    """KWOK calls pods ready before anything runs in them; real ones would not be."""
    labels = f"{LABEL},modelplane.ai/deployment={deployment}"
    engines = [f"http://{text(pod, 'status', 'podIP')}:8000/health" for _, pod in await world.all_pods(deployment)]
    pickers = [
        f"http://{text(pod, 'status', 'podIP')}:{METRICS_PORT}/readyz"
        for api in world.sites.values()
        for pod in await api.list("v1", "Pod", labels=labels)
    ]
    for url in (*engines, *pickers):
        await world.wait(url, answers(url))


async def _picked(world: World, address: str, model: str, name: str) -> Passage:
    answer = await ask(address, model, name, prompt=PROMPT)
    expect(answer.status == _OK, f"status {answer.status}: {b''.join(answer.lines)[:300]!r}")
    seen = await logged(world, name)
    expect(seen.picked == seen.upstream, f"{seen.upstream} answered, the picker said {seen.picked or 'nothing'}")
    return seen


async def _unpicked(world: World, address: str, model: str, name: str) -> str:
    answer = await ask(address, model, name, prompt=PROMPT)
    expect(answer.status == _OK, f"status {answer.status}: {b''.join(answer.lines)[:300]!r}")
    seen = await logged(world, name)
    expect(not seen.picked, f"the picker is held and said {seen.picked}")
    return seen.upstream


async def _chooses(world: World, address: str, model: str) -> bool:
    name = f"lab-again-{asyncio.get_running_loop().time():.3f}"
    answer = await ask(address, model, name, prompt=PROMPT)
    seen = await logged(world, name)
    return answer.status == _OK and bool(seen.picked) and seen.picked == seen.upstream


async def _picker_pod(world: World, deployment: str) -> tuple[str, Manifest]:
    """The one of the one replica, and where it is."""
    labels = f"{LABEL},modelplane.ai/deployment={deployment}"
    pods = [(site, pod) for site, api in world.sites.items() for pod in await api.list("v1", "Pod", labels=labels)]
    expect(len(pods) == 1, f"{len(pods)} pickers of {deployment}")
    return pods[0]


async def _picker_program(world: World, deployment: str) -> str:
    site, pod = await _picker_pod(world, deployment)
    return f"{site}-picker-{name_of(pod)}"


async def prefilled(pods: Iterable[Manifest]) -> list[str]:
    """Addresses of prefill pods that computed prompts, by their own count."""
    found = []
    for pod in pods:
        address = text(pod, "status", "podIP")
        if "-prefill-" in name_of(pod) and await _counted(f"http://{address}:8000/metrics", "vllm:prompt_tokens_total"):
            found.append(address)
    return found


async def _counted(url: str, series: str) -> float:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        page = await answer.text()
    return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(series))


async def _decisions(world: World, deployment: str) -> float:
    """What the picker itself counted."""
    _, pod = await _picker_pod(world, deployment)
    url = f"http://{text(pod, 'status', 'podIP')}:{METRICS_PORT}/metrics"
    counted = await _counted(url, "llm_d_epp_scheduler_attempts_total")
    expect(counted > 0, f"the picker of {deployment} counted no decision")
    return counted


async def divides(world: World) -> str:
    """Prefill and decode apart: the picker names a pod for each; without the picker nothing is answered (FailClose)."""
    await _serve(world, divided(), "qwen3-32b", "divided")
    address, model = await address_of(world, "divided"), "qwen3-32b"
    answer = await ask(address, model, "lab-divided", prompt=PROMPT, stream=True)
    expect(answer.status == _OK, f"status {answer.status}: {b''.join(answer.lines)[:300]!r}")
    expect(answer.events[-1:] == [b"data: [DONE]"], f"the stream ended with {answer.events[-1:]!r}")
    seen = await logged(world, "lab-divided")
    expect(seen.picked == seen.upstream, f"{seen.upstream} answered, the picker said {seen.picked or 'nothing'}")
    computed = await prefilled(pod for _, pod in await world.all_pods("qwen3-32b"))
    expect(computed, "no prefill engine computed the prompt for the pod that answered")
    name = await _picker_program(world, "qwen3-32b")
    await asyncio.to_thread(world.tell, "hold", name=name)
    try:
        refused = await ask(address, model, "lab-closed", prompt=PROMPT)
    finally:
        await asyncio.to_thread(world.tell, "resume", name=name)
    expect(refused.status >= _ERROR, f"without its picker a pool that fails closed answered {refused.status}")
    await remove(world, divided())
    told = f"{', '.join(computed)} computed the prompt, {seen.upstream} answered"
    return f"{told}; FailClose: {refused.status} without the picker"
