"""The forms of output that commands about objects have, spelled as kubectl spells them."""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from modelplane.api.objects import GROUP
from modelplane.cli.running import RunningPlane, add_data_argument
from modelplane.k8s.admission.decode import escape
from modelplane.views.states import DELETING, NOT_READY, READY, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMATS: Final = ("text", "wide", "json", "yaml", "name")
_HELP = "text, with wide: more columns and rows, json, yaml, or name: KIND/NAME as kubectl takes them"
_COLOURS: "Mapping[str, str]" = {READY: "32", NOT_READY: "31", UNKNOWN: "33", DELETING: "33"}
"""Besides the word, never instead of it."""
_EVERY_S = 1.0
_UNITS: "Mapping[str, int]" = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def add_formats(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", type=output_word, choices=FORMATS, default="text", help=_HELP)


def output_word(given: str) -> str:
    """The form of an output. `table` is another word for `text`."""
    return "text" if given == "table" else given


def add_plane(parser: argparse.ArgumentParser) -> None:
    """Where the objects are: a plane of this machine, or any control plane."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--kubeconfig", type=Path, metavar="FILE", help="the control plane of a kubeconfig")
    add_data_argument(where)


def add_watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-w", "--watch", action="store_true", help="show it again when it changes, until interrupted")


_AGES: Final = re.compile(r" \S+$", re.MULTILINE)


def without_ages(text: str) -> str:
    """Tables whose last column is AGE, without it."""
    tables = text.split("\n\n")
    return "\n\n".join(_AGES.sub("", each) if each.partition("\n")[0].endswith(" AGE") else each for each in tables)


def print_changes(text: Callable[[], str], *, watch: bool, essence: Callable[[str], str] = str) -> None:
    """Print a text, and print it again whenever its essence has become another one: an age alone is no change."""
    shown = None
    while True:
        found = text()
        if essence(found) != shown:
            print(("" if shown is None else "\n") + found, end="", flush=True)
            shown = essence(found)
        if not watch:
            return
        time.sleep(_EVERY_S)


def duration_s(text: str) -> float:
    """`90s`, `30m`, `2h` or `7d` in seconds, whole ones as a whole number."""
    found = re.fullmatch(r"([0-9]{1,7}(?:\.[0-9]{1,3})?)([smhd]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 90s, 30m or 2h")
    seconds = float(found[1]) * _UNITS[found[2] or "s"]
    return int(seconds) if seconds.is_integer() else seconds


def plane_of(arguments: argparse.Namespace) -> RunningPlane:
    if arguments.kubeconfig is None:
        return RunningPlane.of(arguments.data)
    from modelplane.cli.kubeconfig import read_kubeconfig

    return read_kubeconfig(arguments.kubeconfig)


def data_text(value: object, output: str) -> str:
    """As JSON or YAML."""
    if output == "json":
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    from modelplane.k8s.yaml import to_yaml

    return to_yaml(value)


def names_text(kind: str, names: Iterable[str]) -> str:
    """`kind.group/name`, one a line. As with kubectl, without the namespace."""
    return "".join(f"{kind}.{GROUP}/{name}\n" for name in names)


NOTHING_YET = """
no cluster is here yet: `modelplane apply -f DIR` adds clusters and models, `modelplane catalog` has hardware to declare
"""


def table_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """What objects say stays in its cell: it is escaped, as in tables of kubectl."""
    lines = [tuple(header), *(tuple(escape(str(cell)) for cell in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    painted = _paints()
    return "".join("  ".join(_cells(line, widths, painted=painted)).rstrip() + "\n" for line in lines)


def _cells(line: Sequence[str], widths: Sequence[int], *, painted: bool) -> Iterable[str]:
    for cell, width in zip(line, widths, strict=True):
        colour = _COLOURS.get(cell.partition(",")[0]) if painted else None
        yield cell.ljust(width) if colour is None else f"\033[{colour}m{cell}\033[0m{' ' * (width - len(cell))}"


def _paints() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
