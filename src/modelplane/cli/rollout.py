"""`modelplane rollout`: how far an update is, its history, and to undo, restart, pause, resume, promote or abort it."""

import argparse
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from modelplane.api.objects import Json, Manifest
from modelplane.api.timestamps import timestamp
from modelplane.cli._deployments import NamedDeployment, add_deployment
from modelplane.k8s.admission.decode import escape

if TYPE_CHECKING:
    from modelplane.views.rollouts import RolloutView

_EPILOG = """\
examples:
  modelplane rollout status md/qwen3-8b                      how far the update is
  modelplane rollout status md/qwen3-8b --watch              wait until it is complete
  modelplane rollout history md/qwen3-8b                     the revisions; --revision 2 prints one
  modelplane rollout undo md/qwen3-8b                        back to the revision before
  modelplane rollout undo md/qwen3-8b --to-revision 2
  modelplane rollout restart md/qwen3-8b                     new pods, one replica at a time
  modelplane rollout pause md/qwen3-8b                       hold back changes of the pods
  modelplane rollout resume md/qwen3-8b                      go on after a pause; begin again after a halt
  modelplane rollout promote md/qwen3-8b                     end this step of the canary; --full ends all
  modelplane rollout abort md/qwen3-8b                       take the canary's requests and replicas back
  modelplane rollout status md/qwen3-8b -n team --kubeconfig ~/.kube/config

Exit codes of status: 0 complete or under way, 1 halted, the progress deadline is exceeded, or --timeout is over.
"""
_HELP = {
    "status": "show how far the update is",
    "history": "show the revisions",
    "undo": "restore an earlier revision",
    "restart": "replace the pods of every replica",
    "pause": "hold back changes of the pods",
    "resume": "go on with the update, or begin again after a halt",
    "promote": "end this step of the canary",
    "abort": "halt the canary: the stable revision gets all requests and replicas",
}
_POLL_S = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows and controls the roll-out of a ModelDeployment."
    parser.epilog = _EPILOG
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, title="verbs")
    for verb, text in _HELP.items():
        add_deployment(verbs.add_parser(verb, help=text, description=f"{text.capitalize()}."))
    status = verbs.choices["status"]
    status.add_argument("-w", "--watch", action="store_true", help="wait until it is complete or has failed")
    status.add_argument("--timeout", type=float, default=None, metavar="S", help="how long to wait (no limit)")
    verbs.choices["history"].add_argument("--revision", type=int, metavar="N", help="print the template of a revision")
    verbs.choices["promote"].add_argument("--full", action="store_true", help="end all steps")
    verbs.choices["undo"].add_argument("--to-revision", type=int, metavar="N", help="which one (the one before)")


def run(arguments: argparse.Namespace) -> int:
    from modelplane.views.rollouts import abort_patch, pause_patch, promote_patch, restart_patch, resume_patch

    deployment = NamedDeployment.of(arguments)
    match arguments.verb:
        case "status":
            return _status(deployment, arguments)
        case "history":
            return _history(deployment, arguments.revision)
        case "undo":
            return _undo(deployment, arguments.to_revision)
        case "restart":
            at = timestamp(time.time())
            deployment.change(lambda item: restart_patch(item, at))
            print(f"{deployment.name} restarted")
        case "promote":
            return _changed(deployment, lambda item: promote_patch(item, full=arguments.full))
        case "abort":
            return _changed(deployment, abort_patch)
        case "resume":
            at = timestamp(time.time())
            deployment.change(lambda item: resume_patch(item, at))
            print(f"{deployment.name} resumed")
        case _:
            deployment.change(lambda item: pause_patch(item, paused=True))
            print(f"{deployment.name} paused")
    return 0


def _changed(deployment: NamedDeployment, make: Callable[[Manifest], tuple[Json | None, str]]) -> int:
    """Change the deployment and print what that means."""
    outcome = ""

    def made(item: Manifest) -> Json | None:
        nonlocal outcome
        patch, outcome = make(item)
        return patch

    deployment.change(made)
    print(f"{deployment.name} {outcome}")
    return 0


def _status(deployment: NamedDeployment, arguments: argparse.Namespace) -> int:
    from modelplane.views.rollouts import RolloutPhase

    failed = {RolloutPhase.FAILED, RolloutPhase.HALTED}
    found = _shown(deployment, None)
    deadline = None if arguments.timeout is None else time.monotonic() + arguments.timeout
    while arguments.watch and found.state not in {*failed, RolloutPhase.COMPLETE}:
        if deadline is not None and time.monotonic() >= deadline:
            print(f"{deployment.name}: not complete after {arguments.timeout:g} s", file=sys.stderr)
            return 1
        time.sleep(_POLL_S)
        found = _shown(deployment, found)
    return 1 if found.state in failed else 0


def _shown(deployment: NamedDeployment, before: "RolloutView | None") -> "RolloutView":
    """The state of the update. Printed where it is not what was printed before."""
    from modelplane.views.rollouts import rollout_view

    found = rollout_view(deployment.get())
    if found != before:
        print(escape(f"{deployment.name}: {found.state.value}: {found.message}"), flush=True)
    return found


def _history(deployment: NamedDeployment, revision: int | None) -> int:
    from modelplane.views.rollouts import revisions_of, template_at

    item = deployment.get()
    if revision is not None:
        from modelplane.k8s.yaml import to_yaml

        sys.stdout.write(to_yaml(template_at(item, revision)))
        return 0
    from modelplane.cli._shown import print_table

    rows = [
        (
            *(str(each.revision), each.hash_, each.created_at or "-", each.change_cause or "-"),
            *(",".join(each.images) or "-", each.halted or "-"),
        )
        for each in revisions_of(item)
    ]
    print_table(("REVISION", "HASH", "CREATED", "CHANGE-CAUSE", "IMAGES", "HALTED"), rows)
    return 0


def _undo(deployment: NamedDeployment, number: int | None) -> int:
    from modelplane.views.rollouts import undo_patch

    def make(item: Manifest) -> tuple[Json | None, str]:
        patch, found = undo_patch(item, number)
        return patch, f"is at revision {found} already" if patch is None else f"rolled back to revision {found}"

    return _changed(deployment, make)
