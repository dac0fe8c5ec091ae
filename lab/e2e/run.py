"""The order of the steps, and the report that they leave."""

from __future__ import annotations

import os
import platform
from functools import partial
from typing import TYPE_CHECKING

from lab.components import (
    AI_GATEWAY,
    CROSSPLANE,
    ENVOY_GATEWAY,
    ETCD,
    HELM,
    KSERVE,
    KUBERNETES,
    KWOK,
    LWS,
    PROVIDER_HELM,
    PROVIDER_KUBERNETES,
    Set,
)
from lab.e2e import (
    agents,
    caches,
    canaries,
    causes,
    charts,
    clients,
    dashboards,
    drains,
    first_token,
    gangs,
    helm,
    hop,
    kserve,
    picking,
    pools,
    remote_gateways,
    rollouts,
    secrets,
    servers,
    services,
    steps,
    telemetry,
    trouble,
    upgrade,
)
from lab.e2e.world import enter
from lab.launch import ask
from lab.oracles import run as oracles
from lab.scenario import Scenario, report, with_section

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

    from lab.components import Module
    from lab.e2e.world import World
    from lab.places import Places

_TITLE = "The lab's last run"
_STEPS = (
    ("packages pushed and installed as documented", first_token.install, True),
    ("from an empty cluster to an answer, as documented", first_token.walk, False),
    ("good and bad manifests on the real API server", steps.refusals, False),
    ("clusters become Ready", steps.fleet, True),
    ("a deployment is placed and served", steps.deploy, True),
    ("claims on pinned pools", steps.claims, False),
    ("the dashboard beside the function server", dashboards.dashboard, False),
    ("a collector on every cluster", telemetry.telemetry, False),
    ("a request travels to the pod that the picker names, streaming too", picking.request, False),
    ("a pool with and without its picker", picking.picks, False),
    ("prefill and decode apart", picking.divides, False),
    ("an update by surge, undone", rollouts.update, False),
    ("a Secret reaches the clusters that need it", secrets.gated, False),
    ("a cache is staged by the loader, and a replica waits for it", caches.staged, False),
    ("why pods do not start", causes.causes, False),
    ("what holds a deletion", causes.held, False),
    ("a cluster is drained", drains.drain, False),
    ("the scale subresource", steps.scale, False),
    ("kill -9 of the function server", partial(trouble.killed, program="function"), False),
    ("kill -9 of Crossplane", partial(trouble.killed, program="crossplane"), False),
    ("kill -9 of the control plane's API server", partial(trouble.killed, program="control-apiserver"), False),
    ("two function servers at once", servers.pair, False),
    ("a watch that stops", servers.watch_stops, False),
    ("scaling down", steps.shrink, False),
    ("a device fails", trouble.device_taint, False),
    ("a node is lost", trouble.lost_node, False),
    ("a cluster is lost and comes back", trouble.lost_cluster, False),
    ("an upgrade while a model serves", upgrade.upgrade, False),
    ("a gang on two nodes", steps.gang, False),
    ("two deployments race for the last nodes", steps.race, False),
    ("everything is deleted", steps.removal, False),
    ("uninstalling as documented", upgrade.uninstall, False),
)

_CONTROLLERS = {True: f"Envoy Gateway {ENVOY_GATEWAY.version}", False: "an Envoy under the lab's controller"}
_WITH_POOLS = f"{_CONTROLLERS[True]} with Envoy AI Gateway {AI_GATEWAY.version}"
_GATEWAY_STEPS = (
    ("what Envoy Gateway says of pools", picking.pools, False),
    ("after the gangs the model is served on every cluster again", steps.served_again, False),
    ("the fleet router behind Envoy Gateway, and without it", services.routed, False),
    ("a gateway on a workload cluster serves beside the fleet's own", remote_gateways.on_cluster, False),
    ("openai, anthropic, litellm and curl through Envoy Gateway", clients.clients, False),
    ("a canary is halted by what the router counted", canaries.halted, False),
    ("from the clusters to a provider and back", services.tiers, False),
    ("requests go on without the control plane", services.survives, False),
    ("mutual TLS between gateways, there and back", hop.mutual_tls, False),
    ("kill -9 of the gateway", services.gateway_killed, False),
)
_NAMED_STEPS = (("a cluster behind the hub: adopted, serving, cut off and back", agents.agent, False),)
"""Run where they are named, and not otherwise."""


