"""How an agent gets its certificate, and where it keeps it: in a Secret of its own cluster.

The key is made here and never leaves the cluster. A join token is used once; after that the certificate renews itself.
"""

import asyncio
import base64
import logging
import ssl
import time
from pathlib import Path

import aiohttp
import msgspec

from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.api.objects import manifest
from modelplane.reconcile.log_lines import about, because
from modelplane.reconcile.log_reasons import LogReason
from modelplane.tunnel.agent import AgentApi, ClusterAgent
from modelplane.tunnel.authority import load_pair, new_request, renewal_is_due
from modelplane.tunnel.frames import TunnelError

_log = logging.getLogger(__name__)
IDENTITY = "modelplane-agent-identity"
_OK, _NOT_FOUND = 200, 404
_CHECK_S = 3600.0
_TIMEOUT = aiohttp.ClientTimeout(total=30.0)


class AgentIdentity(msgspec.Struct, frozen=True):
    certificate: str
    key: str


class IdentityStore:
    """The Secret that an agent keeps its identity in."""

    def __init__(self, api: AgentApi, namespace: str = SYSTEM_NAMESPACE) -> None:
        self._api = api
        self._path = f"{api.server}/api/v1/namespaces/{namespace}/secrets/{IDENTITY}"
        self._namespace = namespace

    async def read(self) -> AgentIdentity | None:
        async with self._api.session() as session, session.get(self._path, headers=self._api.headers()) as answer:
            if answer.status == _NOT_FOUND:
                return None
            body = await answer.json(content_type=None)
            if answer.status != _OK:
                raise TunnelError(f"Secret {IDENTITY} cannot be read: {body.get('message', answer.status)}")
        data = {name: base64.b64decode(text).decode() for name, text in (body.get("data") or {}).items()}
        if not {"tls.crt", "tls.key"} <= data.keys():
            return None
        return AgentIdentity(data["tls.crt"], data["tls.key"])

    async def write(self, identity: AgentIdentity) -> None:
        content = {"tls.crt": identity.certificate, "tls.key": identity.key}
        data = {name: base64.b64encode(text.encode()).decode() for name, text in content.items()}
        secret = manifest("v1", "Secret", IDENTITY, namespace=self._namespace, type="kubernetes.io/tls", data=data)
        headers = {**self._api.headers(), "Content-Type": "application/apply-patch+yaml"}
        query = {"fieldManager": "modelplane-agent", "force": "true"}
        async with (
            self._api.session() as session,
            session.patch(self._path, params=query, headers=headers, data=msgspec.json.encode(secret)) as answer,
        ):
            if answer.status >= 300:  # noqa: PLR2004  HTTP
                raise TunnelError(f"Secret {IDENTITY} cannot be written: {(await answer.text())[:200]}")


class Enrolment:
    """The agent's identity, from the first join on."""

    def __init__(self, hub: str, hub_ca: Path, store: IdentityStore) -> None:
        self.hub = hub
        self._hub_ca = hub_ca
        self._store = store
        self._identity: AgentIdentity | None = None

    async def start(self, cluster: str, join_token: str) -> None:
        """Takes the identity that there is, or joins. A token that is left over from the first start is not used."""
        self._identity = await self._store.read()
        if self._identity is None:
            if not join_token:
                raise TunnelError(
                    "this agent has no identity and no join token; `modelplane cluster add --agent` makes one"
                )
            await self._request("join", {"cluster": cluster, "token": join_token})
            _log.info("joined", extra=about(LogReason.AGENT_JOINED, "InferenceCluster", cluster))

    async def renew(self) -> None:
        """Until cancelled. A failure is tried again; the certificate holds for weeks by then."""
        while True:
            if self._identity is not None and renewal_is_due(self._identity.certificate.encode(), time.time()):
                try:
                    await self._request("renew", {})
                    _log.info("the certificate is renewed", extra=because(LogReason.CERTIFICATE_RENEWED))
                except (aiohttp.ClientError, OSError, TimeoutError, TunnelError) as error:
                    _log.warning(
                        "the certificate is not renewed: %s", error, extra=because(LogReason.CERTIFICATE_NOT_RENEWED)
                    )
            await asyncio.sleep(_CHECK_S)

    async def _request(self, verb: str, fields: dict[str, str]) -> None:
        key, csr = await asyncio.to_thread(new_request)
        connector = aiohttp.TCPConnector(ssl=self.context())
        async with (
            aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT) as session,
            session.post(f"{self.hub}/v1/{verb}", json={**fields, "csr": csr.decode()}) as answer,
        ):
            body = await answer.json(content_type=None)
            if answer.status != _OK:
                raise TunnelError(f"the hub refuses to {verb}: {body.get('error', answer.status)}")
        identity = AgentIdentity(body["certificate"], key.decode())
        await self._store.write(identity)
        self._identity = identity

    def context(self) -> ssl.SSLContext:
        """For the hub, whose authority is the only one that counts."""
        made = ssl.create_default_context(cafile=self._hub_ca)
        if self._identity is not None:
            load_pair(made, self._identity.certificate.encode(), self._identity.key.encode())
        return made


async def run_agent(enrolment: Enrolment, api: AgentApi, cluster: str, join_token: str) -> None:
    """Until cancelled. What keeps it from joining ends it: a pod is started again, and its log says why."""
    try:
        await enrolment.start(cluster, join_token)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise TunnelError(f"the hub or the API server does not answer: {error}") from error
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(enrolment.renew())
        tasks.create_task(ClusterAgent(enrolment.hub, api, enrolment.context).run())
