"""The Envoy process: started, changed by files, watched, stopped, and never left behind.

A change is written file by file in the order of `plan`; Envoy must run each before the next is written. If Envoy
rejects one or exceeds the time limit, the files are rolled back, so that the disk, Envoy and this object agree again,
and the caller gets Envoy's reason.
"""

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from modelplane.envoy.admin import Admin, Report, last_log_lines, refusal_reason
from modelplane.envoy.bootstrap import command
from modelplane.envoy.config import EMPTY, EnvoyConfig, SocketAddress
from modelplane.envoy.errors import ConfigRefusedError, EnvoyFailedError
from modelplane.envoy.files import XdsFile, XdsType
from modelplane.envoy.plan import final_files, plan
from modelplane.envoy.storage import Storage

_LISTENERS: tuple[XdsType, ...] = ("lds", "rds")
_ALL_TABLES: tuple[XdsType, ...] = ("cds", *_LISTENERS)

_FIRST_POLL_S = 0.001
_SLOWEST_POLL_S = 0.02
# How long removed listeners may still accept connections. Another process may listen there by then.
_RELEASE_S = 2.0
# Extra time per resource of a large table: Envoy reads a table whole, on a busy machine.
_MORE_S = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvoySettings:
    """How many worker threads to run, how long to wait, and whose Envoy; the installed package's unless named.

    apply_s: for a small table; large ones may take longer in proportion.
    drain_s: how long a stop waits for requests in flight.
    log_bytes: the size at which the access log is rotated; one old log is kept.
    """

    workers: int = 1
    binary: Path | None = None
    start_s: float = 30.0
    apply_s: float = 60.0
    drain_s: float = 5.0
    stop_s: float = 3.0
    log_bytes: int = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ConfigApplied:
    """Envoy runs the configuration. `updates` is how many files that took: none when nothing differed."""

    updates: int
    took_ms: float


