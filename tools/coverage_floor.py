"""Measures line and branch coverage, and compares it with tools/coverage.json, whose numbers only rise.

    python tools/coverage_floor.py            the deciding rooms by their own tests, then the whole by all tests
    python tools/coverage_floor.py --rooms    the deciding rooms only
    python tools/coverage_floor.py framework  one room, or several
    python tools/coverage_floor.py --raise    write what is higher than before

A room's number counts only the tests in its own folder, so that a room does not live on its neighbours' tests. Every
test runs once: the whole is what the rooms' tests and all others reach together.
Needs the package `coverage`.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ROOT / "tools" / "coverage.json"
PACKAGE = ROOT / "src" / "modelplane"
ROOMS = ("k8s/dra", "framework", "placement", "epp/scheduling", "compose")
_CONFIG = """\
[run]
branch = true
patch = subprocess, execv, _exit
sigterm = true
source = {package}
data_file = {data}
[report]
exclude_also =
    if TYPE_CHECKING:
    ^ +def .*: \\.\\.\\.$
    ^ +\\.\\.\\.$
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("named", nargs="*", metavar="ROOM", help="these rooms only")
    parser.add_argument("--rooms", action="store_true", help="the deciding rooms only")
    parser.add_argument("--raise", action="store_true", dest="raises", help="write what is higher than before")
    parser.add_argument("--floors", type=Path, default=FLOORS)
    parser.add_argument("--missing", action="store_true", help="print the lines and branches that no test reaches")
    options = parser.parse_args(arguments)
    floors: dict[str, float] = json.loads(options.floors.read_text()) if options.floors.exists() else {}
    rooms = options.named or ROOMS
    with tempfile.TemporaryDirectory() as folder:
        reached = Reached(Path(folder), missing=options.missing)
        found = {room: reached.by_own_tests(room) for room in rooms}
        print(f"deciding         {_shown(min(found.values()))}", flush=True)
        if not options.rooms and not options.named:
            found["whole"] = reached.by_all_tests(rooms)
    if options.raises:
        options.floors.write_text(json.dumps(raised(floors, found), indent=1) + "\n")
        return 0
    problems = below(floors, found)
    print("\n".join(problems) or "no number fell")
    return int(bool(problems))


def raised(floors: Mapping[str, float], found: Mapping[str, float]) -> dict[str, float]:
    """Each number that is higher than its floor is the new floor; none is lowered."""
    return {name: max(floors.get(name, 0.0), _tenths(found.get(name, 0.0))) for name in sorted({*floors, *found})}


def below(floors: Mapping[str, float], found: Mapping[str, float]) -> list[str]:
    return [
        f"{name}: {_shown(found[name])} %, it was {floor} %"
        for name, floor in sorted(floors.items())
        if name in found and _tenths(found[name]) < floor
    ]


def _tenths(percent: float) -> float:
    """Rounded down: nothing is 100 that lacks a branch."""
    return math.floor(percent * 10) / 10


def _shown(percent: float) -> str:
    return f"{_tenths(percent):.1f}"


class Reached:
    """What tests reach of the package, in files below one folder."""

    def __init__(self, folder: Path, *, missing: bool) -> None:
        self._folder = folder
        self._missing = missing
        self._runs: list[Path] = []

    def by_own_tests(self, room: str) -> float:
        return self._percent(room, self._run(f"tests/{room}"), f"{PACKAGE}/{room}/*")

    def by_all_tests(self, rooms: Sequence[str]) -> float:
        """Of the whole package, once these rooms' tests have run."""
        self._run("tests", *(f"--ignore=tests/{room}" for room in rooms))
        together = self._folder / "together"
        _call(self._config(together), "combine", "-q", "--keep", *(str(data) for data in self._runs))
        return self._percent("whole", together, f"{PACKAGE}/*")

    def _run(self, *tests: str) -> Path:
        data = self._folder / f"run-{len(self._runs)}"
        # On all processors: the processes that tests start count as well.
        words = ("-m", "pytest", "-q", "-n", str(os.cpu_count()), "--timeout", "1800", *tests)
        _call(self._config(data), "run", *words)
        _call(self._config(data), "combine", "-q")
        self._runs.append(data)
        return data

    def _percent(self, name: str, data: Path, files: str) -> float:
        report = self._folder / "report.json"
        _call(self._config(data), "json", "-q", "-o", str(report), f"--include={files}")
        totals = json.loads(report.read_text())["totals"]
        reached: float = totals["covered_lines"] + totals["covered_branches"]
        there_are: float = totals["num_statements"] + totals["num_branches"]
        percent = 100.0 * reached / max(there_are, 1.0)
        print(f"{name:16} {_shown(percent)}", flush=True)
        if self._missing:
            print(_call(self._config(data), "report", "--skip-covered", "-m", f"--include={files}"))
        return percent

    def _config(self, data: Path) -> Path:
        config = data.with_suffix(".coveragerc")
        config.write_text(_CONFIG.format(package=PACKAGE, data=data))
        return config


def _call(config: Path, command: str, *words: str) -> str:
    """Tests that fail give no figure."""
    # Properties are tried on the same examples each time, as CI does, so that a figure is no matter of luck.
    # The sources of this tree are measured, wherever the environment has installed the package from.
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "COVERAGE_PROCESS_CONFIG"},
        "COVERAGE_RCFILE": str(config),
        "COVERAGE_CORE": "ctrace",
        "CI": "1",
        "PYTHONPATH": paths,
    }
    done = subprocess.run(  # noqa: S603  the package of this environment
        [sys.executable, "-m", "coverage", command, *words],
        cwd=ROOT,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout[-2000:]}\ncoverage {command}: {why_failed(done.stdout)}")
    return done.stdout


def why_failed(printed: str) -> str:
    """The tests that failed, in one line, which is what a scorecard keeps; without any, the last line."""
    failed = [line for line in printed.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return "; ".join(failed) or printed.rstrip().rpartition("\n")[2]


if __name__ == "__main__":
    sys.exit(main())
