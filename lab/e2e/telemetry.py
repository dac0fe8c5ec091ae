"""Destinations and mappings on genuine components: a collector on every cluster, its Secret, and nothing afterwards.

The collector's pod is KWOK's: that the configuration is one which a collector takes is shown elsewhere, by a collector.
"""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING

from lab.client import items, name_of, text, value
from lab.e2e.steps import expect
from lab.e2e.world import OURS
from modelplane.api.labels import COPIED_FROM, SYSTEM_NAMESPACE
from modelplane.compose.telemetry.collector_objects import NAME

if TYPE_CHECKING:
    from lab.client import Manifest
    from lab.e2e.world import World

_DESTINATION, _MAPPING, _SECRET = "lab-telemetry", "lab-engine", "lab-metrics"
_METRIC = "lab_queue_length"
_VALUE = "a-canary-of-telemetry"
_WITHIN_S = 300.0
_COLLECTOR = (("v1", "ServiceAccount"), ("v1", "ConfigMap"), ("v1", "Service"), ("apps/v1", "Deployment"))


async def telemetry(world: World) -> str:
    declared = [_secret(), _mapping(), _destination()]
    for item in declared:
        await world.control.apply(item)
    waited = await world.wait("collectors", partial(_says, world, "True", "CollectorRunning"), within_s=_WITHIN_S)
    await world.ready("MetricMapping", _MAPPING)
    await world.ready("TelemetryDestination", _DESTINATION)
    for site in world.sites:
        await _expect_collector(world, site)
    await world.control.apply(_destination(refused=True))
    refused = await world.wait("the refusal", partial(_says, world, "False", "OutboundRefused"), within_s=_WITHIN_S)
    for site in world.sites:
        await _expect_collector(world, site)
    for item in reversed(declared):
        await world.control.delete(item)
    gone = await world.wait("no collector", partial(_gone, world), within_s=_WITHIN_S)
    return (
        f"a collector with the mapping and the Secret on {len(world.sites)} clusters after {waited:.1f} s; a sink at "
        f"a metadata service is refused after {refused:.1f} s and the other stays; nothing is left after {gone:.1f} s"
    )


def _secret() -> Manifest:
    data = {"token": base64.b64encode(_VALUE.encode()).decode()}
    metadata = {"name": _SECRET, "namespace": SYSTEM_NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def _mapping() -> Manifest:
    metrics = [{"from": _METRIC, "to": "modelplane_requests_waiting"}]
    return {"apiVersion": OURS, "kind": "MetricMapping", "metadata": {"name": _MAPPING}, "spec": {"metrics": metrics}}


def _destination(*, refused: bool = False) -> Manifest:
    sinks: list[Manifest] = [
        {
            "name": "lab",
            "type": "prometheus_remote_write",
            "endpoint": "https://metrics.example.org/api/v1/write",
            "secretRef": {"name": _SECRET},
            "auth": {"bearerTokenKey": "token"},
        }
    ]
    if refused:
        sinks.append({"name": "inside", "type": "kafka", "config": {"brokers": ["169.254.169.254:9092"]}})
    metadata = {"name": _DESTINATION}
    return {"apiVersion": OURS, "kind": "TelemetryDestination", "metadata": metadata, "spec": {"sinks": sinks}}


async def _says(world: World, status: str, reason: str) -> bool:
    """Whether every cluster has this condition."""
    found = [
        (text(each, "status"), text(each, "reason"))
        for cluster in await world.control.list(OURS, "InferenceCluster")
        for each in items(cluster, "status", "conditions")
        if each.get("type") == "TelemetryReady"
    ]
    return found == [(status, reason)] * len(world.sites)


async def _expect_collector(world: World, site: str) -> None:
    """Its objects, with the mapping in the configuration and the Secret's value in the copy alone."""
    api = world.sites[site]
    found = {kind: await api.get(version, kind, NAME, namespace=SYSTEM_NAMESPACE) for version, kind in _COLLECTOR}
    expect(all(found.values()), f"{site} lacks {', '.join(kind for kind, item in found.items() if not item)}")
    config = text(found["ConfigMap"], "data", "collector.yaml")
    expect(_METRIC in config and "metrics.example.org" in config, f"{site}: the configuration lacks mapping or sink")
    expect("169.254.169.254" not in config and _VALUE not in config, f"{site}: the configuration has what it must not")
    (copy,) = [each for each in await api.list("v1", "Secret", namespace=SYSTEM_NAMESPACE) if _is_copy(each)]
    held = base64.b64decode(text(copy, "data", "token")).decode()
    expect(held == _VALUE, f"{site}: Secret {name_of(copy)} has another value")
    ready = value(found["Deployment"], "status", "readyReplicas")
    expect(ready == 1, f"{site}: {ready} collectors are ready")


def _is_copy(secret: Manifest) -> bool:
    return text(secret, "metadata", "annotations", COPIED_FROM) == f"{SYSTEM_NAMESPACE}/{_SECRET}"


async def _gone(world: World) -> bool:
    for api in world.sites.values():
        kept = [await api.get(version, kind, NAME, namespace=SYSTEM_NAMESPACE) for version, kind in _COLLECTOR]
        copies = [each for each in await api.list("v1", "Secret", namespace=SYSTEM_NAMESPACE) if _is_copy(each)]
        if any(kept) or copies:
            return False
    return True