class EnvoyProcess:
    """One Envoy that keeps its files and logs in `directory`. Used from one event loop."""

    def __init__(self, directory: Path, settings: EnvoySettings | None = None) -> None:
        self._settings = settings or EnvoySettings()
        self._storage = Storage(directory)
        self._changing = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._admin: Admin | None = None
        self._running = EMPTY
        self._on_disk: dict[XdsType, XdsFile] = {}
        self._seen = Report()
        self._drained = False

    @property
    def pid(self) -> int | None:
        """The process id while Envoy is up."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    @property
    def access_log(self) -> Path:
        """One JSON object a line for each request, written a fraction of a second after its end."""
        return self._storage.access_log

    async def start(self, config: EnvoyConfig = EMPTY) -> ConfigApplied:
        """Start Envoy with this configuration; returns once it serves it."""
        if self._process is not None:
            raise RuntimeError("Envoy is already started")
        began = _now()
        try:
            await self._spawn(config)
            await self._wait_applied(self._settings.start_s, _ALL_TABLES, log_since=0)
        except BaseException:
            await self.stop()
            raise
        self._running = config
        return ConfigApplied(len(self._on_disk), (_now() - began) * 1000)

    async def apply(self, config: EnvoyConfig) -> ConfigApplied:
        """Change to this configuration without interrupting anything; returns once Envoy serves it."""
        async with self._changing:
            if self._process is None:
                raise EnvoyFailedError("Envoy is not running")
            began = _now()
            versions = {table: file.version for table, file in self._on_disk.items()}
            # At fleet size this takes a tenth of a second, in which the plane has other things to do.
            files = await asyncio.to_thread(lambda: list(plan(self._running, config, versions)))
            try:
                for file in files:
                    await self._change(file)
                await _wait_released(_left(self._running, config), _RELEASE_S)
            except ConfigRefusedError:
                await self._roll_back()
                raise
            except EnvoyFailedError:
                # Envoy does not respond; it reads the old files when it does again.
                for file in final_files(self._running):
                    self._write(file)
                raise
            self._running = config
            return ConfigApplied(len(files), (_now() - began) * 1000)

    async def wait(self) -> int:
        """The exit code of Envoy, once it ends."""
        if self._process is None:
            raise RuntimeError("Envoy is not started")
        return await self._process.wait()

    async def drain(self) -> None:
        """Close the listeners, and wait for requests in flight for up to `drain_s`."""
        admin = self._admin
        if admin is None or self.pid is None or self._drained:
            return
        self._drained = True
        try:
            await admin.close_listeners()
            async with asyncio.timeout(self._settings.drain_s):
                while await admin.requests_in_flight():  # noqa: ASYNC110  Envoy sends no event
                    await asyncio.sleep(_SLOWEST_POLL_S)
        except (TimeoutError, aiohttp.ClientError, OSError):
            return  # what is left is cut

    async def rotate_log(self) -> bool:
        """Rotate the access log if it is too long; returns whether it was."""
        admin = self._admin
        if admin is None or self.pid is None or not self._storage.set_aside(self._settings.log_bytes):
            return False
        try:
            await admin.reopen_logs()
        except (TimeoutError, aiohttp.ClientError, OSError):
            return False  # Envoy writes to the old file until the next rotation
        return True

    async def stop(self) -> None:
        """Stop Envoy: drain, then SIGTERM, then SIGKILL after `stop_s`."""
        await self.drain()
        process, self._process = self._process, None
        admin, self._admin = self._admin, None
        try:
            if admin is not None:
                await admin.close()
        finally:
            if process is not None:
                await _end(process, self._settings.stop_s)
            self._storage.clean()
            self._running, self._on_disk, self._seen = EMPTY, {}, Report()
            self._drained = False

    async def _spawn(self, config: EnvoyConfig) -> None:
        socket = self._storage.prepare()
        for file in final_files(config):
            self._write(file)
        with self._storage.open_log() as log:
            self._process = await asyncio.create_subprocess_exec(
                *command(os.getpid(), binary=self._settings.binary, workers=self._settings.workers),
                cwd=self._storage.directory,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C reaches the whole foreground group; Envoy must stop after the requests in flight.
                start_new_session=True,
            )
        self._admin = Admin(socket)

    async def _change(self, file: XdsFile) -> None:
        position = self._storage.log_size()
        await asyncio.to_thread(self._storage.write, file)
        self._on_disk[file.table] = file
        # A new listener reads the routes.
        tables = _LISTENERS if file.table == "lds" else (file.table,)
        limit_s = max(self._settings.apply_s, _MORE_S * len(file.texts))
        await self._wait_applied(limit_s, tables, log_since=position)

    def _write(self, file: XdsFile) -> None:
        self._storage.write(file)
        self._on_disk[file.table] = file

    async def _roll_back(self) -> None:
        """Roll back to the previous configuration: routes first, so that none points at a removed cluster."""
        clusters, routes, listeners = final_files(self._running)
        for file in (routes, listeners, clusters):
            if self._on_disk[file.table] != file:
                await self._change(file)

    async def _wait_applied(self, limit_s: float, tables: tuple[XdsType, ...], *, log_since: int) -> None:
        """Wait until Envoy runs these tables as they are on disk."""
        process, admin = self._process, self._admin
        if process is None or admin is None:
            raise EnvoyFailedError("Envoy is not running")
        began, pause = _now(), _FIRST_POLL_S
        try:
            async with asyncio.timeout(limit_s):
                while not await self._is_applied(admin, tables, log_since):
                    self._check_alive(process, log_since)
                    await asyncio.sleep(pause)
                    # A poll costs Envoy time: slow updates are polled less often.
                    pause = min(pause * 2, max(_SLOWEST_POLL_S, (_now() - began) / 10))
        except TimeoutError:
            raise EnvoyFailedError(f"Envoy did not apply its configuration within {limit_s:g} s") from None

    def _check_alive(self, process: asyncio.subprocess.Process, log_since: int) -> None:
        if process.returncode is not None:
            words = last_log_lines(self._storage.read_log(log_since))
            raise EnvoyFailedError(f"Envoy exited with code {process.returncode}: {words}")

    async def _is_applied(self, admin: Admin, tables: tuple[XdsType, ...], log_since: int) -> bool:
        try:
            report = await admin.report()
        except (aiohttp.ClientError, OSError):
            return False
        before, self._seen = self._seen, report
        for table, state in report.tables.items():
            if state.refusals > before.refusals(table):
                reason = refusal_reason(self._storage.read_log(log_since))
                raise ConfigRefusedError(f"Envoy rejected its {table} file: {reason}")
        return report.ready and all(self._runs(report, table) for table in tables)

    def _runs(self, report: Report, table: XdsType) -> bool:
        # Envoy reads no routes without a listener.
        unread = table == "rds" and self._on_disk["lds"].is_empty
        return unread or report.version(table) == self._on_disk[table].version


def _left(before: EnvoyConfig, after: EnvoyConfig) -> list[SocketAddress]:
    """Addresses that Envoy no longer listens on."""
    return sorted(before.addresses() - after.addresses())


async def _wait_released(addresses: Iterable[SocketAddress], limit_s: float) -> None:
    """Wait until the addresses refuse connections: Envoy reports a listener removed before its workers close it."""
    try:
        async with asyncio.timeout(limit_s):
            for host, port in addresses:
                while await _is_taken(host, port):  # noqa: ASYNC110  there is no event to wait for
                    await asyncio.sleep(_FIRST_POLL_S)
    except TimeoutError:
        return


async def _is_taken(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _end(process: asyncio.subprocess.Process, grace_s: float) -> None:
    try:
        if process.returncode is None:
            process.terminate()
            async with asyncio.timeout(grace_s):
                await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
    except BaseException:
        if process.returncode is None:
            process.kill()
        raise
