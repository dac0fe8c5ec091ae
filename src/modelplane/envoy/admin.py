"""Envoy's admin interface: readiness, and the version of each xDS table."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from modelplane.envoy.files import XdsType
from modelplane.envoy.listeners import ROUTES_NAME, STAT_PREFIX

_ANSWER_S = 2.0
_LIVE = "0"

_SCOPES: dict[str, XdsType] = {
    "cluster_manager.cds": "cds",
    f"http.{STAT_PREFIX}.rds.{ROUTES_NAME}": "rds",
    "listener_manager.lds": "lds",
}
_FILTER = "^(?:{}|{}|{})$".format(
    "(?:{})[.](?:version_text|update_rejected|update_failure)".format("|".join(map(re.escape, _SCOPES))),
    "server[.]state",
    "listener_manager[.]total_listeners_warming",
)
_IN_FLIGHT = f"http.{STAT_PREFIX}.downstream_rq_active"
_STAT = re.compile(r'(?P<scope>.+)\.(?P<name>\w+): "?(?P<value>[^"]*)"?')

_REFUSED = "Filesystem config update rejected: "
_LOG_LINE = re.compile(r"^\[\d{4}-\d\d-\d\d [^]]*\]\[\w+\]\[[^]]*\] ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class XdsState:
    """One table as Envoy runs it; `refusals` counts rejected updates."""

    version: str = ""
    refusals: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """Envoy's state. It is `ready` when it has started and no listener waits for its routes."""

    tables: Mapping[XdsType, XdsState] = field(default_factory=dict)
    ready: bool = False

    def version(self, table: XdsType) -> str:
        return self.tables.get(table, _UNKNOWN).version

    def refusals(self, table: XdsType) -> int:
        return self.tables.get(table, _UNKNOWN).refusals


_UNKNOWN = XdsState()


class Admin:
    """A client of the admin interface."""

    def __init__(self, socket: Path) -> None:
        connector = aiohttp.UnixConnector(str(socket))
        timeout = aiohttp.ClientTimeout(total=_ANSWER_S)
        self._session = aiohttp.ClientSession("http://envoy", connector=connector, timeout=timeout)

    async def close(self) -> None:
        await self._session.close()

    async def close_listeners(self) -> None:
        """Close Envoy's listeners; open connections stay."""
        async with self._session.post("/drain_listeners") as answer:
            answer.raise_for_status()

    async def reopen_logs(self) -> None:
        """Make Envoy reopen its log files by name."""
        async with self._session.post("/reopen_logs") as answer:
            answer.raise_for_status()

    async def requests_in_flight(self) -> int:
        async with self._session.get("/stats", params={"filter": f"^{re.escape(_IN_FLIGHT)}$"}) as answer:
            return int((await answer.text()).rpartition(":")[2].strip() or "0")

    async def report(self) -> Report:
        async with self._session.get("/stats", params={"filter": _FILTER}) as answer:
            return read_report(await answer.text())


def read_report(stats: str) -> Report:
    """Envoy's statistics, as far as they concern us."""
    values: dict[str, dict[str, str]] = defaultdict(dict)
    for found in filter(None, map(_STAT.fullmatch, stats.splitlines())):
        values[found["scope"]][found["name"]] = found["value"]
    tables = {table: _state(values[scope]) for scope, table in _SCOPES.items() if scope in values}
    return Report(tables, ready=values["server"].get("state") == _LIVE and _none_warming(values))


def _none_warming(values: Mapping[str, Mapping[str, str]]) -> bool:
    return values["listener_manager"].get("total_listeners_warming") == "0"


def _state(named: dict[str, str]) -> XdsState:
    refusals = sum(int(named.get(name, "0")) for name in ("update_rejected", "update_failure"))
    return XdsState(named.get("version_text", ""), refusals)


def refusal_reason(log: str) -> str:
    """The reason of the last rejected update, from Envoy's log."""
    _, found, rest = log.rpartition(_REFUSED)
    if not found:
        return "Envoy gave no reason"
    entry = _LOG_LINE.split(rest, maxsplit=1)[0]
    # For a broken rule Envoy prints the whole resource first and the reason after it.
    return " ".join(entry.rpartition("\n: ")[2].split())


def last_log_lines(log: str) -> str:
    """The first line of the highest severity in Envoy's log, or its last line."""
    lines = [line for line in log.splitlines() if line.strip()]
    severe = [line for line in lines if "][critical][" in line]
    chosen = severe[0] if severe else lines[-1] if lines else "its log is empty"
    return _LOG_LINE.sub("", chosen)
