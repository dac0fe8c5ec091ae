"""``python -m lab``: build the components, bring the lab up, ask how it is, run something inside it, take it down."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lab.build import BuildError, GoMissingError, ModulesAwayError, build_all, missing, module_folders, modules_of
from lab.components import Set
from lab.launch import LabError, ask, inside, running, start, stop
from lab.namespace import find_isolation
from lab.places import find_places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.places import Places

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CANNOT = 3
FLEET = Path("examples/quickstart")
FLEETS = Path("lab/fleets")
GANG_SETS = (Set.KAI, Set.KUEUE, Set.VOLCANO)
BACKEND_SETS = (Set.KSERVE, Set.AI_GATEWAY)
NEEDS = {Set.AI_GATEWAY: Set.GATEWAY}
REPORT = Path("docs/lab-report.md")


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    try:
        return int(chosen.run(chosen, find_places()))
    except GoMissingError as error:
        print(f"lab: {error}", file=sys.stderr)
        return EXIT_CANNOT
    except (BuildError, LabError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return EXIT_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="build the components that the cache lacks")
    build.add_argument("sets", nargs="*", type=Set, default=[Set.CORE], help="core, picker, kai, kueue, ...")
    build.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processors that Go may use")
    build.set_defaults(run=_build)
    prepare = commands.add_parser("prepare", help="build the core set; status 3: e2e cannot run on this machine")
    prepare.set_defaults(run=_prepare)
    up = commands.add_parser("up", help="bring the lab up and leave it running")
    up.add_argument("--fleet", type=Path, default=FLEET, help="folder of InferenceClasses and InferenceClusters")
    _takes_options(up)
    up.set_defaults(run=_up)
    commands.add_parser("status", help="what runs").set_defaults(run=_status)
    commands.add_parser("down", help="end everything that the lab started").set_defaults(run=_down)
    execute = commands.add_parser("exec", help="run a command where the lab's addresses are")
    execute.add_argument("command", nargs=argparse.REMAINDER)
    execute.set_defaults(run=_exec)
    _end_to_end_options(commands.add_parser("e2e", help="the product on genuine components; starts a lab if none runs"))
    _takes_helm(commands.add_parser("helm", help="our chart by genuine Helm: install, upgrade, rollback, uninstall"))
    _takes_charts(
        commands.add_parser("charts", help="our stack by genuine provider-helm, from the charts that can be had")
    )
    scale = commands.add_parser("scale", help="a fleet of clusters as objects; starts a lab of its own")
    scale.add_argument("--clusters", type=int, default=200)
    scale.add_argument("--replicas", type=int, default=2000)
    scale.add_argument("--patience", type=float, default=3600.0, metavar="S", help="for each size")
    scale.set_defaults(run=_scale)
    stages = commands.add_parser("stages")
    stages.add_argument("clusters", type=int)
    stages.add_argument("replicas", type=int)
    stages.add_argument("patience", type=float)
    stages.set_defaults(run=_stages)
    scenario = commands.add_parser("scenario")
    scenario.add_argument("report", type=Path)
    scenario.add_argument("--mode", default="live")
    scenario.add_argument("--step", action="append", default=[])
    scenario.add_argument("--apart", type=Set)
    scenario.set_defaults(run=_scenario)
    supervise = commands.add_parser("supervise")
    supervise.add_argument("fleet", type=Path)
    supervise.add_argument("--own-network", action="store_true")
    _takes_options(supervise)
    supervise.set_defaults(run=_supervise)
    return parser


def _takes_helm(command: argparse.ArgumentParser) -> None:
    _takes_section(command)
    command.set_defaults(run=_helm)


def _takes_charts(command: argparse.ArgumentParser) -> None:
    command.add_argument("--compare", action="store_true", help="only render the charts and compare their values")
    _takes_section(command)
    command.set_defaults(run=_charts)


def _takes_section(command: argparse.ArgumentParser) -> None:
    told = f"which page gets the section; {REPORT}, or one in the lab's folder of state where only some steps run"
    command.add_argument("--report", type=Path, help=told)
    command.add_argument("--step", action="append", default=[], help="only this step; may be repeated")


def _end_to_end_options(end_to_end: argparse.ArgumentParser) -> None:
    told = f"where the report goes; {REPORT}, or the lab's folder of state where only some steps run"
    end_to_end.add_argument("--report", type=Path, help=told)
    end_to_end.add_argument("--step", action="append", default=[], help="only this step; may be repeated")
    end_to_end.add_argument("--mode", choices=("live", "stateless"), default="live", help="of the function server")
    end_to_end.add_argument("--fleet", type=Path, default=FLEET)
    _takes_options(end_to_end)
    gangs = "only the steps on gangs under a scheduler, in a lab of its own: kai, kueue, volcano; may be repeated"
    end_to_end.add_argument("--gangs", action="append", default=[], type=Set, metavar="SET", help=gangs)
    backends = "only the steps on replicas under a backend, in a lab of its own: kserve, ai-gateway"
    end_to_end.add_argument("--backend", action="append", default=[], type=Set, metavar="SET", help=backends)
    full = "everything, then the gangs under each scheduler and replicas under each backend"
    end_to_end.add_argument("--full", action="store_true", help=full)
    end_to_end.set_defaults(run=_end_to_end)


def _takes_options(command: argparse.ArgumentParser) -> None:
    told = "a component beyond the core set; may be repeated"
    command.add_argument("--with", dest="options", action="append", default=[], type=Set, metavar="SET", help=told)


def _say(line: str) -> None:
    print(line, flush=True)


def _build(chosen: argparse.Namespace, places: Places) -> int:
    build_all(places, set(chosen.sets), chosen.jobs, _say)
    return 0


def _build_missing(places: Places, options: frozenset[Set]) -> None:
    sets = {Set.CORE, *options, *(NEEDS[each] for each in options if each in NEEDS)}
    if missing(places, sets):
        build_all(places, sets, os.cpu_count() or 1, _say)
    # Manifests are read from Go's module cache even when every program is there; from inside nothing can be fetched.
    module_folders(modules_of(sets))


def _prepare(_: argparse.Namespace, places: Places) -> int:
    isolation = find_isolation()
    if not isolation.own_network:
        _say(f"lab: {isolation.note}")
        return EXIT_CANNOT
    try:
        _build_missing(places, frozenset())
    except ModulesAwayError as error:
        _say(f"lab: {error}")
        return EXIT_CANNOT
    return 0


def _up(chosen: argparse.Namespace, places: Places) -> int:
    options = frozenset(chosen.options)
    _build_missing(places, options)
    start(places, chosen.fleet.absolute(), _say, options=options)
    _status(chosen, places)
    return 0


def _status(_: argparse.Namespace, places: Places) -> int:
    state = ask(places, "status") if running(places) else None
    if state is None:
        _say("the lab is not running")
        return EXIT_FAILED
    programs = state["programs"]
    for program in programs if isinstance(programs, list) else ():
        line = "{name:<28} {phase:<9} pid {pid!s:<7} {rss_mib:>5} MiB  restarts {restarts}"
        _say(line.format(**program))
    clusters = state["clusters"]
    for name, kubeconfig in clusters.items() if isinstance(clusters, dict) else ():
        _say(f"{name}: python -m lab exec kubectl --kubeconfig {kubeconfig} ...")
    _say(f"engines listening: {state['engines']}; {state['said']}")
    return 0


def _down(_: argparse.Namespace, places: Places) -> int:
    _say("the lab has ended" if stop(places, _say) else "the lab was not running")
    return 0


def _exec(chosen: argparse.Namespace, places: Places) -> int:
    return subprocess.run(inside(places, chosen.command), check=False).returncode


def _end_to_end(chosen: argparse.Namespace, places: Places) -> int:
    from lab.e2e.run import known_steps

    known = known_steps()
    apart = (*chosen.gangs, *chosen.backend)
    if not apart and not known.issuperset(chosen.step):
        wrong, there_are = sorted({*chosen.step} - known), ", ".join(sorted(known))
        _say(f"--step: there is no {', '.join(wrong)}; there are {there_are}")
        return EXIT_USAGE
    chosen.report = _report(chosen, places)
    status = 0 if apart else _end_to_end_core(chosen, places)
    for option in (*GANG_SETS, *BACKEND_SETS) if chosen.full else apart:
        status = max(status, _end_to_end_apart(chosen, places, option))
    return status


def _report(chosen: argparse.Namespace, places: Places) -> Path:
    return chosen.report or (places.state / "report.md" if chosen.step else REPORT)


def _end_to_end_apart(chosen: argparse.Namespace, places: Places, option: Set) -> int:
    """In a lab of its own, under that scheduler or backend."""
    options = frozenset({option})
    _build_missing(places, options)
    fleet = FLEETS / option.value
    start(places, (fleet if fleet.is_dir() else FLEET).absolute(), _say, tied=True, options=options)
    try:
        steps = [word for step in chosen.step for word in ("--step", step)]
        command = [sys.executable, "-m", "lab", "scenario", str(chosen.report), "--apart", option.value, *steps]
        return subprocess.run(inside(places, command), check=False).returncode
    finally:
        stop(places, _say)


def _charts(chosen: argparse.Namespace, places: Places) -> int:
    _build_missing(places, frozenset({Set.CHARTS}))
    if chosen.compare:
        return 0 if _compared(places) else EXIT_FAILED
    return _product(chosen, places, Set.CHARTS, FLEETS / "charts")


def _helm(chosen: argparse.Namespace, places: Places) -> int:
    _build_missing(places, frozenset({Set.HELM}))
    return _product(chosen, places, Set.HELM, FLEET)


def _product(chosen: argparse.Namespace, places: Places, option: Set, fleet: Path) -> int:
    start(places, fleet.absolute(), _say, tied=True, options=frozenset({option}))
    try:
        steps = [word for step in chosen.step for word in ("--step", step)]
        report = str(_report(chosen, places))
        command = [sys.executable, "-m", "lab", "scenario", report, "--apart", option.value, *steps]
        return subprocess.run(inside(places, command), check=False).returncode
    finally:
        stop(places, _say)


def _compared(places: Places) -> bool:
    from lab.charts import compare, packed_charts

    with tempfile.TemporaryDirectory() as folder:
        found = [compare(places, chart, Path(folder)) for chart in packed_charts()]
    for each in found:
        _say(f"{each.component:<24} {each.version:<10} {each.verdict}")
    return all(each.agrees for each in found)


def _end_to_end_core(chosen: argparse.Namespace, places: Places) -> int:
    ours = running(places) is None
    if ours:
        options = frozenset(chosen.options)
        _build_missing(places, options)
        start(places, chosen.fleet.absolute(), _say, tied=True, options=options)
    try:
        steps = [word for step in chosen.step for word in ("--step", step)]
        command = [sys.executable, "-m", "lab", "scenario", str(chosen.report), "--mode", chosen.mode, *steps]
        return subprocess.run(inside(places, command), check=False).returncode
    finally:
        if ours:
            stop(places, _say)


def _scale(chosen: argparse.Namespace, places: Places) -> int:
    if running(places) is not None:
        raise LabError("a lab is running: measurements need one of their own; `make lab-down` first")
    _build_missing(places, frozenset())
    start(places, FLEET.absolute(), _say, tied=True)
    try:
        given = [str(chosen.clusters), str(chosen.replicas), str(chosen.patience)]
        command = [sys.executable, "-m", "lab", "stages", *given]
        return subprocess.run(inside(places, command), check=False).returncode
    finally:
        stop(places, _say)


def _stages(chosen: argparse.Namespace, places: Places) -> int:
    from lab.scale.report import sizes, write
    from lab.scale.stages import run

    outcome = asyncio.run(run(places, sizes(chosen.clusters, chosen.replicas), chosen.patience, _say))
    return 0 if write(outcome, _say) else EXIT_FAILED


def _scenario(chosen: argparse.Namespace, places: Places) -> int:
    from lab.e2e.run import run, run_apart, run_product

    if chosen.apart in {Set.CHARTS, Set.HELM}:
        work = run_product(places, chosen.report, _say, chosen.apart, only=frozenset(chosen.step))
    elif chosen.apart is not None:
        work = run_apart(places, chosen.report, _say, chosen.apart, only=frozenset(chosen.step))
    else:
        work = run(places, chosen.report, _say, mode=chosen.mode, only=frozenset(chosen.step))
    done = asyncio.run(work)
    _say(f"report: {chosen.report}")
    return 0 if done.passed else EXIT_FAILED


def _supervise(chosen: argparse.Namespace, places: Places) -> int:
    from lab.daemon import Daemon

    async def live() -> int:
        return await Daemon(places, chosen.fleet, chosen.own_network, frozenset(chosen.options)).run()

    return asyncio.run(live())


if __name__ == "__main__":
    sys.exit(main())
