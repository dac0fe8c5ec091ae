"""`modelplane simulate`: a fleet in virtual time, with the real composers and the real placement."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError
from modelplane.api.objects import API_VERSION, Manifest, annotations_of, labels_of, name_of, namespace_of
from modelplane.cli._formats import duration_s, output_word
from modelplane.cli.running import DATA_HELP, RunningPlane, chosen_data, default_data

if TYPE_CHECKING:
    from modelplane.testing.world.run import WorldOutcome
    from modelplane.testing.world.scenario import ScenarioPlan
    from modelplane.testing.world.scenario_file import ScenarioFile
    from modelplane.testing.world.scenario_steps import ScenarioStep
    from modelplane.views.simulation_report import SimulationReport

_EPILOG = """\
examples:
  modelplane simulate examples/simulate/lose-a-region.yaml
  modelplane simulate examples/simulate/a-day.yaml --report day.html
  modelplane simulate examples/simulate/double-the-traffic.yaml -o json > before.json
  modelplane simulate examples/simulate/add-a-pool.yaml --against before.json
  modelplane simulate examples/simulate/lose-a-region.yaml examples/simulate/roll-a-model.yaml
  modelplane simulate -f examples/quickstart --step '60 lose cluster east'
  modelplane simulate --kubeconfig ~/.kube/config --step '60 lose cluster east'    the fleet of a control plane
  modelplane simulate --seed 7                     a drawn fleet with drawn faults; a number is always the same world
  modelplane simulate --worlds 100 --seed 1000     a hundred of them, and a report

steps, each after the time it happens at (60, 90s, 5m, 1h30m):
  lose | recover region NAME
  lose | recover | delete | drain | undrain | cordon | uncordon cluster NAME
  add pool CLUSTER/POOL CLASS NODES,  resize pool CLUSTER/POOL NODES
  scale NAMESPACE/NAME REPLICAS,  double NAMESPACE/NAME,  roll NAMESPACE/NAME IMAGE
  traffic NAMESPACE/NAME FACTOR,  restart plane

A scenario file has fleet, duration, seed, engineStart, steps and traffic; docs/simulation.md describes it. Of two files
the second is compared with the first. Nothing is started and nothing is changed: what decides is real; API server,
clusters, engines and clients are modelled, and a day takes seconds. Replicas are placed anew: those of a running plane
are not taken over. Clusters on clouds are made and have their software when the story begins. Gangs, KServe, queues and
weights are not modelled.

