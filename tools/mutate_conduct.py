"""Hands mutants to the processes of their rooms, and what these cannot judge to the slow way."""

import os
import random
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.context import ForkProcess
from multiprocessing.synchronize import Semaphore
from pathlib import Path

import mutate_slow
from mutate_jobs import Ended, Jobs, Outcome
from mutate_results import Fate, Judged, Unjudged, Verdict, Way
from mutate_slow import Question
from mutations import ROOT, Mutant

_PATIENCE_S = 0.05
_IMPORT_S = 3.0
"""What it takes to import modules and tests."""
_FORK = get_context("fork")


class SlowWay:
    """Asks test files, once they have passed without a mutant."""

    def __init__(self, tokens: Semaphore, *, thorough: bool = False) -> None:
        self._jobs = Jobs(tokens)
        self._thorough = thorough
        self._left: deque[Question] = deque()
        self._parked: dict[Question, list[Question]] = {}
        self._usual: dict[Question, float | Verdict] = {}
        self._asked: set[Mutant] = set()
        """Those that the tests of their room have not killed."""

    def put(self, mutant: Mutant, files: Sequence[Path] = (), *, asked: bool = False) -> None:
        if asked:
            self._asked.add(mutant)
        self._left.append(Question(mutant, tuple(files or mutate_slow.test_files(mutant.module))))

    def put_first(self, mutant: Mutant, unjudged: Unjudged) -> None:
        """To be asked of tests that are known to pass."""
        if not unjudged.tests:
            self.put(mutant)
            return
        question = Question(mutant, unjudged.files, only=unjudged.tests)
        self._usual[question.without_mutant()] = unjudged.seconds + _IMPORT_S
        self._left.append(question)

    @property
    def is_done(self) -> bool:
        return not self._left and not len(self._jobs)

    def step(self) -> Iterator[Judged]:
        """Starts what it may, and tells what has ended."""
        while self._left:
            question = self._left.popleft()
            usual = self._usual.get(question.without_mutant())
            if isinstance(usual, Verdict):
                yield _mutant(question), usual
            elif not self._start(question, usual):
                self._left.appendleft(question)
                break
        for outcome in self._jobs.ended(0.0):
            yield from self._end(outcome)

    def stop(self) -> None:
        self._jobs.stop()

    def _start(self, question: Question, usual_s: float | None) -> bool:
        if usual_s is not None:
            return self._fork(question, mutate_slow.limit_s(usual_s))
        first = question.without_mutant()
        if first not in self._parked:
            if not self._fork(first, mutate_slow.MOST_S):
                return False
            self._parked[first] = []
        self._parked[first].append(question)
        return True

    def _fork(self, question: Question, limit_s: float) -> bool:
        return self._jobs.start(question, partial(mutate_slow.ask, question), limit_s=limit_s)

    def _end(self, outcome: Outcome) -> Iterator[Judged]:
        question: Question = outcome.job
        verdict = mutate_slow.verdict_of(outcome, question.files)
        if question.mutant is None:
            self._usual[question] = _usual(outcome, verdict)
            self._left.extendleft(self._parked.pop(question))
        elif verdict.fate is Fate.SURVIVED and question.only:
            self.put(question.mutant)
        elif verdict.fate is Fate.SURVIVED and self._is_left_to_ask(question):
            self._left.append(Question(question.mutant, (_room_tests(question.mutant),), slow=False))
        else:
            yield question.mutant, verdict

    def _is_left_to_ask(self, question: Question) -> bool:
        return self._thorough and question.slow and question.mutant not in self._asked


def _mutant(question: Question) -> Mutant:
    assert question.mutant is not None
    return question.mutant


def _room_tests(mutant: Mutant) -> Path:
    return ROOT / "tests" / (mutant.room or Path(mutant.module).parts[0])


def _usual(outcome: Outcome, verdict: Verdict) -> float | Verdict:
    """How long tests take; that they say nothing, if they fail without a mutant."""
    if verdict.fate is Fate.SURVIVED and outcome.ended is Ended.ANSWERED:
        return float(outcome.answer.seconds)
    return Verdict(Fate.ERROR, Way.SLOW, f"without a mutant: {verdict.fate} {verdict.by}")


