"""Breaks the deciding rooms on purpose and asks their tests: a mutant that no test kills shows what is not tested.

    python tools/mutate.py                           every mutant of all rooms
    python tools/mutate.py placement                 of one room, a folder, or a module as placement/review.py
    python tools/mutate.py --sample 400 --seed 1     so many mutants of all, drawn by the seed
    python tools/mutate.py --seconds 550 --out FILE --resume FILE      go on where the last run was cut
    python tools/mutate.py --seconds 0 --resume FILE      what it came to
    python tools/mutate.py placement/review.py --only "Or → And"      those whose line or change has the text
    python tools/mutate.py placement/review.py --tests tests/placement/test_placement_review.py    by these tests alone
    python tools/mutate.py --known                   defects that tests once did not find (tools/mutants.toml)
    python tools/mutate.py --known --only "safety 3"   those of a defect of tests/defects.yaml, of a test, or of a text

A mutant changes one node of a module's syntax tree. The fast way (tools/mutate_fast.py) runs those tests of its room
that execute the line. What survives there, and what cannot be judged there, is judged in a process of its own by the
test files that mirror or mention the module, and with `--thorough` by the whole room's. Survivors with a reason are in
tools/mutants.toml. Only a test that fails kills; what timed out and what could not be imported is counted apart.
"""

import argparse
import math
import os
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import mutate_conduct
import mutate_tree
from mutate_results import Fate, Judged, Verdict, Way, line_of, read_killers, read_results, report
from mutations import ROOMS, ROOT, SOURCE, Mutant, mutants_of

LISTED = ROOT / "tools" / "mutants.toml"
LEAST = 90.0
_PROGRESS_S = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    sys.path[:0] = [str(SOURCE.parent), str(ROOT)]  # the sources that are read here are those that are imported
    listed = tomllib.loads(LISTED.read_text())
    if options.known:
        return _judge_known([each for each in listed["known"] if options.only in " ".join(each.values())], options)
    found = [mutant for path in _paths(options.modules) for mutant in mutants_of(path) if options.only in str(mutant)]
    everything = len(found)
    found = mutate_conduct.shuffled(found, options.seed)[: options.sample]
    kept = dict(_kept(found, listed.get("survivor", ()), options.resume))
    with ExitStack() as open_files:
        out = open_files.enter_context(options.out.open("w")) if options.out else None
        for mutant, verdict in _judge(found, kept, options):
            kept[mutant] = verdict
            if out:
                print(line_of(mutant, verdict), file=out, flush=True)
    return int(report(list(kept.items()), of=everything) < LEAST)


def _judge(found: Sequence[Mutant], kept: Mapping[Mutant, Verdict], options: argparse.Namespace) -> Iterator[Judged]:
    """What is known, then what is new."""
    yield from kept.items()
    new, until = [mutant for mutant in found if mutant not in kept], time.monotonic() + options.seconds
    if options.tests:
        files = [path.resolve() for path in options.tests]
        judged = mutate_conduct.judge_by(((mutant, files) for mutant in new), processes=options.processes, until=until)
    else:
        killers = {mutant: test for file in options.resume for mutant, test in read_killers(file, new)}
        judged = mutate_conduct.judge(
            {mutant: killers.get(mutant, "") for mutant in new},
            again=[mutant for mutant, verdict in kept.items() if verdict == Verdict(Fate.SURVIVED, Way.FAST)],
            processes=options.processes,
            until=until,
            thorough=options.thorough,
        )
    yield from mutate_conduct.told(judged, _PROGRESS_S, _say, len(new))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _kept(found: Sequence[Mutant], survivors: Iterable[Mapping[str, str]], files: Iterable[Path]) -> Iterator[Judged]:
    """Those that need not be judged: they are in a results file, or explained."""
    for file in files:
        yield from read_results(file, found)
    reasons = {(each["module"], each["text"], each["change"]): each["reason"] for each in survivors}
    for mutant in found:
        if mutant.key in reasons:
            yield mutant, Verdict(Fate.EXPLAINED, Way.LISTED, reasons[mutant.key])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="as placement/review.py; all rooms without")
    parser.add_argument("--only", metavar="TEXT", default="", help="those that have it, as they are printed or listed")
    parser.add_argument("--sample", type=int, help="so many of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--known", action="store_true", help="the mutants of tools/mutants.toml")
    parser.add_argument("--tests", type=Path, nargs="+", metavar="FILE", help="ask these, and no others")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="so many at a time")
    parser.add_argument("--thorough", action="store_true", help="ask the whole room before a mutant has survived")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop then, and report what is judged")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write a line of JSON for each mutant")
    parser.add_argument(
        *("--resume",), type=Path, metavar="FILE", action="append", default=[], help="keep what it says and still holds"
    )
    return parser


def _paths(modules: Sequence[str]) -> list[Path]:
    named = [SOURCE / module for module in modules or ROOMS]
    return sorted(path for each in named for path in (each.rglob("*.py") if each.is_dir() else [each]))


def known(listed: Sequence[Mapping[str, str]]) -> Iterator[tuple[Mutant, list[Path]]]:
    """Of a `module` of ours, or of any `file` of the repository."""
    for each in listed:
        file = each["file"] if "file" in each else f"src/modelplane/{each['module']}"
        source = (ROOT / file).read_text()
        if source.count(each["text"]) != 1:
            raise SystemExit(f"mutants.toml: {file} has not once: {each['text']}")
        changed = source.replace(each["text"], each["change"])
        named = each.get("module", file)
        yield Mutant(named, each["change"], each["text"], whole=changed), [ROOT / "tests" / each["tests"]]


def _judge_known(listed: Sequence[Mapping[str, str]], options: argparse.Namespace) -> int:
    pairs = list(known(listed))
    modules = [pair for pair in pairs if (SOURCE / pair[0].module).is_file()]
    others = [pair for pair in pairs if pair not in modules]
    judged = list(mutate_conduct.judge_by(modules, processes=options.processes))
    judged += [(mutant, _judge_in_a_copy(mutant, files[0])) for mutant, files in others]
    return int(report(judged, of=len(judged)) < 100.0)  # noqa: PLR2004  all of them


def _judge_in_a_copy(mutant: Mutant, test: Path) -> Verdict:
    name = str(test.relative_to(ROOT))
    try:
        killed = mutate_tree.is_killed(ROOT, mutant.module, mutant.source, name)
    except RuntimeError as error:
        return Verdict(Fate.ERROR, Way.SLOW, str(error))
    return Verdict(Fate.KILLED if killed else Fate.SURVIVED, Way.SLOW, name)


if __name__ == "__main__":
    sys.exit(main())
