"""The command line of the world: the story of one seed, or the report of many."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from multiprocessing.pool import Pool

from modelplane.testing.world.faults import FAULTS
from modelplane.testing.world.run import ROUND_S, WorldOutcome, run_world
from modelplane.testing.world.sieve import SCENARIOS, sieve

_BRANCHES = (
    "conflict",
    "crash between writes",
    "list shortened",
    "replica applied again after it was deleted",
    "replica that preempts",
    "replica that waits for capacity",
    "reply lost",
    "request answered by another replica",
    "serving replica deleted: enough others are placed",
    "serving replica deleted: it is preempted",
    "serving replica deleted: enough others serve",
)
"""Rare branches that many worlds must have reached. The rarest is reached in one world of a hundred or two."""
_MANY = 2_000
"""How many worlds those are. Fewer must have seen every fault that is not rare all the same."""
_MORE = 500
"""Worlds at a time for faults that did not happen often enough."""
_CHUNK = 25
_SHOWN = 10


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    only = tuple(options.fault or ())
    if options.seed is not None:
        outcome = run_world(options.seed, only=only)
        _say(story(outcome, only))
        return bool(outcome.violation)
    if options.sieve:
        return _sieve(options.processes)
    return run_many(range(options.first, options.first + options.worlds), options.processes, each=options.each)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m modelplane.testing.world", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this world and tell its story")
    parser.add_argument("--fault", action="append", choices=[fault.name for fault in FAULTS], help="only these faults")
    parser.add_argument("--worlds", type=int, default=500, help="how many worlds to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--each", type=int, default=0, help="more worlds, until every fault happened so many times")
    parser.add_argument("--sieve", action="store_true", help="a fault at every write of every scenario instead")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    return parser


def story(outcome: WorldOutcome, only: Sequence[str] = ()) -> str:
    """What happened, and the command that makes it happen again."""
    lines = [f"world {outcome.seed}:", *(f"  {line}" for line in outcome.story)]
    if outcome.violation:
        lines += [f"  violated {outcome.violation}", f"replay: {replay(outcome.seed, only)}"]
    else:
        lines.append(f"  quiet after {outcome.rounds} rounds and {outcome.passes} passes")
    return "\n".join(lines)


def replay(seed: int, only: Sequence[str] = ()) -> str:
    faults = "".join(f" --fault {name}" for name in only)
    return f"python -m modelplane.testing.world --seed {seed}{faults}"


@dataclass(slots=True)
class WorldTally:
    """What many worlds add up to."""

    probes: Counter[str] = field(default_factory=Counter)
    failed: dict[int, tuple[WorldOutcome, tuple[str, ...]]] = field(default_factory=dict)
    """By seed, with the faults that the world was limited to."""
    worlds: int = 0
    passes: int = 0
    rounds: int = 0

    def add(self, outcome: WorldOutcome, only: tuple[str, ...]) -> None:
        self.worlds += 1
        self.passes += outcome.passes
        self.rounds = max(self.rounds, outcome.rounds)
        self.probes.update(outcome.probes)
        if outcome.violation:
            self.failed[outcome.seed] = outcome, only

    def below(self, each: int) -> tuple[str, ...]:
        """The faults that happened less often than that."""
        return tuple(fault.name for fault in FAULTS if self.probes[f"fault {fault.name}"] < each)


def run_many(seeds: range, processes: int = 2, *, each: int = 0) -> int:
    """Print the probes, the sums and the stories of those that failed."""
    tally, started = WorldTally(), time.monotonic()
    with get_context("fork").Pool(processes) as pool:
        _run(pool, tally, seeds)
        # Some faults need what few worlds have: those get worlds with nothing but them.
        for first in range(seeds.stop, seeds.stop + 2 * len(seeds), _MORE):
            only = tally.below(each)
            if not only:
                break
            _run(pool, tally, range(first, first + _MORE), only)
    missing = [name for name in required_probes(tally.worlds) if not tally.probes[name]]
    _report(tally, missing)
    _say(f"{processes} processes, {time.monotonic() - started:.0f} s")
    return bool(tally.failed or missing)


def _run(pool: Pool, tally: WorldTally, seeds: Iterable[int], only: tuple[str, ...] = ()) -> None:
    for outcome in pool.imap_unordered(partial(run_world, only=only), seeds, chunksize=_CHUNK):
        tally.add(outcome, only)


def _report(tally: WorldTally, missing: Sequence[str]) -> None:
    _say("\n".join(f"{number:8}  {name}" for name, number in sorted(tally.probes.items())))
    rarest = min(FAULTS, key=lambda fault: tally.probes[f"fault {fault.name}"]).name
    _say(f"{len(FAULTS)} faults, the rarest {rarest} {tally.probes[f'fault {rarest}']} times")
    # The last round is the one in which nothing was written.
    _say(f"the last write at most {max(tally.rounds - 1, 0) * ROUND_S:g} s after the faults")
    _say(f"{tally.worlds} worlds, {tally.passes} passes, at most {tally.rounds} rounds; {len(tally.failed)} failed")
    for name in missing:
        _say(f"never happened: {name}")
    for seed in sorted(tally.failed)[:_SHOWN]:
        _say(story(*tally.failed[seed]))
    if tally.failed:
        _say(f"failed seeds: {' '.join(map(str, sorted(tally.failed)))}")


def required_probes(worlds: int) -> tuple[str, ...]:
    """What so many worlds must have reached."""
    many = worlds >= _MANY
    faults = (f"fault {fault.name}" for fault in FAULTS if many or not fault.rare)
    return (*faults, *(_BRANCHES if many else ()))


def _sieve(processes: int) -> int:
    """Every write of every scenario with every disturbance."""
    number, failed = 0, list[str]()
    with get_context("fork").Pool(processes) as pool:
        for results in pool.imap_unordered(_sieved, range(len(SCENARIOS))):
            number += len(results)
            failed += [result for result in results if result]
    _say(f"{len(SCENARIOS)} scenarios, {number} disturbances; {len(failed)} failed")
    for text in sorted(failed)[:_SHOWN]:
        _say(text)
    return bool(failed)


def _sieved(at: int) -> list[str]:
    return ["" if result is None else str(result) for result in sieve(SCENARIOS[at])]


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
