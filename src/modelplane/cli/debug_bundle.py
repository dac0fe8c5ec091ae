"""`modelplane debug-bundle`: one archive with what an on-call engineer attaches to an issue.

Every member is masked as text after it was masked as an object. Secrets, ConfigMaps, kubeconfigs and what engines print
are never read: the first three have credentials, and the last one has prompts.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from modelplane.api.errors import InputError, ModelplaneError, NotFoundError
from modelplane.cli._formats import add_plane, plane_of
from modelplane.cli.version import PlaneVersion, plane_version, version_text

if TYPE_CHECKING:
    from modelplane.api.objects import Manifest
    from modelplane.cli.running import RunningPlane
    from modelplane.views.masking import CredentialMask

_EPILOG = """\
examples:
  modelplane debug-bundle                                 modelplane-debug.tar.gz in this folder
  modelplane debug-bundle -o /tmp/issue-17.tar.gz
  modelplane debug-bundle -n team                         what one team has, and the clusters
  modelplane debug-bundle --kubeconfig ~/.kube/config     of any control plane
  tar -xzOf modelplane-debug.tar.gz modelplane-debug/README.md

In it: versions, the objects of Modelplane as YAML by kind, events, what `status`, `top` and `trace` show, Envoy's logs
and the latest decisions of the fleet routers. Secrets and kubeconfigs are not read, nor is what engines print. Masked
are values of variables, arguments and fields whose names look like a credential, queries of URLs, annotations of other
tools and bodies of warm-up requests. Names and addresses are not: read it before you publish it.

