"""The function server: one gRPC service for every kind, with its limits, health, metrics and logs.

Composing is CPU work, so it runs in a bounded pool of threads and a slow composition blocks no other call. A call that
waits or runs too long fails with DEADLINE_EXCEEDED; nothing is applied and Crossplane calls again.
"""

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

import grpc  # type: ignore[import-untyped]  # it ships no types
from aiohttp import web
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from modelplane.api.errors import InputError
from modelplane.compose.images import RELEASE_IMAGES, ReleaseImages
from modelplane.compose.provider_models import ListModels
from modelplane.crossplane.caches import FunctionCaches
from modelplane.crossplane.calls import CannotCompose, FleetCache, FunctionCall, FunctionResult, NoFleetCache, answer
from modelplane.crossplane.fleet_informers import FleetInformers, HeldFleet
from modelplane.crossplane.function_metrics import FunctionMetrics
from modelplane.crossplane.live import Live
from modelplane.crossplane.messages import read, refuse, write
from modelplane.kube import KubeClient, load_config
from modelplane.placement.plugins import PlacementProfile
from modelplane.placement.profile import DEFAULT_PROFILE
from modelplane.reconcile.clock import SystemClock
from modelplane.reconcile.collector import calm_collector, collect_between_calls
from modelplane.reconcile.log_lines import about, because
from modelplane.reconcile.log_reasons import LogReason
from modelplane.reconcile.metrics_page import Exposition, FleetPage, metrics_page
from modelplane.reconcile.resolver import HostResolver

_log = logging.getLogger(__name__)
_MEGABYTE = 1024 * 1024
_SERVICE = "apiextensions.fn.proto.v1.FunctionRunnerService"
_LISTED_WITHIN_S = 8.0
_WARNING_S = 60.0
_POLL_S = 0.05
_SWITCH_S = 0.001  # a small call waits several times for a thread that computes, each time so long


class CannotStartError(InputError):
    """The server cannot start; the message names the option or the file."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    threads: int = 4
    waiting: int = 200
    """Calls that may wait for a thread; further ones fail at once with RESOURCE_EXHAUSTED."""
    call_s: float = 20.0
    request_bytes: int = 16 * _MEGABYTE
    drain_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Options:
    address: str
    certificates: Path | None
    """A folder with tls.crt, tls.key and ca.crt. None serves in the clear."""
    admin_address: str
    limits: ServerLimits = field(default_factory=ServerLimits)
    helm: bool = False
    live: bool = False
    """Whether to watch the fleet through the Kubernetes API."""
    observe: bool = False
    """Whether to watch the workload clusters too."""
    traffic_metrics: tuple[str, ...] = ()
    """Addresses of the metrics that say what clients get from canaries."""
    profile: PlacementProfile = DEFAULT_PROFILE
    """The plugins that place replicas."""
    kubeconfig: Path | None = None
    """None: the pod's ServiceAccount, or as kubectl finds it."""
    log_calls: bool = False
    """Whether each call is a line of the log."""
    images: ReleaseImages = RELEASE_IMAGES
    """Images of our own programs, for clusters that name none."""
    list_models: ListModels | None = None
    """Fetches lists of providers' models; see ComposeRequest."""


class Received(NamedTuple):
    """A request and its size, which protobuf could tell only by serializing it again."""

    request: fnv1.RunFunctionRequest
    size: int

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        return cls(fnv1.RunFunctionRequest.FromString(packed), len(packed))


