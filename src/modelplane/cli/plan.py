"""`modelplane plan`: what applying manifests would place, before they are applied."""

import argparse
import sys
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError
from modelplane.cli._shown import (
    EXIT_DOES_NOT_FIT,
    add_edited_namespace,
    add_inputs,
    add_output,
    money,
    observed_plane,
    print_table,
    print_value,
    read_inputs,
    seconds,
)

if TYPE_CHECKING:
    from modelplane.cli.running import RunningPlane
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
  modelplane plan -f model.yaml -n team                 as `apply -n team` would place it
  modelplane plan -f model.yaml --fleet snapshot.yaml
  modelplane plan -f model.yaml --data                  what changes in the running plane of this machine
  modelplane plan -f model.yaml --data --apply          and do it, after a question; --yes asks none
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
    add_edited_namespace(parser)
    parser.add_argument("--without-scale-up", action="store_true", help="replicas that need new nodes do not fit")
    parser.add_argument("--all", dest="every", action="store_true", help="also show replicas that stay as they are")
    parser.add_argument("--apply", action="store_true", help="then apply the manifests, after a question")
    parser.add_argument("-y", "--yes", action="store_true", help="with --apply: without the question")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    target = _target(arguments) if arguments.apply else None
    code = _plan(arguments)
    if target is not None and _is_confirmed(arguments, fits=code == 0):
        from modelplane.cli._objects import PlaneObjects
        from modelplane.cli.apply import apply_all, manifests_of

        apply_all(PlaneObjects(target), manifests_of(arguments.manifests), arguments.namespace, force=False)
    return code


def _target(arguments: argparse.Namespace) -> "RunningPlane":
    """The control plane that the plan is for, which then gets the manifests."""
    if "-" in arguments.manifests:
        raise InputError("--apply reads the manifests twice, so -f - cannot be applied; write them to a file")
    if not arguments.yes and not sys.stdin.isatty():
        raise InputError("--apply needs a terminal for its question; --yes applies without it")
    target = observed_plane(arguments)
    if target is None:
        raise InputError("--apply needs a control plane: name it by --data or --kubeconfig FILE")
    return target


def _is_confirmed(arguments: argparse.Namespace, *, fits: bool) -> bool:
    if arguments.yes:
        return True
    print(f"{'' if fits else 'not everything fits; '}apply this? [y/N] ", end="", flush=True)
    confirmed = sys.stdin.readline().strip().lower() in {"y", "yes"}
    if not confirmed:
        print("nothing was applied")
    return confirmed


def _plan(arguments: argparse.Namespace) -> int:
    from modelplane.views.plan import plan
    from modelplane.views.shapes import FitAnswer

    found = plan(read_inputs(arguments))
    if arguments.output == "text":
        _show(found, every=arguments.every)
    else:
        print_value({"answer": found.answer, **_plain(found)}, arguments.output)
    fine = {FitAnswer.FITS_NOW} if arguments.without_scale_up else {FitAnswer.FITS_NOW, FitAnswer.FITS_AFTER_SCALE_UP}
    return 0 if found.answer in fine else EXIT_DOES_NOT_FIT


def _plain(found: "FleetPlan") -> dict[str, object]:
    return {"pricePerHour": found.price_per_hour, "deployments": found.deployments}


def _show(found: "FleetPlan", *, every: bool) -> None:
    rows = [row for one in found.deployments for row in one.rows]
    shown = [row for row in rows if every or not _stays(row)]
    header = ("ACTION", "DEPLOYMENT", "CLUSTER", "POOLS", "REPLICA", "PRICE/H", "READY IN", "WHY")
    if shown:
        print_table(header, list(map(_cells, shown)))
    if len(shown) < len(rows):
        stay = f"replicas that stay as they are: {len(rows) - len(shown)}; --all shows them"
        print(stay if shown else f"nothing changes; {stay}")
    print()
    concerned = {row.deployment for row in shown}
    for one in found.deployments:
        if every or one.deployment in concerned:
            print(f"{one.deployment}: {one.answer.value}")
    for currency, amount in found.price_per_hour.items():
        print(f"total: {money(amount, currency)} an hour")


def _stays(row: "PlanRow") -> bool:
    """It is there, it stays, and nothing is wrong with it."""
    return row.action.value == "keep" and not row.reason


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