What cannot be read is a line of its README.md and no failure. A file that is there is replaced; the new one has the
mode 0600.
"""
_FOLDER: Final = "modelplane-debug"
_TEAM_KINDS: Final = ("modeldeployments", "modelservices", "modelcaches", "modelendpoints")
_TREES: Final = ("ModelDeployment", "ModelService")
_LOGS: Final = ("envoy.log", "access.log")
_DECISIONS: Final = ("requests?limit=500", "endpoints")
_TAIL_BYTES: Final = 1 << 20
_READ_AS: Final = {
    "version.txt": "`modelplane version`",
    "status.txt": "`modelplane status -o wide`",
    "top.txt": "`modelplane top -o wide`",
    "trace.txt": "`modelplane trace` of every deployment and service",
    "events.yaml": "events, the newest last",
    "objects/": "objects by kind",
    "logs/": "the last MiB of Envoy's logs",
    "routers/": "what the fleet routers decided last, and their endpoints",
}
_UNKNOWN: Final = PlaneVersion()
_Found = TypeVar("_Found")


class BundleFile(NamedTuple):
    path: str
    text: str


@dataclass(slots=True)
class BundleReader:
    """Reads parts of a plane, and keeps why one could not be read."""

    missing: list[str] = field(default_factory=list)

    def attempt(self, what: str, read: Callable[[], _Found]) -> _Found | None:
        from http.client import HTTPException

        try:
            return read()
        except (ModelplaneError, OSError, ValueError, HTTPException) as error:
            self.missing.append(f"{what}: {error}")
        return None


@dataclass(frozen=True, slots=True)
class PlaneState:
    """What a control plane holds, read once, so that all texts are of the same time."""

    version: PlaneVersion = _UNKNOWN
    objects: "Mapping[str, Sequence[Manifest]]" = field(default_factory=dict)
    """By plural and group, each sorted by namespace and name."""
    events: "Sequence[Manifest]" = ()

    def items(self, plural: str) -> "Sequence[Manifest]":
        from modelplane.api.objects import GROUP

        return self.objects.get(f"{plural}.{GROUP}", ())


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Writes what an issue needs into one archive, without credentials and prompts."
    parser.epilog = _EPILOG
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", default=Path(f"{_FOLDER}.tar.gz"),
        help=f"the archive ({_FOLDER}.tar.gz)",
    )  # fmt: skip
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-n", "--namespace", default="", help="what is in one namespace, and what has none (all)")
    which.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces, as without it")
    add_plane(parser)


def run(arguments: argparse.Namespace) -> int:
    reader = BundleReader()
    plane = _plane(arguments, reader)
    data = arguments.data if arguments.kubeconfig is None else None
    files = bundle_files(plane, data, reader, now_s=time.time(), namespace=arguments.namespace)
    size = write_archive(arguments.output, files)
    print(f"{arguments.output}: {len(files)} files, {_shown_size(size)}")
    if reader.missing:
        print(f"parts that were not read: {len(reader.missing)}; its README.md says why", file=sys.stderr)
    return 0


def _plane(arguments: argparse.Namespace, reader: BundleReader) -> "RunningPlane | None":
    """None where the plane of a data folder has stopped, of which the logs are left."""
    try:
        return plane_of(arguments)
    except NotFoundError as error:
        if not (arguments.data / "plane.db").is_file():
            raise
        reader.missing.append(f"objects and events: {error}")
        return None


def bundle_files(
    plane: "RunningPlane | None", data: Path | None, reader: BundleReader, *, now_s: float, namespace: str = ""
) -> list[BundleFile]:
    """Masked, in the order of their paths, with the README first."""
    from modelplane.views.masking import CredentialMask

    state = read_state(plane, reader, namespace) if plane is not None else PlaneState()
    mask = CredentialMask.of(item for items in state.objects.values() for item in items)
    found = [*_texts(state, reader, now_s), *_objects(state, mask)]
    if namespace:
        if not any(map(state.items, _TEAM_KINDS)):
            reader.missing.append(f"namespace {namespace}: nothing of Modelplane is in it")
        reader.missing.append(f"logs and routers: they are of all namespaces, and this bundle is of {namespace}")
    else:
        found += [*_logs(data, reader), *_decisions(data, reader)]
    masked = sorted(BundleFile(file.path, mask.text(file.text)) for file in found)
    return [BundleFile("README.md", mask.text(_readme(masked, reader.missing, now_s))), *masked]


def read_state(plane: "RunningPlane", reader: BundleReader, namespace: str = "") -> PlaneState:
    """Kinds without a namespace are read for one as well, as far as one may.

    A control plane that does not answer at all is not read kind by kind: each would take its time to fail.
    """
    from modelplane.api.definitions import definitions
    from modelplane.cli._objects import ApiResource, PlaneObjects
    from modelplane.cli.events import EVENTS
    from modelplane.views.events import last_seen

    version = plane_version(plane)
    if not version.kubernetes:
        reader.missing.append(f"objects and events: {version.why}")
        return PlaneState(version)
    objects = PlaneObjects(plane)
    found = {}
    for each in definitions().values():
        resource = ApiResource(each.api_version, each.kind, each.plural, each.namespaced)
        items = reader.attempt(f"{each.plural}.{each.group}", partial(objects.list, resource, namespace))
        found[f"{each.plural}.{each.group}"] = sorted(items or (), key=_place)
    events = reader.attempt("events", lambda: objects.list(EVENTS, namespace))
    return PlaneState(version, found, sorted(events or (), key=last_seen))


def _place(item: "Manifest") -> tuple[str, str]:
    from modelplane.api.objects import name_of, namespace_of

    return namespace_of(item), name_of(item)


def _texts(state: PlaneState, reader: BundleReader, now_s: float) -> Iterator[BundleFile]:
    yield BundleFile("version.txt", version_text(state.version, "text"))
    if not state.objects:
        return
    views: Mapping[str, Callable[[], str]] = {
        "status.txt": partial(_status, state),
        "top.txt": partial(_top, state, now_s),
        "trace.txt": partial(_trace, state),
    }
    for path, view in views.items():
        text = reader.attempt(path, partial(_without_colours, view))
        if text is not None:
            yield BundleFile(path, text)


def _without_colours(view: Callable[[], str]) -> str:
    """Tables are coloured for the terminal that standard output is."""
    from contextlib import redirect_stdout
    from io import StringIO

    with redirect_stdout(StringIO()):
        return view()


def _status(state: PlaneState) -> str:
    from modelplane.cli.status import overview_text
    from modelplane.views.overview import overview

    found = overview(
        clusters=state.items("inferenceclusters"),
        deployments=state.items("modeldeployments"),
        replicas=state.items("modelreplicas"),
        services=state.items("modelservices"),
        caches=state.items("modelcaches"),
    )
    return overview_text(found, wide=True)


def _top(state: PlaneState, now_s: float) -> str:
    from modelplane.cli.top import load_text
    from modelplane.views.fleet_load import fleet_load
    from modelplane.views.inputs import KINDS, gather
    from modelplane.views.service_load import service_loads

    inputs = gather((item for plural in KINDS.values() for item in state.items(plural)), now=now_s)
    endpoints = state.items("modelendpoints")
    services = service_loads(inputs, state.items("modelservices"), endpoints, {})
    return load_text(fleet_load(inputs, endpoints), services, "wide")


def _trace(state: PlaneState) -> str:
    from modelplane.api.objects import text_at
    from modelplane.cli.trace import tree_text
    from modelplane.views.object_tree import TREE_KINDS, TracedObjects

    items = [item for found in state.objects.values() for item in found if item.get("kind") in TREE_KINDS]
    traced = TracedObjects.of(items)
    roots = (item for kind in _TREES for item in items if item.get("kind") == kind)
    trees = (traced.tree(text_at(item, "kind"), *_place(item)) for item in roots)
    return "\n".join(f"# namespace {tree.namespace}\n{tree_text(tree, 'text')}" for tree in trees)


def _objects(state: PlaneState, mask: "CredentialMask") -> Iterator[BundleFile]:
    from modelplane.k8s.yaml import to_yaml_documents

    for kind, items in state.objects.items():
        if items:
            yield BundleFile(f"objects/{kind}.yaml", to_yaml_documents(mask.item(item) for item in items))
    if state.events:
        yield BundleFile("events.yaml", to_yaml_documents(mask.item(event) for event in state.events))


def _logs(data: Path | None, reader: BundleReader) -> Iterator[BundleFile]:
    if data is None:
        reader.missing.append("logs: those of a control plane on Kubernetes are its pods'; `kubectl logs` shows them")
        return
    for name in _LOGS:
        text = reader.attempt(f"logs/{name}", partial(_tail, data / "envoy" / name))
        if text is not None:
            yield BundleFile(f"logs/{name}", text)


def _tail(path: Path) -> str:
    """Whole lines."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        found = file.read().decode(errors="replace")
    return found if size <= _TAIL_BYTES else found.partition("\n")[2]


