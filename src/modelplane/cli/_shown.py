"""Inputs and output of the commands about placement.

What judges and places is imported where it is used: a command that shows its help, or needs none of it, starts at once.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from modelplane.api.errors import InputError
from modelplane.api.objects import API_VERSION
from modelplane.api.timestamps import epoch_s
from modelplane.cli._formats import output_word, table_text

if TYPE_CHECKING:
    from modelplane.cli.running import RunningPlane
    from modelplane.k8s.admission.layout import Document
    from modelplane.views.inputs import FleetManifests

EXIT_DOES_NOT_FIT = 3


def add_output(parser: argparse.ArgumentParser) -> None:
    forms = ("text", "json", "yaml")
    parser.add_argument("-o", "--output", type=output_word, choices=forms, default="text", help="text, json or yaml")


def add_inputs(parser: argparse.ArgumentParser, *, manifests_required: bool) -> None:
    parser.add_argument(
        "-f", "--filename", dest="manifests", metavar="PATH", nargs="+", action="extend", default=[],
        required=manifests_required, help="manifests: a file, a folder, or - for standard input",
    )  # fmt: skip
    observed = parser.add_mutually_exclusive_group()
    observed.add_argument("--fleet", metavar="SNAPSHOT", help="the fleet: a file of `modelplane fleet snapshot`")
    observed.add_argument(
        "--data", metavar="DIR", nargs="?", const="", default=None,
        help="the fleet: the running plane with the data folder DIR (default: $MODELPLANE_DATA, else that of "
        "$KUBECONFIG, else that of `modelplane up`)",
    )  # fmt: skip
    observed.add_argument(
        "--kubeconfig", metavar="FILE", type=Path, default=None,
        help="the fleet: the control plane of a kubeconfig",
    )  # fmt: skip
    observed.add_argument("--offline", action="store_true", help="the fleet: the manifests and nothing else")
    parser.add_argument(
        "--profile", metavar="FILE", type=Path, default=None,
        help="a PlacementProfile: the plugins that place replicas and their weights",
    )  # fmt: skip
    parser.add_argument(
        "--now", metavar="TIME", type=_time, default=None,
        help="the time of the decision, as 2026-01-31T12:00:00Z or in seconds since the epoch "
        "(default: the time of the snapshot, else now)",
    )  # fmt: skip


def _time(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        seconds = epoch_s(text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"{text} is neither a time such as 2026-01-31T12:00:00Z nor a number")
    return seconds


def read_inputs(arguments: argparse.Namespace) -> "FleetManifests":
    """The fleet with the manifests merged into it. Manifests that an API server would refuse are refused.

    The fleet is a snapshot or a plane. Without options it is the running plane that the environment names; without
    that, the manifests alone, and without manifests the running plane of this machine or the control plane of
    $KUBECONFIG.
    """
    return read_change(arguments).after


class FleetChange(NamedTuple):
    """The fleet as it is, the manifests, and the fleet with them."""

    before: "FleetManifests"
    edits: "FleetManifests"
    after: "FleetManifests"


def read_change(arguments: argparse.Namespace) -> FleetChange:
    from modelplane.views.inputs import FleetManifests, gather, merge

    base = gather(_observed(arguments), now=time.time())
    if not arguments.manifests:
        found = _with_options(base, arguments)
        return FleetChange(found, FleetManifests(), found)
    edits = _reviewed(arguments.manifests, vars(arguments).get("namespace") or "default")
    return FleetChange(_with_options(base, arguments), edits, _with_options(merge(base, edits), arguments))


def _with_options(found: "FleetManifests", arguments: argparse.Namespace) -> "FleetManifests":
    """Placed by the profile and at the time that the options name."""
    import msgspec

    if arguments.profile is not None or found.profile_document is not None:
        from modelplane.cli._plugins import full_registry, read_profile_document

        given = read_profile_document(arguments.profile) if arguments.profile is not None else None
        found = found.placed_by(given or found.profile_document or {}, full_registry())
    return found if arguments.now is None else msgspec.structs.replace(found, now=arguments.now)


def _observed(arguments: argparse.Namespace) -> Iterable[Mapping[str, object]]:
    if arguments.fleet:
        return _mappings(arguments.fleet)
    plane = observed_plane(arguments)
    return objects_of(plane) if plane is not None else ()


def observed_plane(arguments: argparse.Namespace) -> "RunningPlane | None":
    """The control plane of the fleet; None where the fleet is a file or the manifests."""
    if arguments.kubeconfig:
        from modelplane.cli.kubeconfig import read_kubeconfig

        return read_kubeconfig(arguments.kubeconfig)
    return None if arguments.offline or arguments.fleet else _plane(arguments)


def _plane(arguments: argparse.Namespace) -> "RunningPlane | None":
    from modelplane.cli.running import RunningPlane, chosen_data, default_data, foreign_kubeconfig, process_of

    chosen = chosen_data()
    if arguments.data is None and arguments.manifests:
        if chosen is None:
            return None
        if process_of(chosen) is None:
            print(f"no plane runs with the data folder {chosen}: the manifests are taken alone", file=sys.stderr)
            return None
    folder = Path(arguments.data) if arguments.data else chosen or default_data()
    elsewhere = foreign_kubeconfig()
    if arguments.data is None and chosen is None and elsewhere is not None and process_of(folder) is None:
        from modelplane.cli.kubeconfig import read_kubeconfig

        return read_kubeconfig(elsewhere)
    return RunningPlane.of(folder)


def objects_of(plane: "RunningPlane") -> Iterator[Mapping[str, object]]:
    """All objects that placement reads. Items of a list have no kind of their own."""
    from modelplane.views.inputs import KINDS

    for kind, plural in KINDS.items():
        for item in plane.items(plural):
            yield {**item, "apiVersion": API_VERSION, "kind": kind}


def add_edited_namespace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--namespace", default="default", help="of objects that name no namespace (default)")


def _reviewed(paths: Sequence[str], namespace: str) -> "FleetManifests":
    from modelplane.views.inputs import gather, in_namespace

    found = [document.value for document in reviewed_documents(paths) if isinstance(document.value, dict)]
    if not found:
        raise InputError(f"no manifest is in {', '.join(paths)}")
    return gather(in_namespace(item, namespace) for item in found)


def reviewed_documents(paths: Sequence[str | Path]) -> "list[Document]":
    """The documents of the paths. Those that an API server would refuse are refused, the first one by name."""
    from modelplane.cli.manifests import read_documents
    from modelplane.k8s.admission.references import Severity
    from modelplane.views.inputs import SNAPSHOT_KIND
    from modelplane.views.manifest_review import validate

    documents = read_documents(list(paths))
    found = validate([document for document in documents if not _is_of_kind(document.value, SNAPSHOT_KIND)])
    wrong = [finding for finding in found.findings if finding.severity is Severity.ERROR]
    if wrong:
        first = wrong[0]
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise InputError(
            f"{first.source}:{first.line}: {first.kind}/{first.name}: {first.problem}{more}; "
            f"`modelplane validate -f {' '.join(map(str, paths))}` shows all"
        )
    warnings = found.count(Severity.WARNING)
    if warnings:
        some = "1 warning" if warnings == 1 else f"{warnings} warnings"
        print(
            f"{some} about the manifests; `modelplane validate -f {' '.join(map(str, paths))}` shows them",
            file=sys.stderr,
        )
    return documents


def _mappings(path: str) -> list[dict[str, object]]:
    from modelplane.cli.manifests import read_documents

    return [document.value for document in read_documents([path]) if isinstance(document.value, dict)]


def _is_of_kind(value: object, kind: str) -> bool:
    return isinstance(value, dict) and value.get("kind") == kind


def print_value(value: object, output: str) -> None:
    import msgspec

    plain = msgspec.to_builtins(value)
    if output == "json":
        json.dump(plain, sys.stdout, indent=2, ensure_ascii=False)
        print()
        return
    from modelplane.k8s.yaml import to_yaml

    sys.stdout.write(to_yaml(plain))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    sys.stdout.write(table_text(header, rows))


def money(amount: float | None, currency: str) -> str:
    return "-" if amount is None else f"{amount:.2f} {currency}"


def seconds(amount: float | None) -> str:
    if amount is None:
        return "-"
    return f"{amount / 60:.0f}m" if amount >= 120 else f"{amount:.0f}s"  # noqa: PLR2004  two minutes read better as minutes
