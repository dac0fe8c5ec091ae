"""Pools behind genuine gateways: Envoy Gateway with Envoy AI Gateway on every workload cluster."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lab.client import Manifest, condition, items, name_of, namespace_of, text
from lab.e2e import picking, steps
from lab.e2e.picking import ROUTES
from lab.e2e.steps import expect
from lab.routing import POOLS

if TYPE_CHECKING:
    from lab.e2e.world import World
    from lab.scenario import Scenario


async def run(scenario: Scenario, world: World, only: frozenset[str]) -> None:
    """`only` names steps by their function's name; none means all."""
    for name, action, needed in (
        ("packages through the real package manager", steps.install, True),
        ("clusters become Ready", steps.fleet, True),
        ("a deployment is placed and served", steps.deploy, True),
        ("what the gateways say of pools and routes", taken, False),
        ("a request travels to the pod that the picker names, streaming too", picking.request, False),
        ("prefill and decode apart", picking.divides, False),
        ("everything is deleted", steps.removal, False),
    ):
        if not only or action.__name__ in only:
            await scenario.step(name, partial(action, world), needed=needed)


async def taken(world: World) -> str:
    """Every pool and every route to one is accepted by a genuine controller."""
    told: list[str] = []
    for site, api in world.sites.items():
        pools = await api.list(f"{POOLS}/v1", "InferencePool")
        routes = [each for each in await api.list(ROUTES, "HTTPRoute") if _leads_to_pools(each)]
        against = [said for item in (*pools, *routes) for said in _against(item)]
        expect(not against, f"{site}: {'; '.join(against)}")
        controllers = {text(each, "controllerName") for item in routes for each in _parents(item)}
        told.append(
            f"{site}: {len(routes)} routes by {', '.join(sorted(controllers))}, {len(pools)} pools: {_words(pools)}"
        )
    return "; ".join(told)


def _leads_to_pools(route: Manifest) -> bool:
    refs = [ref for rule in items(route, "spec", "rules") for ref in items(rule, "backendRefs")]
    return any(text(ref, "kind") == "InferencePool" for ref in refs)


def _words(pools: list[Manifest]) -> str:
    """Who accepted pools is in their messages only."""
    parents = [parent for pool in pools for parent in _parents(pool)]
    said = {text(each, "message") for parent in parents for each in items(parent, "conditions")}
    return ", ".join(sorted(said))


def _parents(item: Manifest) -> list[Manifest]:
    return items(item, "status", "parents")


def _against(item: Manifest) -> list[str]:
    """Conditions that do not hold, and parents that say nothing."""
    name = f"{item['kind']} {namespace_of(item)}/{name_of(item)}"
    if not _parents(item):
        return [f"{name}: nobody reports on it"]
    return [
        f"{name}: {text(each, 'type')} {text(each, 'message')}"
        for parent in _parents(item)
        for each in items(parent, "conditions")
        if condition({"status": parent}, text(each, "type")) != "True"
    ]
