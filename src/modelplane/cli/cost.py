"""`modelplane cost`: what teams and deployments cost by the hour, and for a million tokens."""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelplane.cli._formats import NOTHING_YET, add_plane, data_text, duration_s, plane_of, table_text
from modelplane.cli._near import note_empty_namespace

if TYPE_CHECKING:
    from modelplane.views.fleet_cost import DeploymentCost, FleetCost, TeamCost
    from modelplane.views.fleet_load import HourlyPrice

_EPILOG = """\
examples:
  modelplane cost
  modelplane cost -n team --since 7d
  modelplane cost -o json --kubeconfig ~/.kube/config
  modelplane cost --kubeconfig ~/.kube/config --usage router.jsonl      records that a fleet router wrote

PRICE/H is that of the InferenceClass: a deployment costs the parts of nodes that its replicas take, and REST/H is what
nobody took. PER 1M TOKENS is the price of now over the time in which tokens were counted, so it holds for deployments
that were not scaled meanwhile. Tokens are those of usage records: a plane of this machine has them where callers have
keys at a gateway with a router. SPENT is what records say of providers. What is not known is `-`.
"""
_FORMATS = ("text", "json", "yaml")
_NOT_KNOWN = "-"
_HOURS_FROM = 2.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows what a fleet costs, by team and deployment, by the hour and for a million tokens."
    parser.epilog = _EPILOG
    add_plane(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-n", "--namespace", default="", help="one team (all)")
    which.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces, as without it")
    parser.add_argument(
        "--since", type=duration_s, default="24h", metavar="TIME", help="count tokens of this long: 90m, 7d (24h)"
    )
    parser.add_argument(
        "--usage", type=Path, action="append", default=[], metavar="FILE",
        help="usage records of a fleet router, JSON lines; may be repeated (those of the plane)",
    )  # fmt: skip
    parser.add_argument("-o", "--output", choices=_FORMATS, default="text", help="text, json, or yaml")


def run(arguments: argparse.Namespace) -> int:
    found = _cost(arguments)
    print(cost_text(_of_namespace(found, arguments.namespace), arguments.output), end="")
    note_empty_namespace(arguments.namespace, {row.namespace for row in found.teams})
    return 0


def _cost(arguments: argparse.Namespace) -> "FleetCost":
    from modelplane.cli._shown import objects_of
    from modelplane.cli._usage import read_usage, usage_files
    from modelplane.views.fleet_cost import fleet_cost
    from modelplane.views.fleet_load import fleet_load
    from modelplane.views.inputs import gather

    plane, now = plane_of(arguments), time.time()
    endpoints = plane.items("modelendpoints")
    files = arguments.usage or ([] if arguments.kubeconfig else usage_files(arguments.data))
    usage, window_s = read_usage(files, now, arguments.since)
    return fleet_cost(fleet_load(gather(objects_of(plane), now=now), ()), endpoints, usage, window_s=window_s)


def _of_namespace(found: "FleetCost", namespace: str) -> "FleetCost":
    if not namespace:
        return found
    import msgspec

    return msgspec.structs.replace(
        found,
        teams=tuple(row for row in found.teams if row.namespace == namespace),
        deployments=tuple(row for row in found.deployments if row.namespace == namespace),
    )


def cost_text(found: "FleetCost", output: str) -> str:
    if output != "text":
        import msgspec

        return data_text(msgspec.to_builtins(found), output)
    return "\n".join(_tables(found))


def _tables(found: "FleetCost") -> Iterator[str]:
    yield table_text(
        ("CURRENCY", "NODES/H", "DEPLOYMENTS/H", "REST/H"),
        (
            (each.currency, *(f"{a:.2f}" for a in (each.nodes_per_hour, each.deployments_per_hour, each.rest_per_hour)))
            for each in found.totals
        ),
    )
    yield table_text(
        ("TEAM", "DEPLOYMENTS", "DEVICES", "PRICE/H", "SPENT"), (_team(row, found.hours) for row in found.teams)
    )
    yield table_text(
        ("DEPLOYMENT", "DEVICES", "PRICE/H", "REQUESTS", "INPUT", "OUTPUT", "PER 1M TOKENS"),
        (_deployment(row) for row in found.deployments),
    )
    if found.hours is not None:
        yield f"requests and tokens are those of the last {_span(found.hours)}\n"
    elif found.deployments:
        yield "requests and tokens are not known: no usage records; `modelplane cost --help` says who writes them\n"
    if not found.totals and not found.deployments:
        yield NOTHING_YET.lstrip()


def _span(hours: float) -> str:
    return f"{hours:.0f} hours" if hours >= _HOURS_FROM else f"{hours * 60:.0f} minutes"


def _team(row: "TeamCost", hours: float | None) -> Sequence[object]:
    known = " + ".join(map(_price, row.prices))
    lacks = f" + {row.unpriced} unpriced" if row.unpriced and known else ""
    spent = _NOT_KNOWN if hours is None else f"{row.spent:.2f}"
    return row.namespace, row.deployments, row.devices, f"{known}{lacks}" or _NOT_KNOWN, spent


def _deployment(row: "DeploymentCost") -> Sequence[object]:
    used = row.used
    counted = (used.requests, used.input_tokens, used.output_tokens) if used else (_NOT_KNOWN,) * 3
    price = _price(row.price) if row.price is not None else _NOT_KNOWN
    million = _NOT_KNOWN
    if row.per_million_tokens is not None and row.price is not None:
        million = f"{row.per_million_tokens:.2f} {row.price.currency}"
    return f"{row.namespace}/{row.name}", row.devices, price, *counted, million


def _price(price: "HourlyPrice") -> str:
    return f"{price.per_hour:.2f} {price.currency}"
