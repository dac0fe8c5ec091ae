"""The files that Envoy watches: clusters (cds), the route table (rds) and listeners (lds).

Each says which version it is, by a digest of what it holds, so that Envoy can be asked which one it runs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

import msgspec

from modelplane.local.envoy.config import EnvoyConfig
from modelplane.local.envoy.view import Resource

Table = Literal["cds", "rds", "lds"]

# Relative to the directory that Envoy runs in, so that a configuration names no machine.
DIRECTORY = "xds"


@dataclass(frozen=True, slots=True)
class TableFile:
    """One version of one table."""

    table: Table
    version: str
    content: bytes
    is_empty: bool


def file_name(table: Table) -> str:
    return f"{DIRECTORY}/{table}.json"


def config_source(table: Table) -> Resource:
    return {"resource_api_version": "V3", "path_config_source": {"path": file_name(table)}}


class Pieces:
    """Resources as text. What was written out for the last configuration is not written out again for the next."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Resource, msgspec.Raw]] = {}

    def of(self, resource: Resource) -> msgspec.Raw:
        known = self._known.get(id(resource))
        if known is None or known[0] is not resource:
            known = self._known[id(resource)] = (resource, msgspec.Raw(msgspec.json.encode(resource)))
        return known[1]

    def forget_all_but(self, resources: Iterable[Resource]) -> None:
        self._known = {id(resource): (resource, self.of(resource)) for resource in resources}


def table_file(table: Table, resources: Iterable[Resource], pieces: Pieces | None = None) -> TableFile:
    texts = pieces or Pieces()
    return _file(table, [texts.of(resource) for resource in resources])


def route_file(config: EnvoyConfig, pieces: Pieces | None = None) -> TableFile:
    texts = pieces or Pieces()
    hosts = [texts.of(host) for host in config.virtual_hosts.values()]
    return _file("rds", [msgspec.Raw(msgspec.json.encode({**config.route_table(), "virtual_hosts": hosts}))])


def _file(table: Table, listed: list[msgspec.Raw]) -> TableFile:
    body = msgspec.json.encode(listed)
    version = blake2b(body, digest_size=8).hexdigest()
    content = b'{"version_info":"%b","resources":%b}' % (version.encode(), body)
    return TableFile(table, version, content, is_empty=not listed)
