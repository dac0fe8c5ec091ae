"""The hub: where agents dial in, and where the control plane reaches their clusters.

    dialled    POST /v1/join, POST /v1/renew, GET /v1/tunnel (a WebSocket); TLS, with the agent's certificate
    proxied    /clusters/NAME/…, an API server as any client sees one; TLS, with a bearer token for that cluster

An agent that dials while another connection of its cluster is open takes its place: the other may be half-open.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
from aiohttp import WSMsgType, web

from modelplane.kube import KubeError
from modelplane.reconcile.log_lines import Extra, about
from modelplane.reconcile.log_reasons import LogReason
from modelplane.tunnel.authority import AgentAuthority
from modelplane.tunnel.frames import MAX_MESSAGE, MAX_STREAMS, TunnelError, TunnelFrame, decode_frame, encode_frame
from modelplane.tunnel.proxy import forward, status_response
from modelplane.tunnel.records import AgentRecords, StoredRecord, matches
from modelplane.tunnel.streams import TunnelStreams

_log = logging.getLogger(__name__)
_JOIN_MOST_BYTES = 16 * 1024
_PING_S = 15.0
_CHECK_S = 60.0
_RECORD_S = 5.0
"""How long a record is believed without reading it again."""
_JOINS_AT_ONCE = 4
"""Whoever reaches the port may try; each try reads a record from the control plane."""
_NAME_MOST = 63
_REFUSED = "the join token is wrong, used or too old"


class JoinRequest(msgspec.Struct, frozen=True):
    cluster: str
    token: str
    csr: str


class RenewRequest(msgspec.Struct, frozen=True):
    csr: str


class JoinAnswer(msgspec.Struct, frozen=True):
    certificate: str


class AgentState(msgspec.Struct, frozen=True):
    """What is announced of a cluster's agent."""

    connected: bool
    since: float
    heartbeat: float


Announce = Callable[[str, AgentState], Awaitable[None]]


class OpenTunnel:
    """The connection of one agent."""

    def __init__(self, socket: web.WebSocketResponse, since: float) -> None:
        self.socket = socket
        self.since = since
        self.streams = TunnelStreams(self._send, most=MAX_STREAMS)

    async def _send(self, frame: TunnelFrame) -> None:
        if self.socket.closed:
            raise TunnelError("the agent is not connected")
        try:
            await self.socket.send_bytes(encode_frame(frame))
        except ConnectionError as error:
            raise TunnelError("the agent is not connected") from error


