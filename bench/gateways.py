"""Envoy's configuration at fleet size: what it costs the plane to work it out, anew and after one change.

A thousand edges of ten replicas each, and a front door with a thousand services over all of them. What Envoy itself
does with it happens in another process and is not counted.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from modelplane.envoy import EnvoyConfig, GatewayConfigs, GatewayView
from modelplane.envoy.config import EMPTY
from modelplane.envoy.plan import final_files, plan

EDGES, REPLICAS = 1_000, 10
_HOST, _NAMESPACE = "127.0.0.1", "team"
_FIRST_PORT = 20_000


def rows() -> list[dict[str, object]]:
    views, gateways = _views(), GatewayConfigs()
    cold, config = _timed(lambda: _made(gateways, views, EMPTY))
    door = replace(views[0], backends=views[0].backends[:-1])
    change, after = _timed(lambda: _made(gateways, [door], config))
    edge = replace(views[1], slices=views[1].slices[:-1])
    moved, _ = _timed(lambda: _made(gateways, [edge], after))
    whole = {"what": "all of it from nothing", "value": round(cold, 1), "unit": "ms"}
    return [
        _row("envoy-10k-replicas-cold", round(cold, 1), 8_000, {"what": "pools", "value": len(config.clusters)}),
        _row("envoy-10k-replicas-one-endpoint", round(change, 1), 500, whole),
        _row("envoy-10k-replicas-one-pod", round(moved, 1), 500, whole),
    ]


def _row(name: str, value: float, limit: float, baseline: Mapping[str, object]) -> dict[str, object]:
    return {"id": name, "value": value, "unit": "ms CPU", "limit": limit, "ok": value <= limit, "baseline": baseline}


def _timed(work: Callable[[], EnvoyConfig]) -> tuple[float, EnvoyConfig]:
    started = time.process_time()
    found = work()
    return (time.process_time() - started) * 1000, found


def _made(gateways: GatewayConfigs, changed: list[GatewayView], before: EnvoyConfig) -> EnvoyConfig:
    """The configuration, and the files that it takes to get there."""
    on_disk = {file.table: file.version for file in final_files(before)}
    for view in changed:
        gateways.put(view)
    config = gateways.config()
    list(plan(before, config, on_disk))
    return config


def _views() -> list[GatewayView]:
    edges = [_edge(number) for number in range(EDGES)]
    names = [(number, f"m{number}-{index}") for number in range(EDGES) for index in range(REPLICAS)]
    backends = tuple(_backend(name, _FIRST_PORT + number) for number, name in names)
    routes = tuple(_route(f"m{number}", _service_rule(number)) for number in range(EDGES))
    return [GatewayView(name="fleet", host=_HOST, port=1, routes=routes, backends=backends), *edges]


def _edge(number: int) -> GatewayView:
    names = [f"m{number}-{index}" for index in range(REPLICAS)]
    return GatewayView(
        name=f"cluster.c{number}",
        host=_HOST,
        port=_FIRST_PORT + number,
        routes=tuple(_route(name, _replica_rule(name)) for name in names),
        services=tuple(_object("Service", name, spec={"ports": [{"name": "http", "port": 80}]}) for name in names),
        slices=tuple(_slice(name, index + 1) for index, name in enumerate(names)),
    )


def _object(kind: str, name: str, **fields: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": _NAMESPACE}, **fields}


def _slice(name: str, port: int) -> dict[str, object]:
    labels = {"kubernetes.io/service-name": name}
    return {
        **_object("EndpointSlice", name),
        "metadata": {"name": name, "namespace": _NAMESPACE, "labels": labels},
        "endpoints": [{"addresses": [_HOST], "conditions": {"ready": True}}],
        "ports": [{"name": "http", "port": port}],
    }


def _backend(name: str, port: int) -> dict[str, object]:
    return _object("Backend", name, spec={"endpoints": [{"ip": {"address": _HOST, "port": port}}]})


def _route(name: str, rule: dict[str, object]) -> dict[str, object]:
    return _object("HTTPRoute", name, spec={"rules": [rule]})


def _replica_rule(name: str) -> dict[str, object]:
    header = {"name": "modelplane-replica", "value": f"{_NAMESPACE}/{name}"}
    return {"matches": [{"headers": [header]}], "backendRefs": [{"name": name, "port": 80}]}


def _service_rule(number: int) -> dict[str, object]:
    path = {"type": "PathPrefix", "value": f"/{_NAMESPACE}/m{number}"}
    refs = [
        {
            "group": "gateway.envoyproxy.io",
            "kind": "Backend",
            "name": f"m{number}-{index}",
            "filters": [
                {
                    "type": "RequestHeaderModifier",
                    "requestHeaderModifier": {
                        "set": [{"name": "modelplane-replica", "value": f"{_NAMESPACE}/m{number}-{index}"}]
                    },
                }
            ],
        }
        for index in range(REPLICAS)
    ]
    return {"matches": [{"path": path}], "backendRefs": refs, "timeouts": {"request": "0s"}}
