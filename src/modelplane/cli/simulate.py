"""`modelplane simulate`: a fleet in virtual time, with the real composers and the real placement."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from modelplane.api.errors import InputError
from modelplane.api.objects import Manifest
from modelplane.cli.manifests import read_documents
from modelplane.testing.world.command import run_many, story
from modelplane.testing.world.run import WorldOutcome, run_world
from modelplane.testing.world.scenario import ScenarioOutcome, ScenarioRow, ScenarioStep, read_step, run_scenario

_EPILOG = """\
examples:
  modelplane simulate -f examples/quickstart --step '60 lose cluster east'
  modelplane simulate -f examples/quickstart --step '60 double default/qwen3-8b' --step '120 drain cluster west'
  modelplane simulate -f fleet.yaml --scenario week.yaml -o json
  modelplane simulate --seed 7                     a drawn fleet with drawn faults; a number is always the same world
  modelplane simulate --worlds 100 --seed 1000     a hundred of them, and a report

steps, each after the second it happens at:
  lose | recover | delete | drain | undrain | cordon | uncordon cluster NAME
  add pool CLUSTER/POOL CLASS NODES,  resize pool CLUSTER/POOL NODES
  scale NAMESPACE/NAME REPLICAS,  double NAMESPACE/NAME,  restart plane

Clusters on clouds are made and have their software when the story begins.
A scenario file is YAML: `seconds`, and `steps` as a list of such lines. Nothing is started and nothing is changed: what
decides is real, API server, clusters and engines are modelled, and minutes take seconds. An engine is ready 4 s after
its pod has devices. Gangs, KServe, queues and weights are not modelled.

Exit codes: 0 all settled, 1 refused or a rule was violated, 3 the fleet had not come to rest at the end.
"""
_NOT_AT_REST = 3
_SECONDS = 600.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Runs a fleet in virtual time and tells what happens to its replicas."
    parser.epilog = _EPILOG
    parser.add_argument("-f", "--filename", dest="manifests", metavar="PATH", nargs="+", action="extend", default=[])
    parser.add_argument("--scenario", type=Path, metavar="FILE", help="a file with `seconds` and `steps`")
    parser.add_argument(
        "--step", action="append", default=[], metavar="STEP", help="what happens: '60 lose cluster east'"
    )
    parser.add_argument("--seconds", type=float, help=f"how long it runs, in virtual time ({_SECONDS:g})")
    parser.add_argument("--seed", type=int, default=0, help="decides everything that is left to chance (0)")
    parser.add_argument("--worlds", type=int, metavar="N", help="run N drawn worlds with faults, from the seed on")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")


def run(arguments: argparse.Namespace) -> int:
    if arguments.worlds is not None:
        return run_many(range(arguments.seed, arguments.seed + arguments.worlds))
    if not arguments.manifests:
        if arguments.scenario or arguments.step:
            raise InputError("steps need a fleet: give its manifests with -f")
        return _show_world(run_world(arguments.seed), arguments.output)
    steps, seconds = _steps(arguments)
    outcome = run_scenario(_manifests(arguments.manifests), steps, seconds=seconds, seed=arguments.seed)
    print(json.dumps(asdict(outcome), indent=1) if arguments.output == "json" else _rendered(outcome))
    if outcome.violation:
        return 1
    return 0 if outcome.quiet else _NOT_AT_REST


def _show_world(outcome: WorldOutcome, output: str) -> int:
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


def _steps(arguments: argparse.Namespace) -> tuple[list[ScenarioStep], float]:
    written: Mapping[str, object] = _scenario(arguments.scenario) if arguments.scenario else {}
    lines = written.get("steps", [])
    if not isinstance(lines, list):
        raise InputError(f"{arguments.scenario}: steps is not a list")
    steps = [read_step(line) for line in [*lines, *arguments.step]]
    last = max((step.at_s for step in steps), default=0.0)
    seconds = arguments.seconds or written.get("seconds") or max(_SECONDS, last + _SECONDS / 2)
    if not isinstance(seconds, int | float):
        raise InputError(f"{arguments.scenario}: seconds is not a number")
    return steps, float(seconds)


def _scenario(path: Path) -> Mapping[str, object]:
    documents = read_documents([path])
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise InputError(f"{path}: a scenario is one document with `seconds` and `steps`")
    found: Mapping[str, object] = documents[0].value
    unknown = sorted(set(found) - {"seconds", "steps"})
    if unknown:
        raise InputError(f"{path}: unknown field {unknown[0]!r}; a scenario has seconds and steps")
    return found


def _manifests(paths: Sequence[str]) -> list[Manifest]:
    from modelplane.k8s.admission.references import Severity
    from modelplane.views.manifest_review import validate
    from modelplane.views.repool import as_equipped

    documents = read_documents(list(paths))
    wrong = [each for each in validate(documents).findings if each.severity is Severity.ERROR]
    if wrong:
        raise InputError(f"{wrong[0].source}:{wrong[0].line}: {wrong[0].problem}; `modelplane validate` shows all")
    return [as_equipped(document.value) for document in documents if isinstance(document.value, dict)]


def _rendered(outcome: ScenarioOutcome) -> str:
    lines = [f"{at:7.1f} s  {text}" for at, text in outcome.story]
    head = ("DEPLOYMENT", "REPLICAS", "PLACED", "SERVING", "CLUSTERS", "STATE")
    rows = [head, *(_cells(row) for row in outcome.rows)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    lines += [
        "",
        *("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows),
    ]
    if outcome.violation:
        lines.append(f"violated {outcome.violation}")
    elif not outcome.quiet:
        lines.append("the fleet had not come to rest at the end; --seconds gives it longer")
    return "\n".join(lines)


def _cells(row: ScenarioRow) -> tuple[str, ...]:
    clusters = ", ".join(f"{name} {number}" for name, number in row.clusters.items()) or "none"
    return row.deployment, str(row.wanted), str(row.placed), str(row.serving), clusters, row.ready
