"""`modelplane top`: devices, replicas, requests and prices of a fleet."""

import argparse
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modelplane.cli._formats import add_plane, add_watch, data_text, plane_of, print_changes, table_text

if TYPE_CHECKING:
    from modelplane.cli.running import RunningPlane
    from modelplane.views.fleet_load import DeploymentLoad, DeviceLoad, FleetLoad, HourlyPrice

_EPILOG = """\
examples:
  modelplane top
  modelplane top -w                              again whenever a number changes, until Ctrl-C
  modelplane top -n team -o wide                 deployments of one namespace; errors, latency, others' devices
  modelplane top -o json --kubeconfig ~/.kube/config

Devices are the GPUs, or whatever else an InferenceClass has to claim: USED by replicas, FREE for new ones, LOST with a
cluster that does not answer. PRICE/H is that of the class: of all nodes of a pool, and of the parts of nodes that a
deployment's replicas take. REQ/S and TTFT P95 are those of endpoints that are measured, which is while the canary of
their deployment is analysed. What is not known is `-`.
"""
_FORMATS = ("text", "wide", "json", "yaml")
_NOT_KNOWN = "-"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows how much of a fleet is used, by class, pool and deployment, and at which price."
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
    print_changes(lambda: load_text(_load(plane, arguments.namespace), arguments.output), watch=arguments.watch)
    return 0


def _load(plane: "RunningPlane", namespace: str) -> "FleetLoad":
    import msgspec

    from modelplane.cli._shown import objects_of
    from modelplane.views.fleet_load import fleet_load
    from modelplane.views.inputs import gather

    found = fleet_load(gather(objects_of(plane), now=time.time()), plane.items("modelendpoints"))
    ours = tuple(row for row in found.deployments if namespace in {"", row.namespace})
    return msgspec.structs.replace(found, deployments=ours)


def load_text(found: "FleetLoad", output: str) -> str:
    if output in {"json", "yaml"}:
        import msgspec

        return data_text(msgspec.to_builtins(found), output)
    return "\n".join(_tables(found, wide=output == "wide"))


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