class AgentHub:
    """Runs in one event loop. `announce` writes where people see it whether an agent is connected."""

    def __init__(
        self,
        records: AgentRecords,
        authority: AgentAuthority,
        announce: Announce,
        *,
        check_s: float = _CHECK_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._records = records
        self._authority = authority
        self._announce = announce
        self._check_s = check_s
        self._clock = clock
        self._tunnels: dict[str, OpenTunnel] = {}
        self._known: dict[str, tuple[float, StoredRecord | None]] = {}
        self._joins = asyncio.Semaphore(_JOINS_AT_ONCE)
        self._closing = False

    def dialled(self) -> web.Application:
        app = web.Application(client_max_size=_JOIN_MOST_BYTES)
        app.router.add_post("/v1/join", self._join)
        app.router.add_post("/v1/renew", self._renew)
        app.router.add_get("/v1/tunnel", self._tunnel)
        return app

    def proxied(self) -> web.Application:
        app = web.Application(client_max_size=0)
        app.router.add_get("/healthz", _healthy)
        app.router.add_route("*", "/clusters/{cluster}/{path:.*}", self._proxy)
        return app

    async def close(self) -> None:
        """Says nothing of the agents, which dial the next hub: that they left would count against their clusters."""
        self._closing = True
        ends = [tunnel.socket.close(code=1001, message=b"the hub ends") for tunnel in self._tunnels.values()]
        await asyncio.gather(*ends)  # one that is half-open takes its time

    async def _join(self, request: web.Request) -> web.Response:
        content = await request.read()
        async with self._joins:
            return await self._joined(content)

    async def _joined(self, content: bytes) -> web.Response:
        try:
            wanted = msgspec.json.decode(content, type=JoinRequest)
            stored = await self._record(wanted.cluster, fresh=True)
            if stored is None or not stored.record.may_join(wanted.token, self._clock()):
                _log.warning("an agent was refused", extra=_about(LogReason.AGENT_REFUSED, wanted.cluster[:63]))
                return web.json_response({"error": _REFUSED}, status=401)
            issued = self._authority.client(wanted.csr.encode(), wanted.cluster, self._clock())
            if not await self._records.write(wanted.cluster, stored.record.joined(issued.serial), stored.version):
                return web.json_response({"error": _REFUSED}, status=401)
        except (TunnelError, msgspec.MsgspecError) as error:
            return web.json_response({"error": str(error)}, status=400)
        self._known.pop(wanted.cluster, None)
        _log.info("an agent joined", extra=_about(LogReason.AGENT_JOINED, wanted.cluster))
        return _answer(issued.certificate)

    async def _renew(self, request: web.Request) -> web.Response:
        identity = await self._identity(request)
        if identity is None:
            return web.json_response({"error": "the certificate does not hold"}, status=401)
        cluster, stored = identity
        try:
            wanted = msgspec.json.decode(await request.read(), type=RenewRequest)
            issued = self._authority.client(wanted.csr.encode(), cluster, self._clock())
        except (TunnelError, msgspec.MsgspecError) as error:
            return web.json_response({"error": str(error)}, status=400)
        if not await self._records.write(cluster, stored.record.renewed(issued.serial), stored.version):
            return web.json_response({"error": "the record changed meanwhile"}, status=409)
        self._known.pop(cluster, None)
        return _answer(issued.certificate)

    async def _identity(self, request: web.Request) -> tuple[str, StoredRecord] | None:
        """The cluster that a certificate was written for, while it holds."""
        cluster, serial = peer_of(request)
        if not cluster:
            return None
        stored = await self._record(cluster, fresh=True)
        return (cluster, stored) if stored is not None and serial in stored.record.serials else None

    async def _tunnel(self, request: web.Request) -> web.StreamResponse:
        identity = await self._identity(request)
        if identity is None:
            return web.json_response({"error": "the certificate does not hold"}, status=401)
        cluster, stored = identity
        serial = peer_of(request)[1]
        if stored.record.serials != (serial,) and serial == stored.record.serials[-1]:
            await self._records.write(cluster, stored.record.used(serial), stored.version)
        socket = web.WebSocketResponse(heartbeat=_PING_S, max_msg_size=MAX_MESSAGE, compress=False)
        await socket.prepare(request)
        tunnel = OpenTunnel(socket, self._clock())
        before = self._tunnels.get(cluster)
        self._tunnels[cluster] = tunnel
        if before is not None:
            before.streams.fail_all("the agent connected again")
            await before.socket.close(code=1000, message=b"replaced")
        _log.info("an agent connected", extra=_about(LogReason.AGENT_CONNECTED, cluster))
        beats = asyncio.create_task(self._beat(cluster, tunnel, serial))
        try:
            await self._read(tunnel)
        except TunnelError as error:
            _log.warning("an agent was cut off: %s", error, extra=_about(LogReason.AGENT_CUT_OFF, cluster))
            await socket.close(code=1002, message=str(error).encode()[:120])
        finally:
            beats.cancel()
            tunnel.streams.fail_all("the agent disconnected")
            if self._tunnels.get(cluster) is tunnel:
                del self._tunnels[cluster]
                if not self._closing:
                    await self._announced(cluster, tunnel, connected=False)
                _log.info("an agent disconnected", extra=_about(LogReason.AGENT_DISCONNECTED, cluster))
        return socket

    async def _read(self, tunnel: OpenTunnel) -> None:
        async for message in tunnel.socket:
            if message.type is not WSMsgType.BINARY:
                raise TunnelError(f"a message of type {message.type.name}")
            tunnel.streams.hand(decode_frame(message.data))

    async def _beat(self, cluster: str, tunnel: OpenTunnel, serial: str) -> None:
        """Announces the agent, and ends its connection once its certificate holds no longer."""
        while True:
            await self._announced(cluster, tunnel, connected=True)
            await asyncio.sleep(self._check_s)
            with suppress(KubeError):
                stored = await self._record(cluster, fresh=True)
                if stored is None or serial not in stored.record.serials:
                    await tunnel.socket.close(code=1008, message=b"the certificate does not hold")
                    return

    async def _announced(self, cluster: str, tunnel: OpenTunnel, *, connected: bool) -> None:
        now = self._clock()
        state = AgentState(connected, tunnel.since if connected else now, now)
        try:
            await self._announce(cluster, state)
        except KubeError as error:
            _log.warning(
                "the state of an agent was not written: %s",
                error,
                extra=_about(LogReason.AGENT_STATE_NOT_WRITTEN, cluster),
            )

    async def _record(self, cluster: str, *, fresh: bool = False) -> StoredRecord | None:
        until, stored = self._known.get(cluster, (0.0, None))
        if fresh or self._clock() >= until:
            if not is_name(cluster):
                return None
            stored = await self._records.read(cluster)
            self._known.pop(cluster, None)
            if stored is not None:  # names that nobody has are not kept
                self._known[cluster] = (self._clock() + _RECORD_S, stored)
        return stored

    async def _proxy(self, request: web.Request) -> web.StreamResponse:
        cluster = request.match_info["cluster"]
        try:
            allowed = await self._may_use(request, cluster)
        except (KubeError, TunnelError) as error:
            return status_response(
                503, "ServiceUnavailable", f"the record of cluster {cluster} cannot be read: {error}"
            )
        if not allowed:
            return status_response(401, "Unauthorized", "the token is not one for this cluster")
        tunnel = self._tunnels.get(cluster)
        if tunnel is None:
            return status_response(503, "ServiceUnavailable", f"the agent of cluster {cluster} is not connected")
        return await forward(request, tunnel.streams, f"/clusters/{cluster}")

    async def _may_use(self, request: web.Request, cluster: str) -> bool:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        stored = await self._record(cluster)
        return stored is not None and scheme.lower() == "bearer" and matches(token, stored.record.proxy_hash)


def peer_of(request: web.Request) -> tuple[str, str]:
    """Subject and serial number of the certificate that TLS has verified; empty without one."""
    certificate = request.get_extra_info("peercert") or {}
    names = dict(pair for part in certificate.get("subject", ()) for pair in part)
    return names.get("commonName", ""), certificate.get("serialNumber", "").lower().lstrip("0")


def is_name(cluster: str) -> bool:
    """Whether it may be part of a Secret's name."""
    return 0 < len(cluster) <= _NAME_MOST and all(
        letter.isascii() and (letter.isalnum() or letter in "-.") for letter in cluster
    )


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok")


def _answer(certificate: bytes) -> web.Response:
    body = msgspec.json.encode(JoinAnswer(certificate.decode()))
    return web.Response(body=body, content_type="application/json")


def _about(reason: LogReason, cluster: str) -> Extra:
    return about(reason, "InferenceCluster", cluster)
