"""The command line of the world: the story of one seed, or the report of many."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from multiprocessing import get_context

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
    return run_many(range(options.first, options.first + options.worlds), options.processes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m modelplane.testing.world", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this world and tell its story")
    parser.add_argument("--fault", action="append", choices=[fault.name for fault in FAULTS], help="only these faults")
    parser.add_argument("--worlds", type=int, default=500, help="how many worlds to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--sieve", action="store_true", help="a fault at every write of every scenario instead")
    parser.add_argument("--processes", type=int, default=2)
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


def run_many(seeds: Iterable[int], processes: int = 2) -> int:
    """Print the probes, the sums and the stories of those that failed."""
    probes: Counter[str] = Counter()
    failed: list[WorldOutcome] = []
    worlds = passes = rounds = 0
    with get_context("fork").Pool(processes) as pool:
        for outcome in pool.imap_unordered(run_world, seeds, chunksize=_CHUNK):
            worlds, passes, rounds = worlds + 1, passes + outcome.passes, max(rounds, outcome.rounds)
            probes.update(outcome.probes)
            failed += [outcome] if outcome.violation else []
    _say("\n".join(f"{number:8}  {name}" for name, number in sorted(probes.items())))
    missing = [name for name in required_probes(worlds) if not probes[name]]
    rarest = min(FAULTS, key=lambda fault: probes[f"fault {fault.name}"]).name
    _say(f"{len(FAULTS)} faults, the rarest {rarest} {probes[f'fault {rarest}']} times")
    # The last round is the one in which nothing was written.
    _say(f"the last write at most {max(rounds - 1, 0) * ROUND_S:g} s after the faults")
    _say(f"{worlds} worlds, {passes} passes, at most {rounds} rounds; {len(failed)} failed")
    for name in missing:
        _say(f"never happened: {name}")
    for outcome in sorted(failed, key=lambda each: each.seed)[:_SHOWN]:
        _say(story(outcome))
    if failed:
        _say(f"failed seeds: {' '.join(str(seed) for seed in sorted(each.seed for each in failed))}")
    return bool(failed or missing)


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
