"""Our allocator against kube-scheduler's, on random claims and slices.

The pods of a case are created one after the other. Before each, the cluster's slices and the claims allocated so far
are read back and given to `dra.allocate`; then the scheduler decides, and the two are compared: whether the pod is
placed, and on which devices. An object that the API server refuses must be one that our rules refuse, and is then left
out of its case on both sides.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.client import Api, ApiError, Manifest, condition, items, name_of, text, until
from lab.oracles.dra_cases import API, CASE_LABEL, Case, make_case
from lab.oracles.finding import Difference, Finding
from modelplane.k8s.dra import (
    Allocated,
    Features,
    Outcome,
    allocate,
    claim_problems,
    decode_claims,
    decode_classes,
    decode_in_use,
    decode_node,
    decode_slices,
    slice_problems,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from modelplane.k8s.dra import ResourceSlice

NAMESPACE = "dra"
_FEATURES = Features()
_AT_ONCE = 100
_DECIDED_WITHIN_S = 300.0
_PATIENCE_S = 180.0
_LOOK_S = 0.2
_SETTLE_S = 2.5
_Devices = tuple[tuple[str, str, str, str, str], ...]


@dataclass(slots=True)
class _Running:
    """A case and what of it the server took."""

    case: Case
    slices: list[Manifest] = field(default_factory=list)
    decisions: int = 0
    placed: int = 0
    refused: int = 0
    differences: list[Difference] = field(default_factory=list)

    def differ(self, what: str, text: str) -> None:
        self.differences.append(Difference(f"case {self.case.number} {what}", text))


async def compare(api: Api, *, seed: int, cases: int, say: Callable[[str], None]) -> Finding:
    """Needs a cluster with a scheduler; makes nodes of its own and removes them."""
    labels = {"resource.kubernetes.io/admin-access": "true"}
    await api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
    done: list[_Running] = []
    for first in range(0, cases, _AT_ONCE):
        batch = [_Running(make_case(seed, number)) for number in range(first, min(first + _AT_ONCE, cases))]
        await _run_batch(api, batch)
        done += batch
        say(f"dra: {len(done)} of {cases} cases, {sum(len(each.differences) for each in done)} differences")
    decisions, placed = sum(each.decisions for each in done), sum(each.placed for each in done)
    refused = sum(each.refused for each in done)
    notes = (
        f"{cases} cases of hardware, {decisions} decisions of the scheduler: {placed} placed, {decisions - placed} not",
        f"{refused} objects refused by the API server, each compared with our rules",
    )
    differences = tuple(difference for each in done for difference in each.differences)
    return Finding("dra.allocate and kube-scheduler", decisions + refused, differences, notes)


async def _run_batch(api: Api, batch: Sequence[_Running]) -> None:
    await asyncio.gather(*(_furnish(api, running) for running in batch))
    await asyncio.sleep(_SETTLE_S)  # the scheduler's view of slices trails the server's
    for position in range(max(len(running.case.pods) for running in batch)):
        asked = [running for running in batch if position < len(running.case.pods)]
        # A pool that is not complete concerns requests for all devices on every node, so ours sees all slices too.
        slices = decode_slices(item for running in batch for item in running.slices)
        await asyncio.gather(*(_ask(api, running, position, slices) for running in asked))
    await asyncio.gather(*(_clear(api, running) for running in batch))


async def _furnish(api: Api, running: _Running) -> None:
    case = running.case
    node: Manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": case.node,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {CASE_LABEL: str(case.number)},
        },
    }
    await api.apply(node)
    for each in case.classes:
        await api.apply(each)
    for each in case.slices:
        (decoded,) = decode_slices([each])
        if await _create(api, running, each, slice_problems(decoded)):
            running.slices.append(each)
    await until(f"node {case.node} Ready", lambda: _is_ready(api, case.node))


async def _is_ready(api: Api, node: str) -> bool:
    return condition(await api.get("v1", "Node", node), "Ready") == "True"


async def _create(api: Api, running: _Running, item: Manifest, problems: Sequence[str]) -> bool:
    """Offer an object; whether the server and our rules agree about it is noted, whether it is there is answered."""
    try:
        await api.create(item)
    except ApiError as refused:
        running.refused += 1
        if not problems:
            running.differ(name_of(item), f"we accept what the server refuses: {refused.message}")
        return False
    if problems:
        running.differ(name_of(item), f"the server accepts what we refuse: {'; '.join(problems)}")
    return True


async def _ask(api: Api, running: _Running, position: int, slices: Sequence[ResourceSlice]) -> None:
    case, claims = running.case, running.case.pods[position]
    for claim in claims:
        (decoded,) = decode_claims([claim])
        if not await _create(api, running, claim, claim_problems(decoded, _FEATURES)):
            return
    ours = _ours(case, slices, claims, await _held(api, case))
    pod = _pod(case, position, claims)
    await api.create(pod)
    theirs = await _theirs(api, pod, claims, patience_s=_PATIENCE_S if isinstance(ours, Allocated) else 0.0)
    running.decisions += 1
    running.placed += isinstance(theirs, tuple)
    _judge(running, position, ours, theirs)


def _judge(running: _Running, position: int, ours: Outcome, theirs: _Devices | str) -> None:
    mine = _devices(ours) if isinstance(ours, Allocated) else type(ours).__name__
    if isinstance(mine, tuple) and isinstance(theirs, tuple):
        if mine != theirs:
            running.differ(f"pod {position}", f"other devices: ours {mine}, theirs {theirs}")
    elif isinstance(mine, tuple) or isinstance(theirs, tuple):
        running.differ(f"pod {position}", f"ours {mine}, theirs {theirs}")


async def _held(api: Api, case: Case) -> list[Manifest]:
    """What the case's earlier claims hold, as their status says."""
    names = {name_of(claim) for pod in case.pods for claim in pod}
    claims = [claim for claim in await api.list(API, "ResourceClaim", namespace=NAMESPACE) if name_of(claim) in names]
    return [result for claim in claims for result in items(claim, "status", "allocation", "devices", "results")]


