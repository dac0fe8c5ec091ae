"""A file of endpoints: for pools without Kubernetes.

The ecosystem's form is read as it is:

    endpoints:
    - name: vllm-0               # unique in its namespace
      namespace: default         # "default" when left out
      address: 10.0.0.1
      port: "8000"
      labels: {llm-d.ai/role: decode}

A little more is understood: IPv6 addresses and host names, ports as numbers, `ports` with several of them (one endpoint
each, named with its port), and `attributes`, numbers that plugins can read (`price-per-hour`, …).

The file is read again when it changes. If it cannot be read, the pool is kept; if an entry is invalid, its endpoints
are kept and the other entries are applied. `problem` names the error and its line.
"""

import asyncio
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from os import stat_result
from pathlib import Path

import msgspec

from modelplane.api.errors import InputError
from modelplane.api.names import is_dns_subdomain
from modelplane.epp.datalayer.discovery.datastore import Datastore, DiscoveredEndpoint, address_of
from modelplane.epp.datalayer.discovery.files import documents_of, read_file
from modelplane.epp.datalayer.tasks import cancel_all
from modelplane.epp.scheduling.endpoints import NOTHING
from modelplane.k8s.admission.layout import Document
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

_log = logging.getLogger(__name__)

_MOST_PORT = 65_535
_PORT = re.compile(r"[0-9]{1,5}")
_PORTS_MOST = 8
_SHOWN_PROBLEMS = 3


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    address: str
    namespace: str = "default"
    port: str | int | None = None
    ports: tuple[str | int, ...] = ()
    labels: Mapping[str, str] = NOTHING
    attributes: Mapping[str, float] = msgspec.field(default_factory=dict)


class EndpointsDocument(msgspec.Struct, frozen=True):
    """The endpoints of a text by entry, and its problems."""

    entries: Mapping[str, tuple[DiscoveredEndpoint, ...]]
    wrong: Mapping[str, str]
    """By the name of the entry, or by its place where it has none."""


def read_endpoints(text: bytes, source: str) -> EndpointsDocument:
    """InputError where nothing of the file can be used."""
    documents = documents_of(text, source)
    if len(documents) != 1:
        raise InputError(f"{source}: expected one document, found {len(documents)}")
    value = documents[0].value
    entries = value.get("endpoints") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(entries, list) or len(value) != 1:
        raise InputError(f"{source}: must have the field endpoints, a list, and no other")
    return _listed(documents[0], entries, source)


def _listed(document: Document, entries: Sequence[object], source: str) -> EndpointsDocument:
    found: dict[str, tuple[DiscoveredEndpoint, ...]] = {}
    wrong: dict[str, str] = {}
    for at, raw in enumerate(entries):
        place = f"{source}:{document.line_of(('endpoints', at))}: endpoints[{at}]"
        try:
            entry = msgspec.convert(raw, _Entry)
            name = f"{entry.namespace}/{entry.name}"
            endpoints = tuple(_found(entry, name))
        except (msgspec.ValidationError, ValueError) as broken:
            wrong[_name(raw) or place] = f"{place}: {broken}"
            continue
        if found.setdefault(name, endpoints) is not endpoints:
            wrong[place] = f"{place}: {name} is listed twice"
    return EndpointsDocument(found, wrong)


def _found(entry: _Entry, name: str) -> Iterator[DiscoveredEndpoint]:
    host = entry.address.strip("[]")
    if not _is_host(host):
        raise ValueError(f"address: {entry.address!r} is neither an IP address nor a host name")
    if (entry.port is None) == (not entry.ports) or len(entry.ports) > _PORTS_MOST or not entry.name:
        raise ValueError(f"needs a name, and either a port or 1 to {_PORTS_MOST} ports")
    several = len(entry.ports) > 1
    for written in entry.ports or (entry.port,):
        port = _port(written)
        shown = f"{name}:{port}" if several else name
        yield DiscoveredEndpoint(shown, address_of(host, port), "", entry.labels, entry.attributes)


def _port(written: object) -> int:
    text = str(written)
    if _PORT.fullmatch(text) is None or not 0 < int(text) <= _MOST_PORT:
        raise ValueError(f"port: {written!r} is not in 1 to {_MOST_PORT}")
    return int(text)


def _is_host(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return is_dns_subdomain(host.lower()) and not host.replace(".", "").isdecimal()
    return True


def _name(raw: object) -> str:
    if not isinstance(raw, dict) or not isinstance(raw.get("name"), str):
        return ""
    return f"{raw.get('namespace', 'default')}/{raw['name']}"


class FileEndpoints(Datastore):
    """The endpoints of a file, as the file is. An `EndpointSource`."""

    def __init__(self, path: Path, *, watch: bool = True, every_s: float = 1.0) -> None:
        super().__init__()
        self._path = path
        self._watch = watch
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None
        self._mark: tuple[int, int, int] | None = None
        self._entries: dict[str, tuple[DiscoveredEndpoint, ...]] = {}
        self.known = False
        self.problem = ""
        """The problem of the file in one sentence; empty: none."""

    async def start(self) -> None:
        await self._read_once()
        if self._watch and self._task is None:
            self._task = asyncio.create_task(self._poll())

    async def stop(self) -> None:
        task, self._task = self._task, None
        await cancel_all([task])

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            await self._read_once()

    async def _read_once(self) -> None:
        """Read the file if it is another one than last time."""
        try:
            mark = _mark(await asyncio.to_thread(self._path.stat))
            if mark == self._mark:
                return
            listed = read_endpoints(await asyncio.to_thread(read_file, self._path), self._path.name)
        except (OSError, InputError) as broken:
            self._note(f"{self._path.name}: {broken.strerror}" if isinstance(broken, OSError) else str(broken))
            return
        self._mark = mark
        self._take(listed)

    def _take(self, listed: EndpointsDocument) -> None:
        kept = {name: self._entries[name] for name in listed.wrong if name in self._entries}
        self._entries = {**listed.entries, **{name: kept[name] for name in kept if name not in listed.entries}}
        self.known = True
        self._note("; ".join(list(listed.wrong.values())[:_SHOWN_PROBLEMS]))
        self.replace(one for found in self._entries.values() for one in found)

    def _note(self, problem: str) -> None:
        if problem and problem != self.problem:
            _log.warning("kept the previous endpoints: %s", problem, extra=because(LogReason.ENDPOINTS_INVALID))
        self.problem = problem


def _mark(stat: stat_result) -> tuple[int, int, int]:
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
