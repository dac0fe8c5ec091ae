"""How commands that look at placement read their input and print their answer."""

import argparse
import json
import sys
import time
from collections.abc import Sequence

import msgspec

from modelplane.admission.references import Severity
from modelplane.admission.review import review
from modelplane.api.errors import InputError
from modelplane.cli.manifests import read_documents
from modelplane.compose.moments import epoch_s
from modelplane.views.inputs import SNAPSHOT_KIND, Inputs, gather, merge

EXIT_DOES_NOT_FIT = 3
_GAP = "  "


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table")


def add_inputs(parser: argparse.ArgumentParser, *, manifests_required: bool) -> None:
    parser.add_argument(
        "-f", "--filename", dest="manifests", metavar="PATH", nargs="+", action="extend", default=[],
        required=manifests_required, help="manifests: a file, a folder, or - for standard input",
    )  # fmt: skip
    parser.add_argument("--fleet", metavar="SNAPSHOT", help="what is there: a file of `modelplane fleet snapshot`")
    parser.add_argument(
        "--now", metavar="TIME", type=_moment, default=None,
        help="the moment to decide at, as 2026-01-31T12:00:00Z or in seconds of the epoch "
        "(default: that of the snapshot, or the present)",
    )  # fmt: skip


def _moment(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        moment = epoch_s(text)
    if moment is None:
        raise argparse.ArgumentTypeError(f"{text} is neither a time such as 2026-01-31T12:00:00Z nor a number")
    return moment


def read_inputs(paths: Sequence[str], fleet: str | None = None, now: float | None = None) -> Inputs:
    """Manifests over a snapshot, as of a moment. Manifests that an API server would refuse are refused here."""
    base = gather(_mappings(fleet) if fleet else (), now=time.time())
    found = merge(base, _reviewed(paths)) if paths else base
    return found if now is None else msgspec.structs.replace(found, now=now)


def _reviewed(paths: Sequence[str]) -> Inputs:
    documents = read_documents(list(paths))
    found = review([document for document in documents if not _is_snapshot(document.value)])
    wrong = [finding for finding in found.findings if finding.severity is Severity.ERROR]
    if wrong:
        first = wrong[0]
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise InputError(
            f"{first.source}:{first.line}: {first.kind}/{first.name}: {first.problem}{more}; "
            "`modelplane validate` shows all"
        )
    return gather(document.value for document in documents if isinstance(document.value, dict))


def _mappings(path: str) -> list[dict[str, object]]:
    return [document.value for document in read_documents([path]) if isinstance(document.value, dict)]


def _is_snapshot(value: object) -> bool:
    return isinstance(value, dict) and value.get("kind") == SNAPSHOT_KIND


def print_value(value: object, output: str) -> None:
    plain = msgspec.to_builtins(value)
    if output == "json":
        json.dump(plain, sys.stdout, indent=2, ensure_ascii=False)
        print()
        return
    import yaml

    yaml.dump(plain, sys.stdout, Dumper=yaml.CSafeDumper, sort_keys=False, width=120, allow_unicode=True)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[at]) for row in (header, *rows)) for at in range(len(header))]
    for row in (header, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print(_GAP.join(cells).rstrip())


def money(amount: float | None, currency: str) -> str:
    return "-" if amount is None else f"{amount:.2f} {currency}"


def seconds(amount: float | None) -> str:
    if amount is None:
        return "-"
    return f"{amount / 60:.0f}m" if amount >= 120 else f"{amount:.0f}s"  # noqa: PLR2004  two minutes read better as minutes
