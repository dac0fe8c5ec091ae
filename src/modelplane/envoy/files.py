"""The files that Envoy watches: clusters (cds), the route table (rds) and listeners (lds).

Each says which version it is, by a digest of what it holds, so that Envoy can be asked which one it runs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import Literal

import msgspec

from modelplane.envoy.config import EnvoyConfig, XdsResource
from modelplane.envoy.view import Resource

Table = Literal["cds", "rds", "lds"]

# Relative to the directory that Envoy runs in, so that a configuration names no machine.
DIRECTORY = "xds"


@dataclass(frozen=True, slots=True)
class TableFile:
    """One version of one table. Its texts are shared with whoever made them: at fleet size a table takes megabytes."""

    table: Table
    version: str
    texts: tuple[bytes, ...]
    is_empty: bool

    def parts(self) -> Iterator[bytes]:
        """What the file consists of, from its beginning to its end."""
        yield b'{"version_info":"%b","resources":' % self.version.encode()
        yield from self.texts
        yield b"}"

    @property
    def content(self) -> bytes:
        return b"".join(self.parts())


def file_name(table: Table) -> str:
    return f"{DIRECTORY}/{table}.json"


def config_source(table: Table) -> Resource:
    return {"resource_api_version": "V3", "path_config_source": {"path": file_name(table)}}


def table_file(table: Table, resources: Iterable[XdsResource]) -> TableFile:
    listed = _listed([text_of(resource) for resource in resources])
    return _file(table, listed)


def route_file(config: EnvoyConfig) -> TableFile:
    head = msgspec.json.encode(config.route_table())[:-1]
    hosts = _listed([text_of(host) for host in config.virtual_hosts.values()])
    return _file("rds", (b"[", head, b',"virtual_hosts":', *hosts, b"}", b"]"))


def text_of(resource: XdsResource) -> bytes:
    return resource if isinstance(resource, bytes) else msgspec.json.encode(resource)


def _listed(texts: list[bytes]) -> tuple[bytes, ...]:
    rest = chain.from_iterable((b",", text) for text in texts[1:])
    return (b"[", *texts[:1], *rest, b"]")


def _file(table: Table, texts: tuple[bytes, ...]) -> TableFile:
    digest = blake2b(digest_size=8)
    for text in texts:
        digest.update(text)
    return TableFile(table, digest.hexdigest(), texts, is_empty=texts == (b"[", b"]"))
