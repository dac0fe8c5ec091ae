"""`modelplane conformance dra PATH…`: run conformance vectors and count what passes."""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelplane.api.errors import DocumentError, InputError, NotFoundError

if TYPE_CHECKING:
    from modelplane.conformance.dra import DraCase, DraCaseResult

_EPILOG = """\
examples:
  modelplane conformance dra vectors/quantity.json vectors/semver.json
  modelplane conformance dra vectors/            every .json file of a folder

Prints the cases that fail, then 'N passed, M failed'. Exit code 1 if any failed.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.description = "Run vectors that say what the real Kubernetes code answers, and compare."
    parser.epilog = _EPILOG
    parser.add_argument("suite", choices=["dra"], help="which part to check: device semantics")
    parser.add_argument("paths", nargs="+", metavar="PATH", type=Path, help="a file of vectors, or a folder of them")


def run(arguments: argparse.Namespace) -> int:
    """Run every case of every file."""
    cases = [case for path in arguments.paths for file in _files(path) for case in _read(file)]
    results = [_run(case) for case in cases]
    failed = [result for result in results if not result.passed]
    for result in failed:
        print(f"{result.identity}: expected {_shown(result.expected)}, got {_shown(result.got)}")
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(path.glob("*.json"))
    elif path.is_file():
        yield path
    else:
        raise NotFoundError(f"{path}: no such file or folder")


def _read(path: Path) -> "Sequence[DraCase]":
    from modelplane.conformance.dra import read_cases

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"{path}: not JSON: {error}") from error
    try:
        return read_cases(document)
    except InputError as error:
        raise InputError(f"{path}: not in the vector format: {error}") from error


def _run(case: "DraCase") -> "DraCaseResult":
    from modelplane.conformance.dra import DraCaseResult, run_case

    try:
        return run_case(case)
    except Exception as error:  # noqa: BLE001  a defect that one case reveals must not hide what the others say
        return DraCaseResult(case.identity, case.fields["expect"], f"a defect: {type(error).__name__}: {error}")


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
