"""A gateway's proxy: a real Envoy under the lab's supervisor, programmed by files that it watches.

Clusters are written first and go last, so that no route ever names one that is not there. What Envoy made of the files
it says itself, by the version of each that it runs.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING

import aiohttp

from lab.cluster import LOOPBACK, answers
from lab.envoy_resources import STAT_PREFIX
from lab.supervisor import Program
from modelplane.envoy.bootstrap import packaged_binary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from lab.cluster import Cluster
    from lab.envoy_resources import Json
    from lab.routing import Tables
    from lab.supervisor import Supervisor

ACCESS_LOG = "access.log"

_TABLES = {"cds": "cluster_manager.cds.version_text", "lds": "listener_manager.lds.version_text"}
"""And one of routes for each Gateway."""
_VERSION = re.compile(r'^(\S+version_text): "([^"]*)"$', re.MULTILINE)
_TIMEOUT_S = 2.0


class Proxy:
    """One cluster's. Nothing runs before `start`."""

    def __init__(self, supervisor: Supervisor, cluster: Cluster) -> None:
        """Keeps its files in a folder of the cluster's."""
        self._supervisor = supervisor
        self._cluster = cluster
        self._folder = cluster.folder / "envoy"
        self._admin = f"http://{LOOPBACK}:{cluster.ports.proxy}"
        self._versions = f"{self._admin}/stats?filter=version_text$"
        self._written: dict[str, str] = {}
        self._clusters: Mapping[str, Json] = {}
        self._routes: tuple[str, ...] = ()
        self.started = False

    @property
    def access_log(self) -> Path:
        return self._folder / ACCESS_LOG

    async def start(self) -> None:
        """Returns when it answers; without listeners so far."""
        self._folder.mkdir(parents=True, exist_ok=True)
        bootstrap = self._folder / "bootstrap.json"
        bootstrap.write_text(json.dumps(self._bootstrap()))
        for table in _TABLES:
            self._write(table, [])
        arguments = ("--concurrency", "1", "--disable-hot-restart", "--log-level", "warn", "--drain-time-s", "5")
        command = (str(packaged_binary()), "-c", str(bootstrap), *arguments, "--file-flush-interval-msec", "200")
        await self._supervisor.start(Program(self._cluster.program("envoy"), command, answers(f"{self._admin}/ready")))
        self.started = True

    def program(self, tables: Tables) -> None:
        """Have Envoy run these tables. Clusters that are no longer named stay until the next call."""
        self._write("cds", ({**self._clusters, **tables.clusters}).values())
        for name, routes in tables.routes.items():
            self._write(name, [routes])
        self._write("lds", tables.listeners)
        self._clusters, self._routes = tables.clusters, tuple(tables.routes)

    async def taken(self) -> bool:
        """Whether Envoy runs what was written last."""
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(self._versions) as answer:
                running = dict(_VERSION.findall(await answer.text()))
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False
        routes = {name: f"http.{STAT_PREFIX}.rds.{name}.version_text" for name in self._routes}
        return all(running.get(stat) == self._written[table] for table, stat in (_TABLES | routes).items())

    def _write(self, table: str, resources: Iterable[Json]) -> None:
        """In one step: Envoy looks at a file when it is moved into place."""
        listed = list(resources)
        version = hashlib.sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()[:12]
        if self._written.get(table) == version:
            return
        path = self._folder / f"{table}.json"
        unfinished = path.with_suffix(".new")
        unfinished.write_text(json.dumps({"version_info": version, "resources": listed}))
        unfinished.replace(path)
        self._written[table] = version

    def source(self, table: str) -> Json:
        return {"resource_api_version": "V3", "path_config_source": {"path": str(self._folder / f"{table}.json")}}

    def _bootstrap(self) -> Json:
        return {
            "node": {"id": self._cluster.name, "cluster": self._cluster.name},
            "admin": {"address": {"socket_address": {"address": LOOPBACK, "port_value": self._cluster.ports.proxy}}},
            "dynamic_resources": {"lds_config": self.source("lds"), "cds_config": self.source("cds")},
        }
