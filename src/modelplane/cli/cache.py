"""`modelplane cache`: where caches are staged, how far that is, and to stage them somewhere now."""

import argparse
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError, NotFoundError
from modelplane.api.labels import RETRY, WARM
from modelplane.api.names import is_dns_label
from modelplane.api.objects import name_of
from modelplane.api.timestamps import timestamp
from modelplane.cli._formats import add_formats, add_plane, data_text, names_text, plane_of, table_text
from modelplane.cli._near import near_name, note_empty_namespace
from modelplane.cli._objects import CACHES, PlaneObjects
from modelplane.cli._shown import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from modelplane.cli.running import RunningPlane
    from modelplane.views.caches import CacheRow

_EPILOG = """\
examples:
  modelplane cache list                        every cache: its source, where it is staged, how far the slowest is
  modelplane cache show qwen3-8b               by cluster: bytes, rate, time left, digest, and why it waits
  modelplane cache show qwen3-8b --watch       until every cluster holds it; exit code 1 when one failed
  modelplane cache warm qwen3-8b --on east     stage it on a cluster before replicas need it
  modelplane cache warm qwen3-8b               try failed stagings again now
  modelplane cache list -n team --kubeconfig ~/.kube/config

`warm` sets the annotations modelplane.ai/warm and modelplane.ai/retry of the ModelCache.
"""
_POLL_S = 1.0
_FAILED = 1
_NOTHING = "\nno ModelCache is here; docs/caches.md shows how weights are staged before engines start\n"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows ModelCaches and stages them."
    parser.epilog = _EPILOG
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, title="verbs")
    listed = verbs.add_parser("list", help="every cache")
    which = listed.add_mutually_exclusive_group()
    which.add_argument("-n", "--namespace", default="", help="one namespace (all)")
    which.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces, as without it")
    shown = verbs.add_parser("show", help="one cache, by cluster")
    shown.add_argument("-w", "--watch", action="store_true", help="until every cluster holds it, or one failed")
    shown.add_argument("--timeout", type=float, default=None, metavar="S", help="how long to watch (no limit)")
    warm = verbs.add_parser("warm", help="stage a cache somewhere, or try again")
    warm.add_argument("--on", action="append", default=[], metavar="CLUSTER", help="a cluster; may be repeated")
    for verb in (shown, warm):
        verb.add_argument("name", help="name of the ModelCache")
        verb.add_argument("-n", "--namespace", default="default", help="its namespace (default)")
    for verb in (listed, shown):
        add_formats(verb)
    for verb in (listed, shown, warm):
        add_plane(verb)


def run(arguments: argparse.Namespace) -> int:
    plane = plane_of(arguments)
    match arguments.verb:
        case "list":
            return _list(plane, arguments)
        case "show":
            return _show(plane, arguments)
        case _:
            return _warm(plane, arguments)


def _rows(caches: "Iterable[Mapping[str, object]]") -> "Sequence[CacheRow]":
    from modelplane.views.caches import cache_rows

    return cache_rows(caches)


def _list(plane: "RunningPlane", arguments: argparse.Namespace) -> int:
    found = _rows(plane.items("modelcaches"))
    rows = [row for row in found if arguments.namespace in {"", row.namespace}]
    print(_listed(rows, arguments.output), end="")
    note_empty_namespace(arguments.namespace, {row.namespace for row in found})
    return 0


def _listed(rows: "Sequence[CacheRow]", output: str) -> str:
    if output in {"json", "yaml"}:
        return data_text([asdict(row) for row in rows], output)
    if output == "name":
        return names_text("modelcache", (row.name for row in rows))
    header = ("CACHE", "HEALTH", "ARTIFACT", "SOURCE", "STAGED", "PROGRESS", "REPLICAS", "WHY")
    shown = table_text(header, [_cells(row) for row in rows]) + ("" if rows else _NOTHING)
    return shown if output == "text" else "\n".join([shown, *(_by_cluster(row) for row in rows)])


def _cells(row: "CacheRow") -> "Sequence[str]":
    rest = (row.staged, row.progress or "-", str(row.references), row.health.why)
    return (f"{row.namespace}/{row.name}", row.health.state, row.artifact, row.source, *rest)


def _show(plane: "RunningPlane", arguments: argparse.Namespace) -> int:
    ends = None if arguments.timeout is None else time.monotonic() + arguments.timeout
    printed: object = None
    while True:
        (row,) = _rows([_get(plane, arguments)])
        if row != printed:
            print(_shown(row, arguments.output), flush=True)
            printed = row
        failed = any(cluster.phase == "Failed" for cluster in row.clusters)
        ready = bool(row.clusters) and all(cluster.phase == "Ready" for cluster in row.clusters)
        if not arguments.watch or failed or ready:
            return _FAILED if failed else 0
        if ends is not None and time.monotonic() >= ends:
            return _FAILED
        time.sleep(_POLL_S)


def _shown(row: "CacheRow", output: str) -> str:
    if output in {"json", "yaml"}:
        return data_text(asdict(row), output).rstrip("\n")
    return names_text("modelcache", [row.name]).rstrip("\n") if output == "name" else _by_cluster(row)


def _by_cluster(row: "CacheRow") -> str:
    header = ("CLUSTER", "PHASE", "STAGED", "RATE", "LEFT", "REPLICAS", "DIGEST", "WHY")
    rows = [
        (c.cluster, c.phase, c.progress, c.rate, seconds(c.eta_s), str(c.references), c.digest[:12], c.why)
        for c in row.clusters
    ]
    title = f"{row.namespace}/{row.name}  {row.artifact} from {row.source}, staged on {row.staged or '0/0'} clusters"
    return f"{title}\n{table_text(header, rows)}"


def _warm(plane: "RunningPlane", arguments: argparse.Namespace) -> int:
    known = [name_of(item) for item in plane.items("inferenceclusters")] if arguments.on else []
    unknown = next((name for name in arguments.on if name not in known), None)
    if unknown is not None:
        raise NotFoundError(f"InferenceCluster {unknown} does not exist{near_name(unknown, known)}")
    cache = _get(plane, arguments)
    (row,) = _rows([cache])
    patch = warm_patch(cache, arguments.on, time.time())
    PlaneObjects(plane).patch(CACHES, row.namespace, row.name, patch)
    print(warmed(row.namespace, row.name, arguments.on))
    return 0


def warmed(namespace: str, name: str, clusters: list[str]) -> str:
    """What was begun, and the command that shows how far it is."""
    done = f"is being staged on {', '.join(clusters)}" if clusters else "is tried again where it failed"
    where = "" if namespace == "default" else f" -n {namespace}"
    return f"{namespace}/{name} {done}; `modelplane cache show {name}{where} --watch` shows how far it is."


def warm_patch(cache: Mapping[str, object], clusters: list[str], now: float) -> dict[str, object]:
    """The merge patch that adds clusters, and starts failed stagings again."""
    metadata = cache.get("metadata")
    known = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    before = str(known.get(WARM, "")) if isinstance(known, Mapping) else ""
    names = dict.fromkeys([*(name.strip() for name in before.split(",") if name.strip()), *clusters])
    annotations = {RETRY: timestamp(now), **({WARM: ",".join(names)} if clusters else {})}
    return {"metadata": {"annotations": annotations}}


def _get(plane: "RunningPlane", arguments: argparse.Namespace) -> dict[str, object]:
    if not is_dns_label(arguments.name):
        raise InputError(f"{arguments.name!r} is not the name of a ModelCache")
    return PlaneObjects(plane).get(CACHES, arguments.namespace, arguments.name)
