"""The hub as a program: its authority in a Secret, two TLS ports, and what it announces of agents."""

import asyncio
import base64
import logging
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass

import msgspec
from aiohttp import web

from modelplane.api.labels import AGENT_STATE, SYSTEM_NAMESPACE
from modelplane.api.objects import GROUP, VERSION, manifest, text_at
from modelplane.kube import GroupVersionResource, KubeClient, KubeStatusError
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason
from modelplane.tunnel.authority import AgentAuthority, KeyPair, load_pair
from modelplane.tunnel.hub import AgentHub, AgentState
from modelplane.tunnel.records import SECRETS, AgentRecords

_log = logging.getLogger(__name__)
AUTHORITY = "modelplane-hub-authority"
_CLUSTERS = GroupVersionResource(GROUP, VERSION, "inferenceclusters")
_NOT_FOUND, _EXISTS = 404, 409


@dataclass(frozen=True, slots=True)
class HubOptions:
    hosts: tuple[str, ...]
    """Names and addresses in the hub's certificate: what agents and providers dial."""
    address: str = "0.0.0.0"  # noqa: S104  in a pod
    dialled_port: int = 8443
    proxied_port: int = 8444
    check_s: float = 60.0


async def serve_hub(client: KubeClient, options: HubOptions) -> None:
    """Until cancelled."""
    authority = await find_authority(client)
    announce = _Announcer(client)
    hub = AgentHub(AgentRecords(client), authority, announce.write, check_s=options.check_s)
    pair = authority.server(options.hosts, time.time())
    runners = []
    try:
        for app, port, mutual in (
            (hub.dialled(), options.dialled_port, True),
            (hub.proxied(), options.proxied_port, False),
        ):
            # A client that leaves ends its request; an agent that leaves is still announced.
            runner = web.AppRunner(app, access_log=None, handler_cancellation=not mutual)
            runners.append(runner)
            await runner.setup()
            context = _context(pair, authority if mutual else None)
            await web.TCPSite(runner, options.address, port, ssl_context=context).start()
        _log.info(
            "the hub serves agents on port %d, the control plane on port %d",
            options.dialled_port,
            options.proxied_port,
            extra=because(LogReason.SERVING),
        )
        await asyncio.Event().wait()
    finally:
        await hub.close()
        for runner in runners:
            await runner.cleanup()


async def find_authority(client: KubeClient) -> AgentAuthority:
    """That of the Secret, which the first hub makes. Two that start at once agree on the one that was first."""
    while True:
        try:
            found = await client.get(SECRETS, AUTHORITY, SYSTEM_NAMESPACE)
        except KubeStatusError as error:
            if error.status != _NOT_FOUND:
                raise
        else:
            content = [base64.b64decode(text_at(found, "data", key)) for key in ("tls.crt", "tls.key")]
            return AgentAuthority(KeyPair(*content))
        made = AgentAuthority.create(time.time()).pair
        data = {"tls.crt": base64.b64encode(made.certificate).decode(), "tls.key": base64.b64encode(made.key).decode()}
        secret = manifest("v1", "Secret", AUTHORITY, namespace=SYSTEM_NAMESPACE, type="kubernetes.io/tls", data=data)
        try:
            await client.create(SECRETS, SYSTEM_NAMESPACE, secret)
        except KubeStatusError as error:
            if error.status != _EXISTS:
                raise


def _context(pair: KeyPair, clients: AgentAuthority | None) -> ssl.SSLContext:
    """With `clients`, a certificate that is shown is verified. Who joins has none yet."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load_pair(context, pair.certificate, pair.key)
    if clients is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=clients.pair.certificate.decode())
    return context


class _Announcer:
    """Writes the state of an agent onto its InferenceCluster, where the function reads it."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def write(self, cluster: str, state: AgentState) -> None:
        value = msgspec.json.encode(state).decode()
        with suppress(KubeStatusError):  # a cluster that is not declared yet, or no longer
            await self._client.annotate(_CLUSTERS, cluster, None, {AGENT_STATE: value})