class CompositionFunction:
    def __init__(
        self,
        limits: ServerLimits,
        *,
        helm: bool = False,
        profile: PlacementProfile = DEFAULT_PROFILE,
        log_calls: bool = False,
        images: ReleaseImages = RELEASE_IMAGES,
        list_models: ListModels | None = None,
    ) -> None:
        self._limits = limits
        self._log_calls = log_calls
        self._profile = profile
        self._fleet_cache: FleetCache = NoFleetCache()
        self._ready: Callable[[], Awaitable[None]] | None = None
        self._helm = helm
        self._pool = ThreadPoolExecutor(limits.threads, thread_name_prefix="compose")
        self._in_progress = 0
        self._resolver = HostResolver(SystemClock())
        self.caches = FunctionCaches(resolve=self._resolver, list_models=list_models, images=images)
        self.metrics = FunctionMetrics()

    def use(self, fleet_cache: FleetCache) -> None:
        """Answer from this cache from now on."""
        self._fleet_cache = fleet_cache

    def waits_for(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Calls wait until this returns."""
        self._ready = ready

    def handler(self) -> grpc.GenericRpcHandler:
        """The gRPC service. Responses leave it serialized."""
        run = grpc.unary_unary_rpc_method_handler(self.run, Received.unpack, response_serializer=None)
        return grpc.method_handlers_generic_handler(_SERVICE, {"RunFunction": run})

    async def run(self, received: Received, context: grpc.aio.ServicerContext) -> bytes:
        kind = received.request.observed.composite.resource.fields["kind"].string_value
        if self._ready is not None:
            await self._ready()
        if self._in_progress >= self._limits.threads + self._limits.waiting:
            self.metrics.calls.labels(kind, "turned-away").inc()
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"{self._in_progress} calls are in progress; try again"
            )
        self._in_progress += 1
        self.metrics.waiting.set(self._in_progress)
        work = asyncio.get_running_loop().run_in_executor(self._pool, self._run, kind, received)
        work.add_done_callback(self._finished)
        try:
            return await asyncio.wait_for(asyncio.shield(work), self._limits.call_s)
        except TimeoutError:
            self.metrics.calls.labels(kind, "timed-out").inc()
            message = f"composing {kind} took longer than {self._limits.call_s:g} s; nothing is applied"
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, message)
            raise

    def is_busy(self) -> bool:
        return self._in_progress > 0

    def _finished(self, _done: object) -> None:
        self._in_progress -= 1
        self.metrics.waiting.set(self._in_progress)

    def _run(self, kind: str, received: Received) -> bytes:
        started, began, request = time.perf_counter(), time.thread_time(), received.request
        namespace, name = _identity(request)
        named = (kind, name, namespace)
        try:
            call = read(request, self.caches.structs)
            response = write(request, call, self._decide(kind, call), self.caches.structs)
            outcome = "composed"
        except CannotCompose as why:
            _log.warning("call refused", extra=about(LogReason.CALL_REFUSED, *named, error=str(why)))
            response, outcome = refuse(request, str(why)), "refused"
        except Exception as error:  # noqa: BLE001  it is logged, and the composite shows it
            # A bug must stop neither the server nor what runs: the composite shows it instead.
            _log.exception("call failed", extra=about(LogReason.CALL_FAILED, *named))
            response, outcome = refuse(request, f"a bug in modelplane: {type(error).__name__}: {error}"), "broke"
        seconds, work = time.perf_counter() - started, time.thread_time() - began
        self._count(kind, outcome, seconds, received.size, len(response))
        self.metrics.work.labels(kind).observe(work)
        level = logging.INFO if self._log_calls else logging.DEBUG
        if _log.isEnabledFor(level):
            answered = about(
                LogReason.ANSWERED,
                *named,
                tag=request.meta.tag,
                outcome=outcome,
                milliseconds=round(seconds * 1000, 2),
                work_ms=round(work * 1000, 3),
                request_bytes=received.size,
                response_bytes=len(response),
            )
            _log.log(level, "answered", extra=answered)
        return response

    def _decide(self, kind: str, call: FunctionCall) -> FunctionResult:
        with self._fleet_cache.decision_lock(kind):
            found = answer(
                call, time.time(), self._fleet_cache, caches=self.caches, helm=self._helm, profile=self._profile
            )
            self._fleet_cache.assume(kind, [composed.manifest for composed in found.resources.values()])
        return found

    def _count(self, kind: str, outcome: str, seconds: float, received: int, sent: int) -> None:
        self.metrics.calls.labels(kind, outcome).inc()
        self.metrics.seconds.labels(kind).observe(seconds)
        self.metrics.bytes.labels(kind, "request").observe(received)
        self.metrics.bytes.labels(kind, "response").observe(sent)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._resolver.close()


async def _warn_of_insecure() -> None:
    while True:
        sentence = "serving without TLS: whoever reaches the port can compose; --tls-certs-dir turns it on"
        _log.warning(sentence, extra=because(LogReason.UNPROTECTED))
        await asyncio.sleep(_WARNING_S)


async def _wait_listed(informers: FleetInformers) -> None:
    """Before the fleet is listed, Crossplane would have to send all of it with each call."""
    deadline = time.monotonic() + _LISTED_WITHIN_S
    while not informers.synced and not informers.problems and time.monotonic() < deadline:  # noqa: ASYNC110  problems ring no bell
        await asyncio.sleep(_POLL_S)


def _identity(request: fnv1.RunFunctionRequest) -> tuple[str, str]:
    """Namespace and name of the composite. Reading a field that is absent would create it."""
    fields = request.observed.composite.resource.fields
    known = fields["metadata"].struct_value.fields if "metadata" in fields else {}
    namespace, name = (known[field].string_value if field in known else "" for field in ("namespace", "name"))
    return namespace, name


class FunctionServer:
    """The function and its admin endpoint, from start to drain."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.function = CompositionFunction(
            options.limits,
            helm=options.helm,
            profile=options.profile,
            log_calls=options.log_calls,
            images=options.images,
            list_models=options.list_models,
        )
        folder = options.certificates
        self._identity = None if folder is None else _identity_in(folder)
        self._fleet_page = FleetPage(time.time(), serving=self._identity[1] if self._identity is not None else b"")
        self._client: KubeClient | None = None
        self._live: Live | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._grpc: grpc.aio.Server | None = None
        self._admin: web.AppRunner | None = None
        self.port = 0
        self.admin_port = 0
        self._stopping = False

    async def start(self) -> None:
        size = self._options.limits.request_bytes
        self._grpc = grpc.aio.server(
            options=[("grpc.max_receive_message_length", size), ("grpc.so_reuseport", 0)],
        )
        self._grpc.add_generic_rpc_handlers((self.function.handler(),))
        self.port = self._listen(self._grpc)
        if self._options.live:
            self._watch()
        self._tasks.append(asyncio.create_task(collect_between_calls(self.function.is_busy)))
        if self._options.certificates is None:
            self._tasks.append(asyncio.create_task(_warn_of_insecure()))
        await self._grpc.start()
        self.admin_port = await self._start_admin()
        tls = self._options.certificates is not None
        _log.info("serving", extra=because(LogReason.SERVING, address=self._options.address, tls=tls))

    def _watch(self) -> None:
        """Watch the fleet. Without the right to, calls are answered from what Crossplane fetches."""
        self._client = KubeClient(load_config(self._options.kubeconfig))
        self._live = Live(
            self._client,
            self.function.metrics.registry,
            self.function.caches,
            observe=self._options.observe,
            traffic_metrics=self._options.traffic_metrics,
        )
        self.function.use(self._live.cache)
        self.function.waits_for(partial(_wait_listed, self._live.informers))
        self._tasks.append(asyncio.create_task(self._live.run()))
        self._tasks.append(asyncio.create_task(self._freeze_when_synced(self._live)))

    async def _freeze_when_synced(self, live: Live) -> None:
        await live.informers.wait_synced()
        calm_collector()

    def _listen(self, server: grpc.aio.Server) -> int:
        address = self._options.address
        try:
            port = (
                server.add_insecure_port(address)
                if self._identity is None
                else server.add_secure_port(address, _credentials(*self._identity))
            )
        except RuntimeError as error:
            raise CannotStartError(f"--address {address}: {error}") from error
        if port == 0:
            raise CannotStartError(f"--address {address}: cannot listen there")
        return int(port)

    async def _start_admin(self) -> int:
        application = web.Application()
        application.add_routes(
            [
                web.get("/healthz", self._healthy),
                web.get("/readyz", self._ready),
                web.get("/metrics", self._metrics),
            ]
        )
        self._admin = web.AppRunner(application, access_log=None)
        await self._admin.setup()
        host, _, port = self._options.admin_address.rpartition(":")
        site = web.TCPSite(self._admin, host or None, int(port))
        try:
            await site.start()
        except OSError as error:
            raise CannotStartError(f"--admin-address {self._options.admin_address}: {error.strerror}") from error
        return int(self._admin.addresses[0][1])

    async def _healthy(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _ready(self, _request: web.Request) -> web.Response:
        if self._stopping:
            return web.Response(status=503, text="stopping\n")
        if self._live is not None and not self._live.informers.synced and not self._live.informers.problems:
            return web.Response(status=503, text="listing the fleet\n")
        return web.Response(text="ok\n")

    async def _metrics(self, request: web.Request) -> web.Response:
        """In a thread: calls are answered meanwhile."""
        held = self._live.informers.held() if self._live is not None and self._live.informers.synced else None
        page = await asyncio.to_thread(self._page, held, request.headers.get("Accept", ""))
        return web.Response(body=page.content, headers={"Content-Type": page.content_type})

    def _page(self, held: HeldFleet | None, accept: str) -> Exposition:
        inputs = None if held is None or self._fleet_page.has(held) else held.manifests()
        families = self._fleet_page.families(inputs, revision=held)
        return metrics_page(families, accept, self.function.metrics.registry)

    async def stop(self) -> None:
        """Calls in progress are answered; new ones go to another server."""
        self._stopping = True
        if self._grpc is not None:
            await self._grpc.stop(self._options.limits.drain_s)
        if self._admin is not None:
            await self._admin.cleanup()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        self.function.close()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        sys.setswitchinterval(_SWITCH_S)
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, stop.set)
        await self.start()
        try:
            await stop.wait()
        finally:
            await self.stop()


def _credentials(key: bytes, certificate: bytes, authority: bytes) -> grpc.ServerCredentials:
    """Callers must present a certificate of the authority, as Crossplane does."""
    return grpc.ssl_server_credentials([(key, certificate)], root_certificates=authority, require_client_auth=True)


def _identity_in(folder: Path) -> tuple[bytes, bytes, bytes]:
    """Key, certificate and the authority of callers."""
    return _file(folder / "tls.key"), _file(folder / "tls.crt"), _file(folder / "ca.crt")


def _file(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CannotStartError(f"--tls-certs-dir: {path}: {error.strerror}") from error
    if not content.strip():
        raise CannotStartError(f"--tls-certs-dir: {path} is empty")
    return content
