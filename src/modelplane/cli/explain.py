"""`modelplane explain KIND NAME`: why replicas are placed where they are; who waits for what in an upgrade."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modelplane.cli._kinds import read_target
from modelplane.cli._near import near_object, suggesting
from modelplane.cli._shown import EXIT_DOES_NOT_FIT, add_inputs, add_output, print_table, print_value, read_inputs
from modelplane.k8s.admission.decode import escape

if TYPE_CHECKING:
    from modelplane.views.shapes import CandidateShown, ClusterExplanation, PlacementExplanation, SoftwareRow

_EPILOG = """\
examples:
  modelplane explain deployment qwen3-8b                        the running plane of this machine
  modelplane explain md/qwen3-8b                                kinds as kubectl spells them
  modelplane explain replica qwen3-8b-ve5dztjuov                the deployment of a replica
  modelplane explain deployment qwen3-8b --fleet snapshot.yaml
  modelplane explain cluster east                               its software: who waits for what in an upgrade
  modelplane explain request 4b0c1c3e-…                         why the fleet router sent a request where it did
  modelplane explain deployment qwen3-8b -n default -f examples/quickstart/ -o yaml

Exit codes: 0 every replica is placed, 1 the input was refused, 3 some replicas are pending.
"""
_KINDS = {"ModelDeployment": "deployment", "ModelReplica": "replica", "InferenceCluster": "cluster"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Repeats the placement on the same inputs and shows the result for every cluster and pool."
    parser.epilog = _EPILOG
    parser.add_argument(
        "target", nargs="+", metavar="KIND NAME",
        help="a ModelDeployment, ModelReplica, InferenceCluster or request, or KIND/NAME; kinds as kubectl spells them",
    )  # fmt: skip
    parser.add_argument(
        "-n", "--namespace", help="its namespace; needed when several namespaces have a deployment of this name"
    )
    parser.add_argument("--router", default="", metavar="URL", help="the fleet router's admin address, for requests")
    add_inputs(parser, manifests_required=False)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    identity = _request_of(arguments.target)
    if identity:
        from modelplane.cli.explain_request import explain_request

        return explain_request(arguments, identity)
    from modelplane.views.cluster_software import explain_cluster
    from modelplane.views.explain import explain, owner_of
    from modelplane.views.shapes import FitAnswer

    kind, name = read_target(arguments.target, _KINDS)
    inputs, namespace = read_inputs(arguments), arguments.namespace
    if kind == "InferenceCluster":
        with suggesting(lambda: near_object(name, "", inputs.clusters)):
            return _show_cluster(explain_cluster(inputs.clusters, name), arguments.output)
    deployment = name
    if kind == "ModelReplica":
        with suggesting(lambda: near_object(name, namespace, inputs.replicas)):
            deployment, namespace = owner_of(inputs, name, namespace)
    with suggesting(lambda: near_object(deployment, namespace, inputs.deployments)):
        found = explain(inputs, deployment, namespace)
    if arguments.output == "text":
        _show(found)
    else:
        print_value(found, arguments.output)
    return 0 if found.answer in {FitAnswer.FITS_NOW, FitAnswer.FITS_AFTER_SCALE_UP} else EXIT_DOES_NOT_FIT


def _show_cluster(found: "ClusterExplanation", output: str) -> int:
    if output != "text":
        print_value(found, output)
        return 0
    facts = {"software": found.summary, "requirements": found.requirements, "scheduler": found.scheduler}
    for name, text in facts.items():
        if text:
            print(escape(f"{found.cluster}: {name}: {text}"))
    if found.rows:
        print()
        print_table(("WAVE", "CLUSTER", "PHASE", "RELEASE", "WHY"), [_software_cells(row) for row in found.rows])
    return 0


def _software_cells(row: "SoftwareRow") -> tuple[str, ...]:
    return "-" if row.wave is None else str(row.wave), row.cluster, row.phase, row.release, row.why


def _request_of(words: Sequence[str]) -> str:
    """The id of `request ID`; empty for another target. An id may have slashes."""
    if len(words) == 2 and words[0] in {"request", "requests"}:  # noqa: PLR2004  a kind and an id
        return words[1]
    kind, _, identity = words[0].partition("/")
    return identity if len(words) == 1 and kind == "request" else ""


def _show(found: "PlacementExplanation") -> None:
    print(escape(f"{found.deployment}: {found.answer.value}: {found.summary}"))
    if found.state:
        print(escape(f"{found.deployment}: {found.state}"))
    print()
    print_table(("VERDICT", "CLUSTER", "POOL", "SCORE", "WHY"), [_cells(candidate) for candidate in found.candidates])


def _cells(candidate: "CandidateShown") -> tuple[str, ...]:
    engine = f"engine {candidate.engine}: " if candidate.engine else ""
    reason = f"{candidate.filter}: {engine}{candidate.reason}" if candidate.filter else candidate.reason
    why = "; ".join(filter(None, (reason, _rank(candidate))))
    score = f"{candidate.score:.3f}" if candidate.score is not None else "-"
    return candidate.verdict, candidate.cluster, candidate.pool or "-", score, why


def _rank(candidate: "CandidateShown") -> str:
    """What puts a place before another: its tier, then the replicas on its cluster, then its scores."""
    tier = [f"tier {candidate.tier}"] if candidate.tier is not None else []
    replicas = [f"replicas {candidate.replicas}"] if candidate.replicas is not None else []
    return ", ".join([*tier, *replicas, *(f"{part.name} {part.value:.2f}" for part in candidate.scores)])
