"""The slow way to judge a mutant: a process that has nothing of ours imports it, and runs whole test files."""

import importlib
import io
import os
import re
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, is_hypothesis_test, settings
from mutate_jobs import Clock, Ended, Outcome
from mutate_results import Fate, Verdict, Way
from mutated_import import install, write_site
from mutations import ROOMS, ROOT, Mutant

LIBRARIES = ("pytest", "hypothesis", "hypothesis.strategies", "yaml", "msgspec", "re2", "xxhash")
WORDS = (
    *("-q", "-n", "0", "-p", "no:randomly", "--hypothesis-profile", "core", "--no-header", "--tb=no"),
    # What differs is of no interest here, and takes long to say.
    "--assert=plain",
)
PASSED, FAILED = 0, 1
MOST_S = 600.0
"""For tests without a mutant."""
_CONFTEST = "ImportError while loading conftest"


@dataclass(frozen=True, slots=True)
class Asked:
    """How tests ended: pytest's exit code, which failed, and whether they could be imported."""

    code: int
    failed: str = ""
    is_import: bool = False
    seconds: float = 0.0


def limit_s(usual_s: float) -> float:
    """Of tests that take so long without a mutant."""
    return 10.0 * usual_s + 10.0


def test_files(module: str) -> list[Path]:
    """Those that mirror a module by their name, then those that mention it."""
    path = Path(module)
    room = ROOT / "tests" / path.parts[0]
    dotted = ".".join(("modelplane", *path.with_suffix("").parts))
    package, stem = dotted.rpartition(".")[::2]
    mention = re.compile(rf"{re.escape(dotted)}\b|from {re.escape(package)} import [^\n]*\b{stem}\b")
    # A package has a mirror, too; a room has a folder.
    names = [stem, *([] if path.parent.as_posix() in ROOMS else [path.parent.name])]
    mirror = [file for name in names for file in sorted(room.rglob(f"test_*_{name}.py"))]
    others = [
        file for file in sorted(room.rglob("test_*.py")) if file not in mirror and mention.search(file.read_text())
    ]
    return [*mirror, *others] or [room]


def load_libraries() -> None:
    """Processes that are forked from this one need not."""
    for name in LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(name)


def calm(item: pytest.Item) -> None:
    """Properties try the same examples each time, and do not look for a simpler one when one has failed."""
    found: Any = getattr(item, "obj", None)
    test: Any = getattr(found, "__func__", found)
    if is_hypothesis_test(test):
        known: settings = getattr(test, "_hypothesis_internal_use_settings", None) or settings()
        test._hypothesis_internal_use_settings = settings(  # noqa: SLF001  as tests/conftest.py
            parent=known,
            phases=(Phase.explicit, Phase.generate),
            derandomize=True,
            database=None,
            suppress_health_check=[*known.suppress_health_check, HealthCheck.too_slow],
        )


class _Recorder:
    """A plugin of pytest: what failed first."""

    def __init__(self, only: Sequence[str]) -> None:
        self.failed = ""
        self.is_import = False
        self.status = -1
        """How the tests ended, before pytest tidies up."""
        self._only = {test: at for at, test in enumerate(only)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            calm(item)
        if self._only:
            items[:] = [item for item in items if item.nodeid in self._only]
            items.sort(key=lambda item: self._only[item.nodeid])

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self.status = int(exitstatus)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed, self.is_import = self.failed or report.nodeid, True


@dataclass(frozen=True, slots=True)
class Question:
    """Whether tests kill a mutant; without one, how long they take."""

    mutant: Mutant | None
    files: tuple[Path, ...]
    slow: bool = True
    """Whether tests are asked that are marked so."""
    only: tuple[str, ...] = ()
    """If there are any, these tests of the files alone, in this order."""

    def without_mutant(self) -> "Question":
        return Question(None, self.files, self.slow, self.only)


def ask(question: Question, clock: Clock | None = None) -> Asked:
    """In a process of its own; without a mutant it says how long the tests take."""
    del clock
    started = time.monotonic()
    _forget_ours()
    if question.mutant:
        _put_in_place(question.mutant)
    recorder, said = _Recorder(question.only), io.StringIO()
    words = [*WORDS, "-x", *([] if question.slow else ["-m", "not slow"]), *map(str, question.files)]
    with redirect_stdout(io.StringIO()), redirect_stderr(said):
        code, problem = _run_pytest(words, recorder)
    is_import = recorder.is_import or _CONFTEST in said.getvalue()
    return Asked(code, recorder.failed or problem, is_import, time.monotonic() - started)


def _run_pytest(words: list[str], recorder: _Recorder) -> tuple[int, str]:
    """Pytest raises what it would else report inside another, and where a test that failed left a socket open."""
    try:
        return int(pytest.main(words, plugins=[recorder])), ""
    except BaseException as error:  # noqa: BLE001  nothing may get out of this process
        return FAILED if recorder.status == FAILED else int(pytest.ExitCode.INTERNAL_ERROR), repr(error)


def _put_in_place(mutant: Mutant) -> None:
    """For this process, and for those that a test starts."""
    site = Path(os.environ["TMPDIR"], "site")
    site.mkdir()
    write_site(site, mutant.module, mutant.source)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    install(mutant.module, mutant.source)


def _forget_ours() -> None:
    """A parent that has imported the module would hand its own on to the child."""
    tools = str(ROOT / "tools")
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if file.startswith(str(ROOT)) and not file.startswith(tools) and "site-packages" not in file:
            del sys.modules[name]


def verdict_of(outcome: Outcome, files: Sequence[Path]) -> Verdict:
    """Only a test that failed kills. All that is not known is an error."""
    if outcome.ended is Ended.TIMED_OUT:
        return Verdict(Fate.TIMED_OUT, Way.SLOW)
    if outcome.ended is Ended.CRASHED:
        return Verdict(Fate.ERROR, Way.SLOW, f"the process ended with status {outcome.answer}")
    asked: Asked = outcome.answer
    if asked.is_import:
        return Verdict(Fate.AT_IMPORT, Way.SLOW, asked.failed)
    if asked.code == PASSED:
        return Verdict(Fate.SURVIVED, Way.SLOW)
    if asked.code == FAILED:
        return Verdict(Fate.KILLED, Way.SLOW, asked.failed)
    told = ", ".join(str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else str(file) for file in files)
    return Verdict(Fate.ERROR, Way.SLOW, f"pytest ended with {asked.code} on {told}: {asked.failed}")