def _ours(case: Case, slices: Sequence[ResourceSlice], claims: Iterable[Manifest], held: Iterable[Manifest]) -> Outcome:
    node = {"metadata": {"name": case.node, "labels": {CASE_LABEL: str(case.number)}}}
    return allocate(
        decode_claims(claims),
        decode_node(node),
        slices,
        classes=decode_classes(case.classes),
        allocated=decode_in_use(held),
        features=_FEATURES,
    )


def _devices(outcome: Allocated) -> _Devices:
    return tuple(
        sorted(
            (result.claim.rpartition("/")[2], each.request, *each.device)
            for result in outcome.claims
            for each in result.devices
        )
    )


def _pod(case: Case, position: int, claims: Sequence[Manifest]) -> Manifest:
    """Bound to the case's node by name, which lets the scheduler look at no other."""
    field = {"key": "metadata.name", "operator": "In", "values": [case.node]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{case.number}-{position}", "namespace": NAMESPACE},
        "spec": {
            "affinity": {"nodeAffinity": affinity},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "example.org/none"}],
            "resourceClaims": [
                {"name": f"c{at}", "resourceClaimName": name_of(claim)} for at, claim in enumerate(claims)
            ],
        },
    }


async def _theirs(api: Api, pod: Manifest, claims: Sequence[Manifest], patience_s: float) -> _Devices | str:
    """The devices that the scheduler chose, or what it said once it found none.

    It may have looked before it heard of everything, so where ours fits it is given time to look again.
    """
    refused, waited = "", 0.0
    while not refused or waited < patience_s:
        found = await api.get("v1", "Pod", name_of(pod), namespace=NAMESPACE)
        if text(found, "spec", "nodeName"):
            return await _chosen(api, claims)
        told = [each for each in items(found, "status", "conditions") if each.get("type") == "PodScheduled"]
        refused = text(told[0], "message") if told else refused
        if waited > _DECIDED_WITHIN_S:
            return f"undecided; {json.dumps(found)}"
        await asyncio.sleep(_LOOK_S)
        waited += _LOOK_S
    return refused


async def _chosen(api: Api, claims: Sequence[Manifest]) -> _Devices:
    held = [await api.get(API, "ResourceClaim", name_of(claim), namespace=NAMESPACE) for claim in claims]
    return tuple(
        sorted(
            (name_of(claim), text(each, "request"), text(each, "driver"), text(each, "pool"), text(each, "device"))
            for claim in held
            if claim is not None
            for each in items(claim, "status", "allocation", "devices", "results")
        )
    )


async def _clear(api: Api, running: _Running) -> None:
    case = running.case
    for position in range(len(case.pods)):
        await api.delete(_pod(case, position, ()))
    for each in (*running.slices, *case.classes):
        await api.delete(each)
    await api.delete({"apiVersion": "v1", "kind": "Node", "metadata": {"name": case.node}})
