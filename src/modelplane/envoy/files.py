"""The files that Envoy watches: clusters (cds), the route table (rds) and listeners (lds).

Each carries a version, the digest of its content, and Envoy's admin interface reports the version that it runs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import Literal

import msgspec

from modelplane.envoy.config import EnvoyConfig, XdsResource
from modelplane.envoy.view import Resource

XdsType = Literal["cds", "rds", "lds"]

# Relative to the directory that Envoy runs in, so that a configuration names no machine.
DIRECTORY = "xds"


@dataclass(frozen=True, slots=True)
class XdsFile:
    """One version of one xDS table. It shares its texts with the renderer: at fleet size a table takes megabytes."""

    table: XdsType
    version: str
    texts: tuple[bytes, ...]
    is_empty: bool

    def parts(self) -> Iterator[bytes]:
        """The parts of the file in order."""
        yield b'{"version_info":"%b","resources":' % self.version.encode()
        yield from self.texts
        yield b"}"

    @property
    def content(self) -> bytes:
        return b"".join(self.parts())


def file_name(table: XdsType) -> str:
    return f"{DIRECTORY}/{table}.json"


def config_source(table: XdsType) -> Resource:
    return {"resource_api_version": "V3", "path_config_source": {"path": file_name(table)}}


def table_file(table: XdsType, resources: Iterable[XdsResource]) -> XdsFile:
    listed = _listed([text_of(resource) for resource in resources])
    return _file(table, listed)


def route_file(config: EnvoyConfig) -> XdsFile:
    head = msgspec.json.encode(config.route_table())[:-1]
    hosts = _listed([text_of(host) for host in config.virtual_hosts.values()])
    return _file("rds", (b"[", head, b',"virtual_hosts":', *hosts, b"}", b"]"))


def text_of(resource: XdsResource) -> bytes:
    return resource if isinstance(resource, bytes) else msgspec.json.encode(resource)


def _listed(texts: list[bytes]) -> tuple[bytes, ...]:
    rest = chain.from_iterable((b",", text) for text in texts[1:])
    return (b"[", *texts[:1], *rest, b"]")


def _file(table: XdsType, texts: tuple[bytes, ...]) -> XdsFile:
    digest = blake2b(digest_size=8)
    for text in texts:
        digest.update(text)
    return XdsFile(table, digest.hexdigest(), texts, is_empty=texts == (b"[", b"]"))
