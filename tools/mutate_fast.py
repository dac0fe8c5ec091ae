"""The fast way to judge mutants: one process a room has collected the room's tests, and knows what each executes.

For each mutant it forks. The child has the mutant's code in place of the function's, and runs the tests that execute
the line, quickest first, until one fails. What it cannot judge so, and what survives, is left to the slow way:

- a change outside of functions, and one in a line that ran while modules and tests were imported
- a function that cannot be found, or whose code cannot be replaced
"""

import gc
import math
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from multiprocessing.synchronize import Semaphore
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import coverage
import pytest
from mutate_jobs import Clock, Ended, Jobs, Outcome, Work
from mutate_results import Fate, Unjudged, Verdict, Way
from mutate_slow import WORDS, calm
from mutations import ROOT, SOURCE, Function, Mutant, mutated_tree

_PATIENCE_S = 0.02
_LEARN_S = 300.0
_MOST_S = 8.0
"""The tests of one mutant took no longer than this in all when they were watched; slower ones are left out."""
_LEAST_S = 0.005
"""What the shortest test takes with what is around it."""
_MOST_FILES = 6
Line = tuple[str, int]
"""A module and a line of it."""
Place = tuple[str, Function | None]
"""A module and a function of it."""
Functions = dict[Place, list[FunctionType]]
Run = Callable[..., Iterator[Outcome]]


@dataclass(frozen=True, slots=True)
class Learned:
    """Of tests, by their numbers: how long each takes that passes, and which execute a line."""

    seconds: dict[int, float]
    lines: dict[Line, list[int]]


def limit_s(usual_s: float) -> float:
    """Of one test that takes so long without a mutant."""
    return 10.0 * usual_s + 5.0


Tell = Callable[[Mutant, Verdict | Unjudged], None]


def judge_room(room: str, mutants: Mapping[Mutant, str], tokens: Semaphore, tell: Tell, until: float = math.inf) -> int:
    """Tells each mutant with its verdict, or with the tests that the slow way is to ask first. How pytest ended.

    Each mutant comes with the test that killed it in an earlier run, or with none.
    """
    judge = _Room(room, mutants, tell, partial(run_all, tokens, until=until))
    judge.watch.start()
    words = [*WORDS, "--capture=sys", "-m", "not e2e", str(ROOT / "tests" / room)]
    return int(pytest.main(words, plugins=[judge]))