async def run(places: Places, target: Path, say: Callable[[str], None], *, mode: str, only: frozenset[str]) -> Scenario:
    """`only` names steps by their function's name, and comparisons by theirs; none means all.

    Comparisons come last: they use the workload clusters, which the steps leave empty.
    """
    scenario = Scenario(say)
    compared = only & set(oracles.NAMES)
    async with enter(places, say, mode) as world:
        for name, action, needed in _steps(places, only):
            if not only or _name(action) in only:
                await scenario.step(name, partial(action, world), needed=needed)
        _write(target, report(scenario, _TITLE, _facts(places, mode)))  # should a comparison never end
        if compared or not only:
            scenario.findings += await oracles.run(world, frozenset(compared))
    _write(target, report(scenario, _TITLE, _facts(places, mode)))
    return scenario


def known_steps() -> frozenset[str]:
    """The names of steps and comparisons."""
    return step_names() | set(oracles.NAMES)


def step_names() -> frozenset[str]:
    return frozenset(_name(action) for _, action, _ in (*_STEPS, *_GATEWAY_STEPS, *_NAMED_STEPS))


def _steps(places: Places, only: frozenset[str]) -> Iterable[tuple[str, Callable[[World], Awaitable[str]], bool]]:
    """Those of the core set, with what options add before everything is deleted."""
    extra = _GATEWAY_STEPS if _has(ask(places, "status") or {}, Set.GATEWAY) else ()
    named = [step for step in _NAMED_STEPS if _name(step[1]) in only]
    return (*_STEPS[:-2], *extra, *named, *_STEPS[-2:])


def _has(state: dict[str, object], option: Set) -> bool:
    options = state.get("options")
    return isinstance(options, list) and option.value in options


async def run_apart(
    places: Places, target: Path, say: Callable[[str], None], option: Set, *, only: frozenset[str]
) -> Scenario:
    """The steps of one scheduler or backend, as a section of the report."""
    scenario = Scenario(say)
    async with enter(places, say, "live") as world:
        if option is Set.KSERVE:
            await kserve.run(scenario, world, only)
        elif option is Set.AI_GATEWAY:
            await pools.run(scenario, world, only)
        else:
            await gangs.run(scenario, world, option, only)
    title, module = _section(option)
    _write(target, with_section(_page(target), scenario, title, _facts(places, "live", module)))
    return scenario


async def run_product(
    places: Places, target: Path, say: Callable[[str], None], option: Set, *, only: frozenset[str]
) -> Scenario:
    """Our stack by genuine provider-helm, or our chart by genuine Helm, as a section of the report."""
    scenario = Scenario(say)
    title, module, actions = _PRODUCT[option]
    async with enter(places, say, "live") as world:
        for name, action in actions:
            if not only or _name(action) in only:
                await scenario.step(name, partial(action, world), needed=True)
    _write(target, with_section(_page(target), scenario, title, _facts(places, "live", module)))
    return scenario


_PRODUCT = {
    Set.CHARTS: ("The software of clusters, by provider-helm", PROVIDER_HELM, charts.STEPS),
    Set.HELM: ("Modelplane's chart, by Helm", HELM, helm.STEPS),
}


def _section(option: Set) -> tuple[str, Module]:
    if option is Set.KSERVE:
        return "Replicas under KServe", KSERVE
    if option is Set.AI_GATEWAY:
        return "Pools behind Envoy AI Gateway", AI_GATEWAY
    case = gangs.CASES[option]
    return f"Gangs under {case.name}", case.module


def _page(target: Path) -> str:
    return target.read_text() if target.is_file() else report(Scenario(print), _TITLE, [])


def _name(action: object) -> str:
    inner = action.func if isinstance(action, partial) else action
    return str(getattr(inner, "__name__", ""))


def _write(target: Path, page: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page)


def _facts(places: Places, mode: str, *more: Module) -> list[str]:
    state = ask(places, "status") or {}
    parts = (KUBERNETES, ETCD, CROSSPLANE, PROVIDER_KUBERNETES, KWOK, LWS, *more)
    versions = ", ".join(f"{part.path.partition('/')[2]} {part.version}" for part in parts)
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    up = state.get("up_after_s")
    clusters = _WITH_POOLS if _has(state, Set.AI_GATEWAY) else _CONTROLLERS[False]
    return [
        f"components: {versions}",
        f"machine: {os.cpu_count()} processors, Python {platform.python_version()}, load {load}",
        f"the lab was up {up:.1f} s after its start" if isinstance(up, float) else "the lab's start was not timed",
        f"function server: {mode}",
        f"the fleet's gateway: {_CONTROLLERS[_has(state, Set.GATEWAY)]}; the clusters': {clusters} each",
        "pickers and sidecars: ours, as rendered; engines: simulated; all on the addresses of their pods",
    ]
