"""One worker of a picker: a process that serves connections which the main process accepted and hands over.

    python -m modelplane.epp.server.worker CHANNEL CONNECTIONS

Both are file descriptors of Unix sockets that lead to the main process (`workers`). By the first it gets the pool, and
sends what it has in flight; by the second come connections of the gRPC port. It ends when it gets SIGTERM, or when the
main process is gone, after its open requests.
"""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Final

import msgspec

from modelplane.epp.config.config import load
from modelplane.epp.datalayer.frames import framed, read_frame
from modelplane.epp.datalayer.relay import RelayedPolicies, RelayedPool
from modelplane.epp.datalayer.shared_state import SYNC_S, EncodedPrompt, SentPrompt
from modelplane.epp.server.observe import Tracing, otlp_provider
from modelplane.epp.server.observe.decision_log import open_decision_log
from modelplane.epp.server.observe.families import Family
from modelplane.epp.server.observe.worker_pages import FamilyMessage, message_of, worker_families
from modelplane.epp.server.runner import PickerRunner, RunnerOptions
from modelplane.epp.server.server import PickerSettings
from modelplane.epp.server.third_party import full_registry
from modelplane.epp.server.worker_messages import (
    MOST_FRAME,
    FromWorker,
    ToWorker,
    WorkerSetup,
    encode,
    setup_decoder,
    to_worker_decoder,
)
from modelplane.epp.transport.calls import NO_PORT
from modelplane.epp.transport.loop import make_loop
from modelplane.reconcile.collector import calm_collector
from modelplane.reconcile.log_lines import because, log_to_stderr
from modelplane.reconcile.log_reasons import LogReason

_LOG = logging.getLogger(__name__)
_ALIVE_S: Final = 1.0
_MOST_UNSENT: Final = 1 << 20
_ARGUMENTS: Final = 3


class PickerWorker:
    """Started once, stopped once."""

    def __init__(self, setup: WorkerSetup, writer: asyncio.StreamWriter, connections: socket.socket) -> None:
        self._setup = setup
        self._writer = writer
        self._connections = connections
        self._pool = RelayedPool()
        self._policies = RelayedPolicies() if setup.has_policies else None
        config = load(setup.config, setup.config_source, full_registry())
        self._runner = PickerRunner(self._pool, config, _settings(setup), self._options(setup))
        self._adopted = self._handshakes = 0
        self._page_lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._pool.state.follow()
        await self._runner.start()
        self._connections.setblocking(False)
        asyncio.get_running_loop().add_reader(self._connections.fileno(), self._accept)
        self._spawn(self._report())

    async def stop(self) -> None:
        """Drains, and sends what was counted until then."""
        asyncio.get_running_loop().remove_reader(self._connections.fileno())
        self._connections.close()
        await self._runner.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._send_page()

    def receive(self, message: ToWorker[SentPrompt]) -> None:
        if message.pool is not None:
            if message.pool.policies is not None and self._policies is not None:
                self._policies.apply(message.pool.policies)
            self._pool.apply(message.pool)
        if message.config is not None:
            self._runner.server.try_reload(message.config, self._setup.config_source)
        if message.identity is not None:
            self._runner.server.renew(message.identity)
        if message.wants_page:
            self._spawn(self._send_page())
        if message.releases_connection:
            self._runner.server.release_connection()

    def _options(self, setup: WorkerSetup) -> RunnerOptions:
        tracing, number = setup.tracing, setup.share.workers
        path, share = setup.decision_log, setup.decision_log_share
        return RunnerOptions(
            metrics_port=-1,
            scrapes=setup.subscribes,
            is_worker=True,
            pool=setup.pool,
            rules=self._policies,
            legacy_metrics=setup.legacy_metrics,
            log=open_decision_log(path, share, workers=number) if path else None,
            tracing=Tracing(otlp_provider(endpoint=tracing.endpoint or None), share=tracing.share) if tracing else None,
            shared=self._pool.state,
        )

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _accept(self) -> None:
        """A connection was handed over."""
        try:
            _, descriptors, _, _ = socket.recv_fds(self._connections, 1, 1)
        except BlockingIOError:
            return
        if not descriptors:
            asyncio.get_running_loop().remove_reader(self._connections.fileno())
            return
        self._adopted += 1
        self._handshakes += 1
        self._spawn(self._adopt(socket.socket(fileno=descriptors[0])))

    async def _adopt(self, connection: socket.socket) -> None:
        try:
            connection.setblocking(False)
            # A client that fails its TLS handshake, or leaves during it.
            with suppress(OSError, EOFError, TimeoutError):
                await self._runner.server.adopt(connection)
        finally:
            self._handshakes -= 1

    async def _report(self) -> None:
        """Every `SYNC_S`, what changed."""
        loop, state, last, before = asyncio.get_running_loop(), self._pool.state, 0.0, None
        while True:
            if self._writer.transport.get_write_buffer_size() <= _MOST_UNSENT:
                loads, prompts = state.changed_loads(state.own_loads()), state.take_prompts()
                current = (self._runner.problem, self._adopted, self._runner.server.connections + self._handshakes)
                if loads or prompts or current != before or loop.time() - last >= _ALIVE_S:
                    self._send(FromWorker[EncodedPrompt](*current, loads, prompts))
                    last, before = loop.time(), current
            await asyncio.sleep(SYNC_S)

    async def _send_page(self) -> None:
        """One family at a time, so that requests are answered in between."""
        async with self._page_lock:
            for family in self._families():
                self._send(self._status(family=message_of(family)))
                await asyncio.sleep(0)
            self._send(self._status(is_page_end=True))

    def _families(self) -> Iterator[Family]:
        yield from self._runner.page.families()
        yield from worker_families(self._setup.share.number, self._runner.requests)

    def _status(self, *, family: FamilyMessage | None = None, is_page_end: bool = False) -> FromWorker[SentPrompt]:
        connections = self._runner.server.connections + self._handshakes
        return FromWorker(self._runner.problem, self._adopted, connections, family=family, is_page_end=is_page_end)

    def _send(self, message: msgspec.Struct) -> None:
        if not self._writer.is_closing():
            self._writer.write(framed(encode(message)))


