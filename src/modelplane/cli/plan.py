"""`modelplane plan`: what applying manifests would place, before they are applied."""

import argparse
from typing import TYPE_CHECKING

from modelplane.cli._shown import (
    EXIT_DOES_NOT_FIT,
    add_inputs,
    add_output,
    money,
    print_table,
    print_value,
    read_inputs,
    seconds,
)

if TYPE_CHECKING:
    from modelplane.views.shapes import FleetPlan, PlanRow

_EPILOG = """\
answers:
  FitsNow            every replica fits on nodes that exist
  FitsAfterScaleUp   every replica fits, some on nodes that pools must add first
  WaitsForCaches     every replica fits, and some mount a ModelCache that nothing stages
  WaitsForRoom       some replicas do not fit while others hold the devices
  FitsNowhere        some replicas do not fit in any pool, even an empty one

examples:
  modelplane plan -f examples/quickstart/
  modelplane plan -f model.yaml --fleet snapshot.yaml
  modelplane plan -f model.yaml --data
  modelplane plan -f model.yaml --kubeconfig ~/.kube/config
  modelplane plan -f model.yaml --fleet snapshot.yaml --without-scale-up -o json

Exit codes: 0 everything fits, 1 the input was refused, 3 something does not fit.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Shows what applying manifests would place, keep, move, delete or leave pending, and its price."
    )
    parser.epilog = _EPILOG
    add_inputs(parser, manifests_required=True)
    parser.add_argument("--without-scale-up", action="store_true", help="replicas that need new nodes do not fit")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    from modelplane.views.plan import plan
    from modelplane.views.shapes import FitAnswer

    found = plan(read_inputs(arguments))
    if arguments.output == "text":
        _show(found)
    else:
        print_value({"answer": found.answer, **_plain(found)}, arguments.output)
    fine = {FitAnswer.FITS_NOW} if arguments.without_scale_up else {FitAnswer.FITS_NOW, FitAnswer.FITS_AFTER_SCALE_UP}
    return 0 if found.answer in fine else EXIT_DOES_NOT_FIT


def _plain(found: "FleetPlan") -> dict[str, object]:
    return {"pricePerHour": found.price_per_hour, "deployments": found.deployments}


def _show(found: "FleetPlan") -> None:
    header = ("ACTION", "DEPLOYMENT", "CLUSTER", "POOLS", "REPLICA", "PRICE/H", "READY IN", "WHY")
    print_table(header, [_cells(row) for one in found.deployments for row in one.rows])
    print()
    for one in found.deployments:
        print(f"{one.deployment}: {one.answer.value}")
    for currency, amount in found.price_per_hour.items():
        print(f"total: {money(amount, currency)} an hour")


def _cells(row: "PlanRow") -> tuple[str, ...]:
    replica = f"#{row.index}" if row.index is not None else f"{row.replicas} of them"
    return (
        row.action.value,
        row.deployment,
        row.cluster or "-",
        "+".join(row.pools) or "-",
        replica,
        money(row.price_per_hour, row.currency),
        seconds(row.ready_in_s),
        row.reason,
    )
