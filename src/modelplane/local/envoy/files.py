"""The files that Envoy watches: clusters (cds), the route table (rds) and listeners (lds).

Each says which version it is, by a digest of what it holds, so that Envoy can be asked which one it runs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

import msgspec

from modelplane.local.envoy.routes import Resource

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


def table_file(table: Table, resources: Iterable[Resource]) -> TableFile:
    listed = list(resources)
    body = msgspec.json.encode(listed)
    version = blake2b(body, digest_size=8).hexdigest()
    content = b'{"version_info":"%b","resources":%b}' % (version.encode(), body)
    return TableFile(table, version, content, is_empty=not listed)
