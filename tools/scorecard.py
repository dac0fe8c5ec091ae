"""Runs the commands of scorecard.toml and writes docs/scorecard.md: a figure, its date and a verdict for every check.

    python tools/scorecard.py                  what fits in ten minutes
    python tools/scorecard.py --deep           what takes longer
    python tools/scorecard.py --only worlds    one command, or several

A verdict is what the commands of a check came to when they ran last:

green      each has passed, each figure is within its bounds, and the target asks for nothing else
partly     the same, and the page says what of the target is missing
red        one failed, or a figure is out of its bounds
not tried  there is no command, or none has run

Results are kept in docs/scorecard.json. A command that was edited since it ran has not run.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CHECKS = ROOT / "tools" / "scorecard.toml"
PAGE = ROOT / "docs" / "scorecard.md"
RESULTS = ROOT / "docs" / "scorecard.json"
BUDGET_S = 600.0
_TAIL = 300


class Verdict(StrEnum):
    GREEN = "green"
    PARTLY = "partly"
    RED = "red"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that a command prints, and its bounds."""

    name: str
    pattern: str = ""
    least: float | None = None
    most: float | None = None
    count: bool = False
    """How often the pattern is found is the figure."""

    def problem(self, value: float) -> str:
        if self.least is not None and value < self.least:
            return f"{_number(value)} {self.name}, at least {_number(self.least)} are asked for"
        if self.most is not None and value > self.most:
            return f"{_number(value)} {self.name}, at most {_number(self.most)} are allowed"
        return ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A command that runs without a shell, or tests."""

    name: str
    command: str = ""
    tests: tuple[str, ...] = ()
    deep: bool = False
    codes: tuple[int, ...] = (0,)
    """Exit codes that are no failure: where a command prints more figures than those asked for here."""
    env: Mapping[str, str] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()

    @property
    def shown(self) -> str:
        words = self.command or f"python -m pytest {' '.join(self.tests)}"
        return " ".join([*(f"{name}={value}" for name, value in self.env.items()), words])


@dataclass(frozen=True, slots=True)
class Check:
    number: int
    section: str
    name: str
    target: str
    evidence: tuple[str, ...] = ()
    gap: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What a command came to."""

    command: str
    date: str
    seconds: float
    figure: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TestOutcome:
    outcome: str
    examples: int


