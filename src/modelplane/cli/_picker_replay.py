"""`modelplane picker explain --log`: decisions out of a picker's log, made again."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError
from modelplane.cli._shown import print_table, print_value

if TYPE_CHECKING:
    from modelplane.epp.replay.replay import LoggedDecision, Replayer

_DIFFERS = 1
_SAME = "the same"


def run_log(arguments: argparse.Namespace) -> int:
    """Whether all that could be made again came out as it was logged."""
    from modelplane.cli._picker_explanation import print_explanation
    from modelplane.cli.manifests import shown
    from modelplane.epp.replay.replay import read_log

    decisions, texts = read_log(_lines(arguments.log), shown(arguments.log))
    chosen = [one for one in decisions if not arguments.id or one.request == arguments.id]
    if not chosen:
        whose = f"no decision of request {arguments.id}" if arguments.id else "no decision"
        raise InputError(f"{shown(arguments.log)}: {whose} is in the log")
    replayer = _replayer(arguments, texts)
    if arguments.output != "text":
        found = [replayer.replay(one) for one in chosen if one.replay is not None]
        print_value(found, arguments.output)
        return _DIFFERS if any(one.differences for one in found) else 0
    if not arguments.id:
        return _show_all(chosen, replayer)
    codes = []
    for one in chosen:
        replayed = replayer.replay(one)
        print_explanation(replayed.explanation)
        print()
        print(f"decided at {one.at}, and replayed: {'; '.join(replayed.differences) or _SAME}")
        codes.append(_DIFFERS if replayed.differences else 0)
    return max(codes)


def _replayer(arguments: argparse.Namespace, texts: dict[str, str]) -> "Replayer":
    from modelplane.cli.manifests import read, shown
    from modelplane.epp.config.config import load
    from modelplane.epp.replay.replay import Replayer
    from modelplane.epp.server.third_party import full_registry

    registry = full_registry()
    given = load(read(arguments.config), shown(arguments.config), registry) if arguments.config else None
    return Replayer(texts, registry, given)


def _show_all(decisions: "list[LoggedDecision]", replayer: "Replayer") -> int:
    rows, same, differ = [], 0, 0
    for one in decisions:
        verdict = _verdict(replayer, one)
        same += verdict == _SAME
        differ += verdict != _SAME and one.replay is not None
        rows.append((one.at, one.request, one.outcome, one.endpoint or "-", verdict))
    print_table(("AT", "REQUEST", "OUTCOME", "ENDPOINT", "REPLAYED"), rows)
    print(f"{same} came out the same, {differ} did not, {len(rows) - same - differ} ended before any plugin ran")
    return _DIFFERS if differ else 0


def _verdict(replayer: "Replayer", one: "LoggedDecision") -> str:
    try:
        return "; ".join(replayer.replay(one).differences) or _SAME
    except InputError as error:
        return str(error)


def _lines(path: str) -> Iterator[bytes]:
    if path == "-":
        yield from sys.stdin.buffer
        return
    try:
        with Path(path).open("rb") as file:
            yield from file
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