def _decisions(data: Path | None, reader: BundleReader) -> Iterator[BundleFile]:
    from modelplane.cli._routers import fetch, router_urls

    if data is None:
        reader.missing.append("routers: a kubeconfig does not say where their side doors are")
        return
    routers = router_urls(data)
    if not routers:
        reader.missing.append("routers: none runs with the data folder")
    for number, router in enumerate(routers, 1):
        for query in _DECISIONS:
            path = f"routers/{number}-{query.partition('?')[0]}.json"
            body = reader.attempt(path, partial(fetch, router, f"/{query}"))
            if body is not None:
                yield BundleFile(path, body.decode(errors="replace"))


def _readme(files: Sequence[BundleFile], missing: Sequence[str], now_s: float) -> str:
    from modelplane.api.timestamps import timestamp
    from modelplane.api.version import __version__

    written = f"Written by `modelplane debug-bundle` {__version__} at {timestamp(now_s)}.\n"
    there = {file.path.partition("/")[0] + ("/" if "/" in file.path else "") for file in files}
    lines = [f"- {path}: {what}" for path, what in _READ_AS.items() if path in there]
    faults = [f"- {' '.join(line.split())}" for line in missing] or ["Everything was read."]
    parts = ("# Debug bundle\n", written, *lines, "\nWhat looks like a credential is `<masked>`.", "\n## Not read\n")
    return "\n".join([*parts, *faults, ""])


def write_archive(path: Path, files: Sequence[BundleFile]) -> int:
    """Its size. Equal files give equal bytes; a reader sees the whole archive or none."""
    import os
    import tempfile

    if not path.parent.is_dir():
        raise InputError(f"{path}: {path.parent} is no folder")
    handle, fresh = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(archive_bytes(files))
        Path(fresh).replace(path)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise
    return path.stat().st_size


def archive_bytes(files: Sequence[BundleFile]) -> bytes:
    import gzip
    import tarfile
    from io import BytesIO

    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in files:
            body = file.text.encode(errors="replace")
            entry = tarfile.TarInfo(f"{_FOLDER}/{file.path}")
            entry.size, entry.mode = len(body), 0o600
            archive.addfile(entry, BytesIO(body))
    return gzip.compress(packed.getvalue(), mtime=0)


def _shown_size(size: int) -> str:
    return f"{size} bytes" if size < 1024 else f"{size / 1024:.1f} KiB"  # noqa: PLR2004  a KiB
