"""`modelplane top`: devices, replicas, requests, tokens and prices of a fleet."""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelplane.cli._formats import (
    NOTHING_YET,
    add_plane,
    add_watch,
    data_text,
    plane_of,
    print_changes,
    table_text,
)
from modelplane.cli._near import note_empty_namespace

if TYPE_CHECKING:
    from modelplane.api.objects import Manifest
    from modelplane.cli.running import RunningPlane
    from modelplane.envoy.access_log import ServedRequest
    from modelplane.views.fleet_load import DeploymentLoad, DeviceLoad, FleetLoad, HourlyPrice
    from modelplane.views.service_load import ServiceLoad

_EPILOG = """\
examples:
  modelplane top
  modelplane top -w                              again whenever a number changes, until Ctrl-C
  modelplane top -n team -o wide                 deployments of one namespace; errors, latency, others' devices
  modelplane top -o json --kubeconfig ~/.kube/config

Devices are the GPUs, or whatever else an InferenceClass has to claim: USED by replicas, FREE for new ones, LOST with a
cluster that does not answer. PRICE/H is that of the class: of all nodes of a pool, and of the parts of nodes that a
deployment's replicas take. REQ/S and TTFT P95 are those of the last minute: of a plane of this machine by Envoy's log,
elsewhere of endpoints whose status has them, which is while the canary of their deployment is analysed. TOKENS/S are
read and written together, of the last minute of usage records: a plane of this machine has them where callers have keys
at a gateway with a router. What is not known is `-`.
"""
_FORMATS = ("text", "wide", "json", "yaml")
_NOT_KNOWN = "-"
_WINDOW_S = 60.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows how much of a fleet is used, by class, pool, deployment and service, and its price."
    parser.epilog = _EPILOG
    add_plane(parser)
    parser.add_argument(
        "-o", "--output", choices=_FORMATS, default="text", help="text, with wide: more columns, json, or yaml"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-n", "--namespace", default="", help="deployments of one namespace, and all pools (all)")
    which.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces, as without it")
    add_watch(parser)


def run(arguments: argparse.Namespace) -> int:
    plane = plane_of(arguments)
    data = arguments.data if arguments.kubeconfig is None else None

    known: set[str] = set()

    def text() -> str:
        load, services = _load(plane, data)
        known.update(row.namespace for row in load.deployments)
        known.update(row.namespace for row in services)
        return load_text(*_of_namespace(load, services, arguments.namespace), arguments.output)

    print_changes(text, watch=arguments.watch)
    note_empty_namespace(arguments.namespace, known)
    return 0


def _load(plane: "RunningPlane", data: Path | None) -> "tuple[FleetLoad, Sequence[ServiceLoad]]":
    """`data` is the folder of a plane of this machine."""
    from modelplane.cli._shown import objects_of
    from modelplane.cli._usage import token_rates, usage_files
    from modelplane.views.fleet_load import fleet_load
    from modelplane.views.inputs import gather
    from modelplane.views.service_load import service_loads

    inputs, files = gather(objects_of(plane), now=time.time()), [] if data is None else usage_files(data)
    endpoints = measured(plane.items("modelendpoints"), data, inputs.now)
    found = fleet_load(inputs, endpoints)
    tokens = token_rates(files, inputs.now, _WINDOW_S)
    return found, service_loads(inputs, plane.items("modelservices"), endpoints, tokens)


def _of_namespace(
    load: "FleetLoad", services: "Sequence[ServiceLoad]", namespace: str
) -> "tuple[FleetLoad, Sequence[ServiceLoad]]":
    import msgspec

    ours = tuple(row for row in load.deployments if namespace in {"", row.namespace})
    load = msgspec.structs.replace(load, deployments=ours)
    return load, [row for row in services if namespace in {"", row.namespace}]


def measured(endpoints: "Sequence[Manifest]", data: Path | None, now: float) -> "Sequence[Manifest]":
    """With what Envoy's log of a plane of this machine says of the last minute, where their own status says nothing."""
    from modelplane.api.objects import name_of, namespace_of
    from modelplane.envoy.access_log import requests_since
    from modelplane.envoy.recent_traffic import RecentTraffic
    from modelplane.web.traffic import with_traffic

    log = data / "envoy" / "access.log" if data is not None else None
    if log is None or not log.is_file():
        return endpoints
    by_replica: dict[str, list[ServedRequest]] = {}
    for request in requests_since(log, now - _WINDOW_S):
        by_replica.setdefault(request.replica, []).append(request)
    recent = RecentTraffic()
    recent.add(by_replica, now)
    places = {(namespace_of(item), name_of(item)): item for item in endpoints}
    return tuple(with_traffic(places, recent.figures(now), now).values())


def load_text(found: "FleetLoad", services: "Sequence[ServiceLoad]", output: str) -> str:
    if output in {"json", "yaml"}:
        import msgspec

        return data_text({**msgspec.to_builtins(found), "services": msgspec.to_builtins(services)}, output)
    tables = "\n".join([*_tables(found, wide=output == "wide"), _services(services, wide=output == "wide")])
    return tables if found.pools else tables + NOTHING_YET


def _services(services: "Sequence[ServiceLoad]", *, wide: bool) -> str:
    more = ("ERRORS/S", "LATENCY P95") if wide else ()
    header = ("SERVICE", "ENDPOINTS", "DEVICES", "REQ/S", "TOKENS/S", "TTFT P95", *more, "PRICE/H")
    return table_text(header, (_service(row, wide=wide) for row in services))


def _service(row: "ServiceLoad", *, wide: bool) -> Sequence[object]:
    seen, tokens = row.traffic, row.tokens
    shown = (
        *(f"{row.namespace}/{row.name}", f"{row.ready_endpoints}/{row.endpoints}", row.devices),
        _NOT_KNOWN if seen is None else _rate(seen.requests_per_second),
        _NOT_KNOWN if tokens is None else _rate(tokens.input_per_second + tokens.output_per_second),
        _NOT_KNOWN if seen is None else _time(seen.ttft_p95_ms),
    )
    errors, slow = (_NOT_KNOWN,) * 2 if seen is None else (_rate(seen.errors_per_second), _time(seen.latency_p95_ms))
    return (*shown, *((errors, slow) if wide else ()), _price(row.price))


def _tables(found: "FleetLoad", *, wide: bool) -> Iterator[str]:
    devices = ("DEVICES", "USED", "FREE", "LOST", *(("OTHERS", "MISSING") if wide else ()))
    yield table_text(
        ("CLASS", "CLUSTERS", "NODES", *devices, "PRICE/H"),
        ((c.class_name, c.clusters, c.nodes, *_devices(c.load, wide=wide), _price(c.price)) for c in found.classes),
    )
    yield table_text(
        ("CLUSTER", "POOL", "CLASS", "NODES", *devices, "READY", "PRICE/H"),
        (
            (
                *(p.cluster, p.pool, p.class_name, p.nodes),
                *_devices(p.load, wide=wide),
                *(f"{p.ready_replicas}/{p.replicas}", _price(p.price)),
            )
            for p in found.pools
        ),
    )
    more = ("ERRORS/S", "LATENCY P95", "MEASURED") if wide else ()
    yield table_text(
        ("DEPLOYMENT", "READY", "DEVICES", "REQ/S", "TTFT P95", *more, "PRICE/H"),
        (_deployment(row, wide=wide) for row in found.deployments),
    )


def _devices(load: "DeviceLoad", *, wide: bool) -> Sequence[object]:
    used = _NOT_KNOWN if load.used is None else load.used
    return (load.devices, used, load.free, load.lost, *((load.others, load.missing) if wide else ()))


def _deployment(row: "DeploymentLoad", *, wide: bool) -> Sequence[object]:
    seen = row.traffic
    ready = f"{row.ready_replicas}/{row.replicas}"
    rate, ttft = (_rate(seen.requests_per_second), _time(seen.ttft_p95_ms)) if seen else (_NOT_KNOWN, _NOT_KNOWN)
    shown = (f"{row.namespace}/{row.name}", ready, row.devices, rate, ttft)
    if not wide:
        return (*shown, _price(row.price))
    errors, slow = (_rate(seen.errors_per_second), _time(seen.latency_p95_ms)) if seen else (_NOT_KNOWN, _NOT_KNOWN)
    measured = f"{seen.endpoints if seen else 0}/{row.endpoints}"
    return (*shown, errors, slow, measured, _price(row.price))


def _rate(per_second: float) -> str:
    return f"{per_second:.1f}"


def _time(milliseconds: int | None) -> str:
    return _NOT_KNOWN if milliseconds is None else f"{milliseconds}ms"


def _price(price: "HourlyPrice | None") -> str:
    return _NOT_KNOWN if price is None else f"{price.per_hour:.2f} {price.currency}"