Exit codes: 0 all settled, 1 refused or a rule was violated, 3 the fleet had not come to rest at the end.
"""
_NOT_AT_REST = 3
_SECONDS = 600.0
_KINDS: Mapping[str, str] = {
    "InferenceClass": "inferenceclasses",
    "InferenceGateway": "inferencegateways",
    "InferenceCluster": "inferenceclusters",
    "ModelCache": "modelcaches",
    "ModelDeployment": "modeldeployments",
    "ModelService": "modelservices",
}
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Runs a fleet in virtual time and says what happens to its replicas and its clients."
    parser.epilog = _EPILOG
    parser.add_argument(
        "scenarios", nargs="*", type=Path, metavar="SCENARIO", help="a scenario file, or two to compare"
    )
    fleet = parser.add_mutually_exclusive_group()
    fleet.add_argument(
        "-f", "--filename", dest="manifests", metavar="PATH", nargs="+", action="extend", default=[],
        help="the fleet: manifests (those of the scenario)",
    )  # fmt: skip
    fleet.add_argument("--kubeconfig", type=Path, metavar="FILE", help="the fleet: the control plane of a kubeconfig")
    fleet.add_argument("--data", nargs="?", const="", metavar="DIR", help=f"the fleet: a plane that runs; {DATA_HELP}")
    parser.add_argument(
        "--step", action="append", default=[], metavar="STEP", help="what happens: '60 lose cluster east'"
    )
    parser.add_argument(
        "--seconds", type=_span_s, metavar="TIME", help=f"how long it runs, in virtual time: 90, 5m, 2h ({_SECONDS:g})"
    )
    parser.add_argument("--seed", type=int, help="decides everything that is left to chance (0)")
    parser.add_argument("--worlds", type=_count, metavar="N", help="run N drawn worlds with faults, from the seed on")
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="write a report as one HTML file")
    parser.add_argument("--against", type=Path, metavar="FILE.json", help="compare with the JSON of another run")
    parser.add_argument("-o", "--output", type=output_word, choices=("text", "json"), default="text")


def _span_s(text: str) -> float:
    found = duration_s(text)
    if not found:
        raise argparse.ArgumentTypeError("0 is no time that a fleet can run")
    return found


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of worlds")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    seed = arguments.seed or 0
    if arguments.worlds is not None:
        from modelplane.testing.world.command import run_many

        return run_many(range(seed, seed + arguments.worlds))
    if not arguments.scenarios and not _names_fleet(arguments):
        if arguments.step or arguments.report or arguments.against:
            raise InputError("steps need a fleet: give its manifests with -f, or a plane with --data or --kubeconfig")
        from modelplane.testing.world.run import run_world

        return _show_world(run_world(seed), arguments.output)
    report = _compared(arguments)
    if arguments.report is not None:
        from modelplane.web.simulation_page import simulation_page

        arguments.report.write_text(simulation_page(report), encoding="utf-8")
        print(f"{arguments.report}: written", file=sys.stderr)
    if arguments.output == "json":
        from modelplane.views.simulation_report import report_bytes

        sys.stdout.write(report_bytes(report).decode())
    else:
        from modelplane.cli._simulation_text import report_text

        print(report_text(report), end="")
    if report.violation:
        return 1
    return 0 if report.quiet else _NOT_AT_REST


def _compared(arguments: argparse.Namespace) -> "SimulationReport":
    """The last run, compared with the first or with the run of a file."""
    if len(arguments.scenarios) > 1 + (arguments.against is None):
        raise InputError("give one scenario with --against, or two scenarios")
    from modelplane.testing.world.scenario import run_scenario

    reports = [run_scenario(_plan(arguments, path)) for path in arguments.scenarios or [None]]
    before = _read_report(arguments.against) if arguments.against is not None else reports[0]
    if arguments.against is None and len(reports) == 1:
        return reports[0]
    from modelplane.views.simulation_comparison import compared

    return compared(reports[-1], before)


def _read_report(path: Path) -> "SimulationReport":
    import msgspec

    from modelplane.views.simulation_report import read_report

    try:
        return read_report(path.read_bytes())
    except msgspec.DecodeError as problem:
        raise InputError(f"{path}: is not the JSON of `modelplane simulate -o json`: {problem}") from None


def _names_fleet(arguments: argparse.Namespace) -> bool:
    return bool(arguments.manifests or arguments.kubeconfig or arguments.data is not None)


def _plan(arguments: argparse.Namespace, path: Path | None) -> "ScenarioPlan":
    from modelplane.testing.world.scenario import ScenarioPlan
    from modelplane.testing.world.scenario_file import ScenarioFile
    from modelplane.testing.world.scenario_steps import read_step
    from modelplane.views.named_objects import named_objects

    written = _scenario(path) if path is not None else ScenarioFile()
    steps = [*written.steps, *map(read_step, arguments.step)]
    manifests = list(_fleet(arguments, written, path))
    manifests += named_objects(manifests)
    plan = ScenarioPlan(
        manifests,
        steps,
        written.traffic,
        duration_s=arguments.seconds or written.duration_s or _usual_s(steps),
        seed=next((seed for seed in (arguments.seed, written.seed) if seed is not None), 0),
        name=path.stem if path is not None else "",
    )
    return plan if written.engine_start_s is None else replace(plan, engine_start_s=written.engine_start_s)


def _usual_s(steps: Sequence["ScenarioStep"]) -> float:
    return max(_SECONDS, max((step.at_s for step in steps), default=0.0) + _SECONDS / 2)


def _scenario(path: Path) -> "ScenarioFile":
    from modelplane.cli.manifests import read_documents
    from modelplane.testing.world.scenario_file import read_scenario

    documents = read_documents([path])
    if any(isinstance(each.value, dict) and "metadata" in each.value for each in documents):
        raise InputError(f"{path}: these are manifests and no scenario; -f takes them")
    if len(documents) != 1:
        raise InputError(f"{path}: a scenario is one document, and not {len(documents)}")
    try:
        return read_scenario(documents[0].value)
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None


def _fleet(arguments: argparse.Namespace, written: "ScenarioFile", path: Path | None) -> Iterable[Manifest]:
    """What the command line names, else what the scenario names."""
    if arguments.manifests:
        return _manifests(arguments.manifests)
    if arguments.kubeconfig is not None:
        return _of_kubeconfig(arguments.kubeconfig)
    if arguments.data is not None:
        return _of_plane(RunningPlane.of(Path(arguments.data) if arguments.data else chosen_data() or default_data()))
    beside = path.parent if path is not None else Path()
    if written.manifests:
        return _manifests([str(beside / each) for each in written.manifests])
    if written.kubeconfig is not None:
        return _of_kubeconfig(beside / Path(written.kubeconfig).expanduser())
    if written.data is not None:
        return _of_plane(RunningPlane.of(beside / Path(written.data).expanduser()))
    raise InputError(f"{path}: fleet: is missing; give manifests, kubeconfig or data, or -f")


def _manifests(paths: Sequence[str]) -> list[Manifest]:
    from modelplane.cli.manifests import read_documents
    from modelplane.k8s.admission.references import Severity
    from modelplane.views.manifest_review import validate
    from modelplane.views.repool import as_equipped

    documents = read_documents(list(paths))
    wrong = [each for each in validate(documents).findings if each.severity is Severity.ERROR]
    if wrong:
        right = f"`modelplane validate -f {' '.join(paths)}` shows all"
        raise InputError(f"{wrong[0].source}:{wrong[0].line}: {wrong[0].problem}; {right}")
    return [as_equipped(document.value) for document in documents if isinstance(document.value, dict)]


def _of_kubeconfig(path: Path) -> Iterator[Manifest]:
    from modelplane.cli.kubeconfig import read_kubeconfig

    return _of_plane(read_kubeconfig(path))


def _of_plane(plane: RunningPlane) -> Iterator[Manifest]:
    """What people wrote: objects without status, and without what the API server added."""
    from modelplane.views.repool import as_equipped

    for kind, plural in _KINDS.items():
        for item in plane.items(plural):
            annotations = {name: text for name, text in annotations_of(item).items() if name != _LAST_APPLIED}
            metadata: dict[str, object] = {"name": name_of(item), "labels": labels_of(item), "annotations": annotations}
            if namespace_of(item):
                metadata["namespace"] = namespace_of(item)
            yield as_equipped(
                {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": item.get("spec", {})}
            )


def _show_world(outcome: "WorldOutcome", output: str) -> int:
    from modelplane.testing.world.command import story

    shown = {
        "seed": outcome.seed,
        "story": outcome.story,
        "rounds": outcome.rounds,
        "passes": outcome.passes,
        "probes": dict(outcome.probes),
        "violation": outcome.violation,
    }
    print(json.dumps(shown, indent=1) if output == "json" else story(outcome))
    return bool(outcome.violation)