def _settings(setup: WorkerSetup) -> PickerSettings:
    return PickerSettings(
        port=NO_PORT,
        health_port=-1,
        identity=setup.identity,
        body_bytes=setup.body_bytes,
        held_bytes=setup.held_bytes,
        streams=setup.streams,
        drain_s=setup.drain_s,
        share=setup.share,
    )


async def serve(channel: socket.socket, connections: socket.socket) -> None:
    """Until SIGTERM, or until the main process is gone."""
    reader, writer = await asyncio.open_connection(sock=channel)
    setup = setup_decoder.decode(await read_frame(reader, MOST_FRAME))
    _log_as(setup)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    worker = PickerWorker(setup, writer, connections)
    await worker.start()
    calm_collector()
    reading = loop.create_task(_read(reader, worker, ended))
    await ended.wait()
    await worker.stop()
    reading.cancel()
    with suppress(OSError):
        await writer.drain()
        writer.close()
        await writer.wait_closed()


async def _read(reader: asyncio.StreamReader, worker: PickerWorker, ended: asyncio.Event) -> None:
    try:
        while True:
            worker.receive(to_worker_decoder.decode(await read_frame(reader, MOST_FRAME)))
    except (OSError, EOFError):
        _LOG.warning("the main process is gone: the worker ends", extra=because(LogReason.MAIN_PROCESS_GONE))
    finally:
        ended.set()


def _log_as(setup: WorkerSetup) -> None:
    log_to_stderr("json" if setup.log_json else "text", setup.log_level, worker=setup.share.number)


def main(arguments: list[str]) -> int:
    if len(arguments) != _ARGUMENTS:
        sys.stderr.write("this is a part of `modelplane picker serve --workers N`\n")
        return 2
    channel, connections = (socket.socket(fileno=int(each)) for each in arguments[1:])
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(serve(channel, connections))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv))
