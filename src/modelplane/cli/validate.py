"""`modelplane validate`: checks manifests without a cluster."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError
from modelplane.k8s.admission.decode import TextError, escape

if TYPE_CHECKING:
    from modelplane.k8s.admission.layout import Document
    from modelplane.k8s.admission.review import ManifestReview, ReviewFinding

_DESCRIPTION = """\
Checks manifests offline, as an API server would before it stores them: schema, defaults, unknown fields, rules, device
selectors and references between the objects. Then what would be stored and never run: more devices in use than
requested, units and attributes that do not exist, what this build does not act on. Kinds of other groups are counted
and not checked.
"""
_EPILOG = """\
references inside the set:
  A class or cache that is not in the set is an error when the set has others of its kind (it is probably misspelled),
  and a warning when it has none (they are probably kept elsewhere). A Secret that is not in the set and a selector
  that matches no endpoint are warnings.
  The same kind, namespace and name twice is an error, and a note where both objects are the same.

examples:
  modelplane validate -f examples/
  modelplane validate -f class.yaml -f cluster.yaml --strict
  kubectl get modeldeployments -A -o yaml | modelplane validate -f - -o json

Prints one line for each problem, file:line: kind/name: field: problem; expected value. Exit codes: 0 no problem, 1 a
problem.
"""


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """A text that could not be parsed, and why."""

    source: str
    error: TextError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    parser.add_argument(
        "-f", "--filename", dest="named", metavar="PATH", nargs="+", action="extend", default=[],
        help="a file, a folder (with all *.yaml, *.yml and *.json inside), or - for standard input",
    )  # fmt: skip
    parser.add_argument("paths", nargs="*", metavar="PATH", help="the same as -f")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument("--strict", action="store_true", help="treat warnings as errors")


def run(arguments: argparse.Namespace) -> int:
    from modelplane.k8s.admission.references import Severity
    from modelplane.views.manifest_review import validate

    paths = [*arguments.named, *arguments.paths]
    if not paths:
        raise InputError("no manifests given: use -f PATH, or -f - for standard input")
    documents, unreadable = _read_all(paths)
    found = validate(documents)
    show = _show_json if arguments.output == "json" else _show_text
    show(found, unreadable)
    errors = found.count(Severity.ERROR) + len(unreadable)
    refused = errors + (found.count(Severity.WARNING) if arguments.strict else 0)
    return 1 if refused else 0


def _read_all(paths: Sequence[str]) -> tuple[list["Document"], list[_Unreadable]]:
    from modelplane.cli.manifests import expand, read, shown
    from modelplane.k8s.admission.documents import parse_documents

    documents: list[Document] = []
    unreadable: list[_Unreadable] = []
    for path in paths:
        for source in expand(path):
            try:
                documents += parse_documents(read(source), source=shown(source))
            except TextError as error:
                unreadable.append(_Unreadable(shown(source), error))
    return documents, unreadable


def _show_text(found: "ManifestReview", unreadable: Sequence[_Unreadable]) -> None:
    for each in unreadable:
        print(each.error)
    for finding in found.findings:
        print(_line(finding))
    print(_summary(found, len(unreadable)))


def _line(finding: "ReviewFinding") -> str:
    from modelplane.k8s.admission.references import Severity

    mark = "" if finding.severity is Severity.ERROR else f"{finding.severity.value}: "
    who = f"{finding.kind}/{finding.name}".strip("/") or "document"
    return f"{escape(finding.source)}:{finding.line}: {mark}{escape(who)}: {finding.problem}"


def _summary(found: "ManifestReview", unreadable: int) -> str:
    from modelplane.k8s.admission.references import Severity

    problems = found.count(Severity.ERROR) + unreadable
    parts = [_plural(found.objects, "object"), _plural(problems, "problem")]
    warnings = found.count(Severity.WARNING)
    if warnings:
        parts.append(_plural(warnings, "warning"))
    left = ", ".join(f"{count} {escape(kind)}" for kind, count in found.skipped.items())
    return ", ".join(parts) + (f" (not checked: {left})" if left else "")


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _show_json(found: "ManifestReview", unreadable: Sequence[_Unreadable]) -> None:
    problems = [
        {"file": each.source, "line": each.error.line, "severity": "error", "message": each.error.sentence}
        for each in unreadable
    ]
    report = {
        "objects": found.objects,
        "problems": problems + [_as_json(finding) for finding in found.findings],
        "skipped": dict(found.skipped),
    }
    json.dump(report, sys.stdout, indent=2)
    print()


def _as_json(finding: "ReviewFinding") -> dict[str, object]:
    problem = finding.problem
    return {
        "file": finding.source,
        "line": finding.line,
        "kind": finding.kind,
        "namespace": finding.namespace,
        "name": finding.name,
        "field": problem.field,
        "severity": finding.severity.value,
        "cause": problem.cause.value,
        "message": problem.message,
    }
