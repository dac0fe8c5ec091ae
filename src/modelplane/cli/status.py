"""`modelplane status`: the clusters, deployments and services of a running plane, and replicas that do not serve."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from modelplane.cli.ports import HOST, Ports, page_token
from modelplane.cli.running import RunningPlane, add_data_argument
from modelplane.views.health import READY, ObjectHealth
from modelplane.views.overview import Overview, overview

_EPILOG = """\
examples:
  modelplane status
  modelplane status --data ./plane -o json

Exit codes: 0 everything is ready, 1 no plane is running, 3 something is not ready.
"""
_NOT_READY = 3


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Shows the clusters, deployments and services of a running plane, why one is not ready, and addresses."
    )
    parser.epilog = _EPILOG
    add_data_argument(parser)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> int:
    plane = RunningPlane.of(arguments.data)
    found = overview(
        clusters=plane.items("inferenceclusters"),
        deployments=plane.items("modeldeployments"),
        replicas=plane.items("modelreplicas"),
        services=plane.items("modelservices"),
        caches=plane.items("modelcaches"),
    )
    if arguments.output == "json":
        json.dump(asdict(found), sys.stdout, indent=2)
        print()
    else:
        _show(found)
        _show_addresses(arguments.data)
    return 0 if all(health.state == READY for health in _healths(found)) else _NOT_READY


def _healths(found: Overview) -> Iterator[ObjectHealth]:
    yield from (row.health for row in found.clusters)
    yield from (row.health for row in found.deployments)
    yield from (row.health for row in found.services)


def _show(found: Overview) -> None:
    _table(
        ("CLUSTER", "HEALTH", "NODES", "FREE", "LOST", "REPLICAS", "WHY"),
        (
            (c.name, c.health.state, c.nodes, c.free_devices, c.lost_devices, c.replicas, c.health.why)
            for c in found.clusters
        ),
    )
    _table(
        ("DEPLOYMENT", "HEALTH", "WANTED", "PLACED", "SERVING", "WHY"),
        (
            (f"{d.namespace}/{d.name}", d.health.state, d.wanted, d.placed, d.serving, d.health.why or d.placement)
            for d in found.deployments
        ),
    )
    idle = [replica for replica in found.replicas if replica.health.state != READY]
    if idle:
        _table(
            ("REPLICA", "HEALTH", "CLUSTER", "WHY"),
            ((f"{r.namespace}/{r.name}", r.health.state, r.cluster, r.health.why) for r in idle),
        )
    if found.caches:
        _table(
            ("CACHE", "HEALTH", "STAGED", "PROGRESS", "WHY"),
            ((f"{c.namespace}/{c.name}", c.health.state, c.staged, c.progress, c.health.why) for c in found.caches),
        )
    _table(
        ("SERVICE", "HEALTH", "ENDPOINTS", "SERVING", "ADDRESS", "WHY"),
        (
            (f"{s.namespace}/{s.name}", s.health.state, s.endpoints, s.serving, s.address, s.health.why)
            for s in found.services
        ),
    )


def _show_addresses(data: Path) -> None:
    """Where the plane is reached, as `up` printed it."""
    ports = Ports.of(data)
    if "page" in ports.known:
        print(f"page        http://{HOST}:{ports.known['page']}/?token={page_token(data)}")
    if "gateway" in ports.known:
        print(f"gateway     http://{HOST}:{ports.known['gateway']}")
    print(f"kubeconfig  {data / 'kubeconfig'}")


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    lines = [columns, *([str(value) for value in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(columns))]
    for line in lines:
        print("  ".join(value.ljust(width) for value, width in zip(line, widths, strict=True)).rstrip())
    print()