class Rooms:
    """A process a room, which judges the fast way."""

    def __init__(self, mutants: Mapping[Mutant, str], tokens: Semaphore, until: float) -> None:
        by_room: dict[str, dict[Mutant, str]] = defaultdict(dict)
        for mutant, test in mutants.items():
            by_room[mutant.room][mutant] = test
        self._left = {room: dict(enumerate(found)) for room, found in by_room.items()}
        self._processes: dict[Connection, tuple[str, ForkProcess]] = {}
        for room, found in by_room.items():
            answers, send = Pipe(duplex=False)
            process = ForkProcess(target=_judge_room, args=(room, found, tokens, send, until))
            process.start()
            send.close()
            self._processes[answers] = room, process

    @property
    def is_done(self) -> bool:
        return not self._processes

    def step(self, patience_s: float) -> Iterator[tuple[Mutant, Verdict | Unjudged]]:
        for answers in wait(list(self._processes), patience_s):
            assert isinstance(answers, Connection)
            room, process = self._processes[answers]
            try:
                at, verdict = answers.recv()
            except EOFError:
                process.join()
                del self._processes[answers]
                yield from self._leave(room, process.exitcode)
            else:
                yield self._left[room].pop(at), verdict

    def stop(self) -> None:
        for _, process in self._processes.values():
            process.join(20.0)
            process.kill()

    def _leave(self, room: str, code: int | None) -> Iterator[tuple[Mutant, Verdict | Unjudged]]:
        """What a process has not told when it ends, the slow way is asked."""
        if code:
            print(f"{room}: the fast way ended with {code}", file=sys.stderr, flush=True)
        yield from ((mutant, Unjudged()) for mutant in self._left[room].values())


def _judge_room(room: str, mutants: Mapping[Mutant, str], tokens: Semaphore, send: Connection, until: float) -> None:
    import mutate_fast

    numbers = {mutant: at for at, mutant in enumerate(mutants)}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)

    def tell(mutant: Mutant, verdict: Verdict | Unjudged) -> None:
        send.send((numbers[mutant], verdict))

    sys.exit(mutate_fast.judge_room(room, mutants, tokens, tell, until))


def judge(
    mutants: Mapping[Mutant, str], *, processes: int, until: float, thorough: bool, again: Sequence[Mutant] = ()
) -> Iterator[Judged]:
    """Each with its verdict, in any order; a survivor of the fast way also before the slow way has said so.

    A mutant comes with the test that killed it in an earlier run, which the fast way asks first; it may be none.

    Those to be asked again have survived the fast way before. They take most of the time, so they come last: a run that
    is cut has judged as many as it could, and its score is no higher than that of a whole one.
    """
    if time.monotonic() >= until:
        return
    tokens = _FORK.Semaphore(processes)
    rooms = Rooms(mutants, tokens, until)
    mutate_slow.load_libraries()
    slow = SlowWay(tokens, thorough=thorough)
    survivors = list(again)
    while time.monotonic() < until and not (rooms.is_done and slow.is_done and not survivors):
        for mutant, verdict in _drain(rooms):
            if isinstance(verdict, Unjudged):
                slow.put_first(mutant, verdict)
                continue
            yield mutant, verdict
            if verdict.fate is Fate.SURVIVED:
                survivors.append(mutant)
        while rooms.is_done and survivors:
            slow.put(survivors.pop(), asked=True)
        yield from slow.step()
    slow.stop()
    yield from ((mutant, verdict) for mutant, verdict in _drain(rooms) if isinstance(verdict, Verdict))
    rooms.stop()


def _drain(rooms: Rooms) -> Iterator[tuple[Mutant, Verdict | Unjudged]]:
    """All that has been told, after a short wait."""
    found = list(rooms.step(_PATIENCE_S))
    if rooms.is_done and not found:
        time.sleep(_PATIENCE_S)
    while found:
        yield from found
        found = list(rooms.step(0.0))


def judge_by(
    asked: Iterable[tuple[Mutant, Sequence[Path]]], *, processes: int, until: float = float("inf")
) -> Iterator[Judged]:
    """By these tests alone, the slow way."""
    mutate_slow.load_libraries()
    slow = SlowWay(_FORK.Semaphore(processes))
    for mutant, files in asked:
        slow.put(mutant, files)
    while not slow.is_done and time.monotonic() < until:
        yield from slow.step()
        time.sleep(_PATIENCE_S)
    slow.stop()


def shuffled(mutants: Sequence[Mutant], seed: int) -> list[Mutant]:
    """Those judged first are a fair sample of all."""
    return random.Random(seed).sample(list(mutants), len(mutants))  # noqa: S311  reproducible, not secret


def told(judged: Iterable[Judged], every_s: float, tell: Callable[[str], None], of: int) -> Iterator[Judged]:
    """Passes on, with a line of progress now and then."""
    started = last = time.monotonic()
    fates: dict[Mutant, Fate] = {}
    for mutant, verdict in judged:
        fates[mutant] = verdict.fate
        if time.monotonic() > last + every_s:
            last = time.monotonic()
            undetected = sum(fate is Fate.SURVIVED for fate in fates.values())
            tell(f"{last - started:.0f} s: {len(fates)} of {of} judged, {undetected} survived")
        yield mutant, verdict
