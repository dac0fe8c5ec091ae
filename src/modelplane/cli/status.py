"""`modelplane status`: the clusters, deployments and services of a control plane, and replicas that do not serve."""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from modelplane.cli._formats import (
    NOTHING_YET,
    add_formats,
    add_plane,
    add_watch,
    data_text,
    names_text,
    plane_of,
    print_changes,
    table_text,
)
from modelplane.cli._near import note_empty_namespace
from modelplane.cli.ports import HOST, Ports, page_token
from modelplane.views.states import READY

if TYPE_CHECKING:
    from modelplane.cli.running import RunningPlane
    from modelplane.views.health import ObjectHealth
    from modelplane.views.overview import ClusterRow, Overview, ReplicaRow

_EPILOG = """\
examples:
  modelplane status
  modelplane status -w                          again whenever something changes, until Ctrl-C
  modelplane status -n team -o wide             every replica of a namespace, pools, taints
  modelplane status -o name                     inferencecluster.modelplane.ai/east and so on
  modelplane status --data ./plane -o json
  modelplane status --kubeconfig ~/.kube/config

Exit codes: 0 everything is ready, 1 no plane is running, 3 something is not ready.
"""
_NOT_READY = 3
_MOST_REPLICAS = 20
"""Rows of replicas that are not ready: what follows has to stay on the screen."""
_FIELD = re.compile(r"_([a-z])")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Shows the clusters, deployments and services of a control plane, why one is not ready, and addresses."
    )
    parser.epilog = _EPILOG
    add_plane(parser)
    add_formats(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-n", "--namespace", default="", help="what is in one namespace, and the clusters (all)")
    which.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces, as without it")
    add_watch(parser)


def run(arguments: argparse.Namespace) -> int:
    from modelplane.views.overview import Overview

    plane = plane_of(arguments)
    whole = found = Overview()

    def text() -> str:
        nonlocal whole, found
        whole = _overview(plane)
        found = _of_namespace(whole, arguments.namespace)
        return _text(found, arguments)

    print_changes(text, watch=arguments.watch)
    known = {*(row.namespace for row in whole.deployments), *(row.namespace for row in whole.services)}
    note_empty_namespace(arguments.namespace, known | {row.namespace for row in whole.caches})
    return 0 if all(health.state == READY for health in _healths(found)) else _NOT_READY


def _overview(plane: "RunningPlane") -> "Overview":
    from modelplane.views.overview import overview

    return overview(
        clusters=plane.items("inferenceclusters"),
        deployments=plane.items("modeldeployments"),
        replicas=plane.items("modelreplicas"),
        services=plane.items("modelservices"),
        caches=plane.items("modelcaches"),
    )


def _of_namespace(found: "Overview", namespace: str) -> "Overview":
    if not namespace:
        return found
    return replace(
        found,
        deployments=tuple(row for row in found.deployments if row.namespace == namespace),
        replicas=tuple(row for row in found.replicas if row.namespace == namespace),
        services=tuple(row for row in found.services if row.namespace == namespace),
        caches=tuple(row for row in found.caches if row.namespace == namespace),
    )


def _text(found: "Overview", arguments: argparse.Namespace) -> str:
    match arguments.output:
        case "json" | "yaml":
            return data_text(_camel_case(asdict(found)), arguments.output)
        case "name":
            return "".join(_names(found))
        case form:
            tables = overview_text(found, wide=form == "wide") + ("" if found.clusters else NOTHING_YET)
            addresses = _addresses(arguments.data) if arguments.kubeconfig is None else ""
            return f"{tables}\n{addresses}" if addresses else tables


def _camel_case(value: object) -> object:
    """With the names of fields spelled as in all other outputs. All names are fields of ours."""
    if isinstance(value, dict):
        return {_FIELD.sub(lambda found: found[1].upper(), name): _camel_case(each) for name, each in value.items()}
    return [_camel_case(each) for each in value] if isinstance(value, list | tuple) else value


def overview_text(found: "Overview", *, wide: bool) -> str:
    """Without addresses, of which one has the token of the page."""
    return "\n".join(_tables(found, wide=wide))


def _names(found: "Overview") -> Iterator[str]:
    yield names_text("inferencecluster", (row.name for row in found.clusters))
    yield names_text("modeldeployment", (row.name for row in found.deployments))
    yield names_text("modelreplica", (row.name for row in found.replicas))
    yield names_text("modelcache", (row.name for row in found.caches))
    yield names_text("modelservice", (row.name for row in found.services))


def _healths(found: "Overview") -> Iterator["ObjectHealth"]:
    yield from (row.health for row in found.clusters)
    yield from (row.health for row in found.deployments)
    yield from (row.health for row in found.services)


def _tables(found: "Overview", *, wide: bool) -> Iterator[str]:
    more: Sequence[str] = ("POOLS", "TAINTS") if wide else ()
    yield table_text(
        ("CLUSTER", "HEALTH", "NODES", "FREE", "LOST", "REPLICAS", *more, "WHY"),
        (
            (c.name, _state(c), c.nodes, c.free_devices, c.lost_devices, c.replicas, *_more(c, wide), c.health.why)
            for c in found.clusters
        ),
    )
    yield table_text(
        ("DEPLOYMENT", "HEALTH", "WANTED", "PLACED", "SERVING", "WHY"),
        (
            (f"{d.namespace}/{d.name}", d.health.state, d.wanted, d.placed, d.serving, d.health.why or d.placement)
            for d in found.deployments
        ),
    )
    replicas = [replica for replica in found.replicas if wide or replica.health.state != READY]
    if replicas:
        yield _replica_table(replicas, len(replicas) if wide else _MOST_REPLICAS)
    if found.caches:
        yield table_text(
            ("CACHE", "HEALTH", "STAGED", "PROGRESS", "WHY"),
            ((f"{c.namespace}/{c.name}", c.health.state, c.staged, c.progress, c.health.why) for c in found.caches),
        )
    yield table_text(
        ("SERVICE", "HEALTH", "ENDPOINTS", "SERVING", "ADDRESS", "WHY"),
        (
            (f"{s.namespace}/{s.name}", s.health.state, s.endpoints, s.serving, s.address, s.health.why)
            for s in found.services
        ),
    )


def _replica_table(replicas: "Sequence[ReplicaRow]", most: int) -> str:
    shown = table_text(
        ("REPLICA", "HEALTH", "CLUSTER", "WHY"),
        ((f"{r.namespace}/{r.name}", r.health.state, r.cluster, r.health.why) for r in replicas[:most]),
    )
    left = len(replicas) - most
    return f"{shown}and {left} more replicas that are not ready; -o wide shows all\n" if left > 0 else shown


def _state(cluster: "ClusterRow") -> str:
    """With a mark where no replica is placed any more, as kubectl shows it for nodes."""
    return f"{cluster.health.state},SchedulingDisabled" if cluster.cordoned else cluster.health.state


def _more(cluster: "ClusterRow", wide: bool) -> tuple[str, ...]:  # noqa: FBT001  the one option
    return (", ".join(cluster.pools) or "-", ", ".join(cluster.taints) or "-") if wide else ()


def _addresses(data: Path) -> str:
    """Where the plane is reached, as `up` printed it."""
    ports = Ports.of(data)
    lines = []
    if "page" in ports.known:
        lines.append(f"page        http://{HOST}:{ports.known['page']}/?token={page_token(data)}")
    if "gateway" in ports.known:
        lines.append(f"gateway     http://{HOST}:{ports.known['gateway']}")
    return "\n".join([*lines, f"kubeconfig  {data / 'kubeconfig'}", ""])