class _OutOfTimeError(Exception):
    """The deadline came before the end of a command."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    checks, evidence = read_checks(options.checks.read_text())
    kept = _kept(options.results, evidence)
    only = set(options.only.split(",")) if options.only else None
    chosen = [each for each in evidence if (each.name in only if only else each.deep == options.deep)]
    unknown = (only or set()) - {each.name for each in evidence}
    if unknown:
        raise SystemExit(f"no command of {options.checks.name} is called {', '.join(sorted(unknown))}")
    kept |= _run(chosen, time.monotonic() + options.seconds)
    options.results.write_text(json.dumps({name: asdict(kept[name]) for name in sorted(kept)}, indent=1) + "\n")
    options.page.write_text(page(checks, evidence, kept))
    verdicts = [verdict(check, kept)[0] for check in checks]
    print(", ".join(f"{verdicts.count(each)} {each}" for each in Verdict))
    return int(Verdict.RED in verdicts)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deep", action="store_true", help="run what takes longer than ten minutes in all")
    parser.add_argument("--only", metavar="NAMES", help="run these commands, separated by commas")
    parser.add_argument("--seconds", type=float, default=BUDGET_S, help="what has not begun by then is left as it was")
    parser.add_argument("--checks", type=Path, default=CHECKS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    return parser


def read_checks(text: str) -> tuple[list[Check], list[Evidence]]:
    found = tomllib.loads(text)
    evidence = [_evidence(name, body) for name, body in found["evidence"].items()]
    checks = [Check(**{**each, "evidence": tuple(each.get("evidence", ()))}) for each in found["check"]]
    missing = {name for check in checks for name in check.evidence} - {each.name for each in evidence}
    if missing:
        raise SystemExit(f"scorecard: no evidence is called {', '.join(sorted(missing))}")
    return checks, evidence


def _evidence(name: str, body: Mapping[str, Any]) -> Evidence:
    given = dict(body)
    given["figures"] = tuple(Figure(**each) for each in given.get("figures", ()))
    given |= {field: tuple(given[field]) for field in ("tests", "codes") if field in given}
    return Evidence(name, **given)


def _kept(path: Path, evidence: Iterable[Evidence]) -> dict[str, Result]:
    """Results of commands as they are today."""
    commands = {each.name: each.shown for each in evidence}
    stored = json.loads(path.read_text()) if path.exists() else {}
    return {name: Result(**body) for name, body in stored.items() if commands.get(name) == body["command"]}


def _run(chosen: Sequence[Evidence], deadline: float) -> dict[str, Result]:
    """Tests that need no environment of their own share one run of pytest."""
    shared = [each for each in chosen if each.tests and not each.env]
    results: dict[str, Result] = {}
    for group in [*([each] for each in chosen if each not in shared), *([shared] if shared else [])]:
        names = ", ".join(each.name for each in group)
        try:
            results |= _run_group(group, deadline)
        except _OutOfTimeError:
            print(f"{names}: no time is left")
    return results


def _run_group(group: Sequence[Evidence], deadline: float) -> dict[str, Result]:
    """Commands come alone. What is not done in time has no result."""
    if time.monotonic() >= deadline:
        raise _OutOfTimeError
    if group[0].tests:
        return _run_tests(group, deadline)
    result = _run_command(group[0], deadline)
    _tell(group[0].name, result)
    return {group[0].name: result}


def _tell(name: str, result: Result | None) -> None:
    if result is not None:
        print(f"{name}: {result.figure}{f'; {result.problem}' if result.problem else ''} ({result.seconds:.0f} s)")


def _run_command(evidence: Evidence, deadline: float) -> Result:
    started = time.monotonic()
    code, text = _call(_words(evidence.command), evidence.env, deadline)
    values = {each.name: _value(each, text) for each in evidence.figures}
    problem = _failure(0 if code in evidence.codes else code, text) or _out_of_bounds(evidence.figures, values)
    return _result(evidence, started, values, problem)


def _run_tests(evidence: Sequence[Evidence], deadline: float) -> dict[str, Result]:
    started = time.monotonic()
    wanted = sorted({test for each in evidence for test in each.tests})
    env = {name: value for each in evidence for name, value in each.env.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outcomes.json"
        words = [
            "-p",
            "scorecard_plugin",
            f"--outcomes={path}",
            "-q",
            "-n",
            str(os.cpu_count()) if len(wanted) > 1 else "0",
            "--timeout",
            "3600",
            *wanted,
        ]
        code, text = _call([sys.executable, "-m", "pytest", *words], env, deadline)
        tests = (
            {name: TestOutcome(**body) for name, body in json.loads(path.read_text()).items()} if path.exists() else {}
        )
    if not tests:
        return {each.name: _result(each, started, {}, _failure(code or 1, text)) for each in evidence}
    results = {each.name: _judged(each, tests, started) for each in evidence}
    for name, result in results.items():
        _tell(name, result)
    return results


def _judged(evidence: Evidence, tests: Mapping[str, TestOutcome], started: float) -> Result:
    own = {name: each for name, each in tests.items() if any(_selects(test, name) for test in evidence.tests)}
    passed = [each for each in own.values() if each.outcome == "passed"]
    values = {"tests": float(len(passed)), "examples": float(sum(each.examples for each in passed))}
    failed = sorted(name for name, each in own.items() if each.outcome == "failed")
    absent = [test for test in evidence.tests if not any(_selects(test, name) for name in own)]
    problem = ""
    if failed:
        problem = f"{len(failed)} failed, first {failed[0].removeprefix(f'{ROOT}/')}"
    elif absent or not passed:
        problem = f"no test ran of {', '.join(absent) or evidence.name}"
    return _result(evidence, started, values, problem or _out_of_bounds(evidence.figures, values))


def _selects(test: str, name: str) -> bool:
    """`name` begins with the whole path of a file."""
    path, colons, rest = test.partition("::")
    whole = f"{(ROOT / path).resolve()}{colons}{rest}"
    return name == whole or name.startswith((f"{whole}::", f"{whole}[", f"{whole}/"))


def _words(command: str) -> list[str]:
    words = shlex.split(command)
    beside = Path(sys.executable).parent / words[0]
    return [str(beside) if beside.exists() else words[0], *words[1:]]


def _call(words: Sequence[str], env: Mapping[str, str], deadline: float) -> tuple[int, str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), str(ROOT / "tools")])
    environment = {**os.environ, "PYTHONPATH": paths, **env}
    try:
        done = subprocess.run(  # noqa: S603  commands of this repository
            words,
            cwd=ROOT,
            env=environment,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=max(deadline - time.monotonic(), 1.0),
        )
    except subprocess.TimeoutExpired:
        raise _OutOfTimeError from None
    return done.returncode, done.stdout


def _value(figure: Figure, text: str) -> float | None:
    """The last match counts: summaries come last."""
    found = re.findall(figure.pattern, text, re.MULTILINE)
    if figure.count:
        return float(len(found))
    return float(found[-1].replace(",", "")) if found else None


def _failure(code: int, text: str) -> str:
    last = next((line for line in reversed(text.splitlines()) if line.strip()), "no output")
    return f"exit {code}: {last.strip()[:_TAIL]}" if code else ""


def _out_of_bounds(figures: Iterable[Figure], values: Mapping[str, float | None]) -> str:
    for figure in figures:
        value = values.get(figure.name)
        problem = f"the command printed no number of {figure.name}" if value is None else figure.problem(value)
        if problem:
            return problem
    return ""


def _result(evidence: Evidence, started: float, values: Mapping[str, float | None], problem: str) -> Result:
    shown = ", ".join(f"{_number(value)} {name}" for name, value in values.items() if value or name != "examples")
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    return Result(evidence.shown, date, round(time.monotonic() - started, 1), shown, problem)


def _number(value: float | None) -> str:
    return "no" if value is None else f"{value:,.10g}"


def verdict(check: Check, results: Mapping[str, Result]) -> tuple[Verdict, str]:
    """With what is wrong or missing."""
    done = {name: results[name] for name in check.evidence if name in results}
    wrong = [f"{name}: {result.problem}" for name, result in done.items() if result.problem]
    if wrong:
        return Verdict.RED, "; ".join(wrong)
    if not done:
        return Verdict.NOT_TRIED, check.gap or "no command has run"
    never = [f"`{name}` has not run" for name in check.evidence if name not in done]
    missing = "; ".join([*([check.gap] if check.gap else []), *never])
    return (Verdict.PARTLY if missing else Verdict.GREEN), missing


def page(checks: Sequence[Check], evidence: Sequence[Evidence], results: Mapping[str, Result]) -> str:
    verdicts = [verdict(check, results)[0] for check in checks]
    counts = ", ".join(f"{verdicts.count(each)} {each}" for each in Verdict)
    lines = [
        "# Scorecard",
        "",
        "This page is for whoever wants to know what is proved and what is not.",
        "",
        "`make scorecard` writes this page from what commands printed; `make deep` fills in what takes longer.",
        "`tools/scorecard.toml` has the checks, and `python tools/scorecard.py --help` says how a verdict is reached.",
        "",
        f"Today: {counts}.",
    ]
    section = ""
    for check in checks:
        if check.section != section:
            section = check.section
            head = ["| # | check | target | figure | date | command | verdict | missing |", "|" + "---|" * 8]
            lines += ["", f"## {section}", "", *head]
        lines.append(_line(check, results))
    lines += ["", "## Commands", "", "| name | command | seconds |", "|---|---|---|"]
    for each in evidence:
        seconds = f"{results[each.name].seconds:.0f}" if each.name in results else "has not run"
        lines.append(f"| {each.name} | `{_cell(each.shown)}` | {seconds} |")
    return "\n".join(lines) + "\n"


def _line(check: Check, results: Mapping[str, Result]) -> str:
    found, missing = verdict(check, results)
    done = [results[name] for name in check.evidence if name in results]
    figure = "; ".join(f"{name}: {results[name].figure}" for name in check.evidence if name in results)
    date = min((result.date for result in done), default="")
    cells = [str(check.number), check.name, check.target, figure, date, ", ".join(check.evidence), found.value, missing]
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    sys.exit(main())
