"""What became of mutants: fates, the lines of a results file, and the report."""

import ast
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

import mutations
from mutations import ROOMS, ROOT, SOURCE, Mutant


class Fate(StrEnum):
    KILLED = "killed"
    """A test failed."""
    AT_IMPORT = "killed at import"
    """The module, or one that uses it while it is imported, cannot be imported."""
    TIMED_OUT = "timed out"
    SURVIVED = "survived"
    EXPLAINED = "explained"
    """It is listed with the reason for which no test can tell it."""
    ERROR = "error"
    """The tests did not run: nothing is known of the mutant."""


class Way(StrEnum):
    FAST = "fast"
    SLOW = "slow"
    LISTED = "listed"


UNDETECTED = (Fate.SURVIVED, Fate.ERROR)


@dataclass(frozen=True, slots=True)
class Verdict:
    fate: Fate
    way: Way
    by: str = ""
    """The test that failed or did not end; what went wrong."""


@dataclass(frozen=True, slots=True)
class Unjudged:
    """The fast way has no verdict: the slow way is to ask these tests first."""

    tests: tuple[str, ...] = ()
    """Quickest first."""
    seconds: float = 0.0
    """What they take in all."""

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple({ROOT / test.partition("::")[0]: None for test in self.tests})


Judged = tuple[Mutant, Verdict]


def _digest(texts: Iterable[str]) -> str:
    found = hashlib.sha256()
    for text in texts:
        found.update(text.encode())
    return found.hexdigest()[:16]


@cache
def module_digest(module: str) -> str:
    """Of its text, and of what says which mutants it has."""
    return _digest([(SOURCE / module).read_text(), Path(mutations.__file__).read_text()])


@cache
def _file_digest(path: Path) -> str:
    return _digest([path.read_text()]) if path.is_file() else ""


@cache
def _folder_digest(folder: Path) -> str:
    return _digest(_file_digest(path) for path in sorted(folder.rglob("*.py")))


@cache
def _digests_of_tests(path: Path) -> Mapping[str, str]:
    """Of each test of a file with all that it may use there. That another test joins them changes nothing."""
    statements = ast.parse(path.read_text()).body if path.is_file() else []
    tests = [each for each in statements if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and _is_test(each)]
    used = _digest(ast.dump(each) for each in statements if each not in tests and not _is_import(each))
    return {each.name: _digest([used, ast.dump(each)]) for each in tests}


def _is_test(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return function.name.startswith("test_")


def _is_import(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import | ast.ImportFrom)


def tests_digest(mutant: Mutant, verdict: Verdict) -> str:
    """Of the test that killed it; of all that might, where none did."""
    if verdict.fate is Fate.KILLED:
        file, _, name = verdict.by.partition("::")
        return _digests_of_tests(ROOT / file).get(name.partition("[")[0]) or _file_digest(ROOT / file)
    return _folder_digest(ROOT / "tests" / Path(mutant.module).parts[0])


def line_of(mutant: Mutant, verdict: Verdict) -> str:
    """One line of a results file."""
    found = {
        "module": mutant.module,
        "text": mutant.text,
        "change": mutant.change,
        "place": list(mutant.place),
        **asdict(verdict),
        "module_digest": module_digest(mutant.module),
        "tests_digest": tests_digest(mutant, verdict),
    }
    return json.dumps(found, ensure_ascii=False)


def read_results(path: Path, mutants: Iterable[Mutant]) -> Iterator[Judged]:
    """Those that still hold: neither the module nor the tests have changed. What listed is asked anew."""
    for mutant, line in _lines_of(path, mutants):
        if verdict := _still_holds(mutant, line):
            yield mutant, verdict


def read_killers(path: Path, mutants: Iterable[Mutant]) -> Iterator[tuple[Mutant, str]]:
    """The test that killed each, whether or not it still does."""
    for mutant, line in _lines_of(path, mutants):
        if line["fate"] == Fate.KILLED:
            yield mutant, line["by"]


def _lines_of(path: Path, mutants: Iterable[Mutant]) -> Iterator[tuple[Mutant, Mapping[str, str]]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    known = {(each["module"], *each["place"]): each for each in lines}
    for mutant in mutants:
        if each := known.get((mutant.module, *mutant.place)):
            yield mutant, each


def _still_holds(mutant: Mutant, line: Mapping[str, str]) -> Verdict | None:
    verdict = Verdict(Fate(line["fate"]), Way(line["way"]), line["by"])
    if verdict.fate in {Fate.EXPLAINED, Fate.ERROR}:
        return None
    then = line["module_digest"], line["tests_digest"]
    return verdict if then == (module_digest(mutant.module), tests_digest(mutant, verdict)) else None


def report(judged: Sequence[Judged], *, of: int) -> float:
    """Prints what survived, what could not be judged, and how many of each fate there are; the score."""
    for fate in UNDETECTED:
        for mutant, verdict in sorted((each for each in judged if each[1].fate is fate), key=str):
            print(f"{fate}  {mutant}{f'  ({verdict.by})' if verdict.by else ''}")
    rooms = [(room, [verdict for mutant, verdict in judged if mutant.room == room]) for room in ROOMS]
    for room, verdicts in rooms:
        if verdicts and len(verdicts) < len(judged):
            print(f"{room}: {summary(verdicts)}")
    verdicts = [verdict for _, verdict in judged]
    print(f"{len(judged)} mutants of {of}: {summary(verdicts)}")
    return score(verdicts)


def summary(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdict.fate for verdict in verdicts)
    return ", ".join(f"{counts[fate]} {fate}" for fate in Fate) + f"; {score(verdicts):.1f} % killed or explained"


def score(verdicts: Sequence[Verdict]) -> float:
    """Of those that were judged: a limit that ran out detects a mutant, an error does not."""
    return 100.0 * sum(each.fate not in UNDETECTED for each in verdicts) / max(len(verdicts), 1)
