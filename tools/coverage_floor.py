"""Measures line and branch coverage, and compares it with tools/coverage.json, whose numbers only rise.

    python tools/coverage_floor.py            the deciding rooms by their own tests, then the whole by all tests
    python tools/coverage_floor.py --rooms    the deciding rooms only
    python tools/coverage_floor.py framework  one room, or several
    python tools/coverage_floor.py --raise    write what is higher than before

A room's number counts only the tests in its own folder, so that a room does not live on its neighbours' tests.
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
ROOMS = ("k8s/dra", "framework", "placement", "epp/scheduling", "compose")
_CONFIG = """\
[run]
branch = true
patch = subprocess
source = {source}
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
    found = {room: _measured(f"src/modelplane/{room}", [f"tests/{room}"], missing=options.missing) for room in rooms}
    for room in rooms:
        print(f"{room:16} {_shown(found[room])}")
    print(f"deciding         {_shown(min(found.values()))}")
    if not options.rooms and not options.named:
        found["whole"] = _measured("src/modelplane", ["tests"], missing=options.missing)
        print(f"whole            {_shown(found['whole'])}")
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


def _measured(source: str, tests: Sequence[str], *, missing: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "coveragerc"
        config.write_text(_CONFIG.format(source=ROOT / source, data=Path(folder) / "data"))
        # On all processors: the processes that tests start count as well.
        _call(config, "run", "-m", "pytest", "-q", "-n", str(os.cpu_count()), "--timeout", "1800", *tests)
        _call(config, "combine", "-q")
        report = Path(folder) / "report.json"
        _call(config, "json", "-q", "-o", str(report))
        if missing:
            print(_call(config, "report", "--skip-covered", "-m"))
        measured = json.loads(report.read_text())["totals"]
    covered: float = measured["covered_lines"] + measured["covered_branches"]
    total: float = measured["num_statements"] + measured["num_branches"]
    return 100.0 * covered / max(total, 1.0)


def _call(config: Path, command: str, *words: str) -> str:
    """Tests that fail give no figure."""
    # Properties are tried on the same examples each time, as CI does, so that a figure is no matter of luck.
    environment = {**os.environ, "COVERAGE_RCFILE": str(config), "COVERAGE_CORE": "ctrace", "CI": "1"}
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
        raise SystemExit(f"coverage {command}: {done.stdout[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