class _Room:
    """A plugin of pytest: in place of the tests it runs the mutants."""

    def __init__(self, room: str, mutants: Mapping[Mutant, str], tell: Tell, run: Run) -> None:
        self.watch = watch(room)
        self._room = room
        self._mutants = mutants
        self._tell = tell
        self._run = run
        self._failed = False
        self._items: Sequence[pytest.Item] = ()
        self._functions: Functions = {}
        self._learned = Learned({}, {})
        self._users: dict[str, Counter[int]] = defaultdict(Counter)
        """How many lines of a module each test executes."""
        self._killers: dict[Place, Counter[int]] = defaultdict(Counter)
        """How many mutants of a function each test has killed."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.watch.stop()
        if not session.testsfailed:
            imported = {line for line, _ in _lines(self.watch)}
            self._items = session.items
            self._functions = functions_of(SOURCE / self._room)
            for item in session.items:
                calm(item)
            gc.freeze()
            self._learn()
            self._judge_all(imported)
        return True

    def _learn(self) -> None:
        """Each file in a process of its own."""
        files: dict[Path, list[int]] = defaultdict(list)
        for at, item in enumerate(self._items):
            files[item.path].append(at)
        seconds: dict[int, float] = {}
        lines: dict[Line, list[int]] = defaultdict(list)
        work = [(path, partial(self._observe, numbers)) for path, numbers in files.items()]
        for outcome in self._run(work, limit_s=_LEARN_S):
            if outcome.ended is Ended.ANSWERED:
                seconds.update(outcome.answer.seconds)
                for line, numbers in outcome.answer.lines.items():
                    lines[line] += numbers
        self._learned = Learned(seconds, lines)
        for (module, _), numbers in lines.items():
            self._users[module].update(numbers)

    def _observe(self, numbers: Sequence[int], clock: Clock) -> Learned:
        """In a child: what the tests of a file execute."""
        del clock
        _take_folder(self._items[0])
        seconds, watching = {}, watch(self._room)
        watching.start()
        for at, after in zip(numbers, [*numbers[1:], None], strict=True):
            watching.switch_context(str(at))
            started = time.monotonic()
            if self._passes(at, after):
                seconds[at] = time.monotonic() - started
        watching.stop()
        lines: dict[Line, list[int]] = defaultdict(list)
        for line, at in _lines(watching):
            if at in seconds:
                lines[line].append(at)
        return Learned(seconds, lines)

    def _passes(self, at: int, after: int | None) -> bool:
        self._failed = False
        item = self._items[at]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None if after is None else self._items[after])
        return not self._failed

    def _judge_all(self, imported: set[Line]) -> None:
        work = []
        for mutant in self._mutants:
            lines = {(mutant.module, line) for line in mutant.lines}
            if (mutant.module, mutant.function) in self._functions and not lines & imported:
                work.append((mutant, partial(self._judge, mutant)))
            else:
                self._tell(mutant, self._unjudged(mutant))
        for outcome in self._run(work, limit_s=limit_s(1.0)):
            self._tell(outcome.job, self._verdict(outcome))

    def _judge(self, mutant: Mutant, clock: Clock) -> tuple[Fate, int] | None:
        """In a child: what became of it, and the test that says so."""
        if not replace_code(mutant, self._functions[mutant.module, mutant.function]):
            return None
        _take_folder(self._items[0])
        tests = self._tests(mutant)
        for at, after in zip(tests, [*tests[1:], None], strict=True):
            clock.set(limit_s(self._learned.seconds[at]), at)
            if not self._passes(at, after):
                return Fate.KILLED, at
        return Fate.SURVIVED, -1

    def _tests(self, mutant: Mutant) -> list[int]:
        """Those that execute it: first the one that killed it before, then those that kill most in a second."""
        seconds, killers = self._learned.seconds, self._killers[mutant.module, mutant.function]
        numbers = {at for line in mutant.lines for at in self._learned.lines.get((mutant.module, line), ())}
        before = self._mutants[mutant]
        ordered = sorted(
            numbers,
            key=lambda at: (self._items[at].nodeid != before, max(_LEAST_S, seconds[at]) / (1 + killers[at])),
        )
        totals = accumulate(seconds[at] for at in ordered)
        return [at for at, total in zip(ordered, totals, strict=True) if total < _MOST_S]

    def _unjudged(self, mutant: Mutant) -> Unjudged:
        """The test that killed it before; else those of the files whose tests execute it most, or else its module."""
        seconds, before = self._learned.seconds, self._mutants[mutant]
        for at in seconds:
            if self._items[at].nodeid == before:
                return Unjudged((before,), seconds[at])
        users = Counter(self._tests(mutant)) if mutant.function else self._users[mutant.module]
        files: Counter[Path] = Counter()
        for at, number in users.items():
            files[self._items[at].path] += number
        chosen = {path for path, _ in files.most_common(_MOST_FILES)}
        tests = sorted([at for at in users if self._items[at].path in chosen], key=seconds.__getitem__)
        return Unjudged(tuple(self._items[at].nodeid for at in tests), sum(seconds[at] for at in tests))

    def _verdict(self, outcome: Outcome) -> Verdict | Unjudged:
        """What else a child may come to, the slow way has to say."""
        if outcome.ended is Ended.TIMED_OUT:
            return Verdict(Fate.TIMED_OUT, Way.FAST, self._items[outcome.answer].nodeid)
        if outcome.ended is Ended.CRASHED or outcome.answer is None:
            return self._unjudged(outcome.job)
        fate, at = outcome.answer
        if fate is Fate.SURVIVED:
            return Verdict(fate, Way.FAST)
        self._killers[outcome.job.module, outcome.job.function][at] += 1
        return Verdict(fate, Way.FAST, self._items[at].nodeid)


def run_all(
    tokens: Semaphore, work: Sequence[tuple[Any, Work]], *, limit_s: float, until: float = math.inf
) -> Iterator[Outcome]:
    """What has ended, until then."""
    jobs = Jobs(tokens)
    left = list(reversed(work))
    while (left or len(jobs)) and time.monotonic() < until:
        if left and jobs.start(*left[-1], limit_s=limit_s, patience_s=_PATIENCE_S):
            left.pop()
        yield from jobs.ended(0.0 if left else _PATIENCE_S)
    jobs.stop()


def watch(room: str) -> coverage.Coverage:
    """Tells lines of the room that are executed."""
    made = coverage.Coverage(data_file=None, config_file=False, include=[f"{SOURCE / room}/*"])
    made.set_option("run:disable_warnings", ["no-data-collected"])
    return made


def _lines(watched: coverage.Coverage) -> Iterator[tuple[Line, int]]:
    """Each line with the number of a test that executed it, or 0."""
    data = watched.get_data()
    for file in data.measured_files():
        module = Path(file).relative_to(SOURCE).as_posix()
        for line, contexts in data.contexts_by_lineno(file).items():
            for context in contexts:
                yield (module, line), int(context or 0)


def _take_folder(item: pytest.Item) -> None:
    """What tests write is in the folder of this process."""
    factory: Any = getattr(item.config, "_tmp_path_factory")  # noqa: B009  pytest has no other door, and no type for it
    factory._given_basetemp, factory._basetemp = Path(os.environ["TMPDIR"], "tests"), None  # noqa: SLF001  as above


def functions_of(folder: Path) -> Functions:
    """All that there are of the modules in the folder, whatever holds them."""
    found: Functions = defaultdict(list)
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename.startswith(f"{folder}/"):
            module = Path(each.__code__.co_filename).relative_to(SOURCE).as_posix()
            found[module, _named(each.__code__)].append(each)
    return dict(found)


def replace_code(mutant: Mutant, functions: Iterable[FunctionType]) -> bool:
    """Whether each has the mutant's code now. One that has other variables of an outer scope cannot."""
    code = compile(mutated_tree(mutant), str(SOURCE / mutant.module), "exec", dont_inherit=True)
    made = next((each for each in _codes(code) if _named(each) == mutant.function), None)
    if made is None:
        return False
    try:
        for function in functions:
            function.__code__ = made
    except ValueError:
        return False
    return True


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _named(code: CodeType) -> Function:
    return Function(code.co_qualname, code.co_firstlineno)
