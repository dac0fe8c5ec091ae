"""What the hub knows of an agent: a Secret on the control plane for each cluster, with hashes and no credential.

A record changes in one version at a time, so a join token is used once whoever else tries at that moment.
"""

import base64
import hashlib
import hmac
import secrets

import msgspec

from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.api.objects import Json, Manifest, manifest, text_at
from modelplane.kube import GroupVersionResource, KubeClient, KubeStatusError
from modelplane.tunnel.frames import TunnelError

SECRETS = GroupVersionResource("", "v1", "secrets")
_KEY = "record"
_JOIN_S = 24 * 3600.0
_KEPT_SERIALS = 2
_NOT_FOUND, _CONFLICT = 404, 409


class AgentRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    proxy_hash: str
    """Of the token that providers show for this cluster."""
    join_hash: str = ""
    """Of the token that an agent joins with. Empty: none can join."""
    join_until: float = 0.0
    serials: tuple[str, ...] = ()
    """Of the certificates that hold: the last, and the one before it until the last was used."""

    def may_join(self, token: str, now: float) -> bool:
        return bool(self.join_hash) and now < self.join_until and matches(token, self.join_hash)

    def joined(self, serial: str) -> "AgentRecord":
        """The token is used up, and every certificate before this one ends."""
        return msgspec.structs.replace(self, join_hash="", join_until=0.0, serials=(serial,))

    def renewed(self, serial: str) -> "AgentRecord":
        return msgspec.structs.replace(self, serials=(*self.serials, serial)[-_KEPT_SERIALS:])

    def used(self, serial: str) -> "AgentRecord":
        """An agent dialled with it, so it has it, and needs none before."""
        return msgspec.structs.replace(self, serials=(serial,))


class NewAgent(msgspec.Struct, frozen=True):
    """What is made once for a cluster, and shown once."""

    record: AgentRecord
    join_token: str
    proxy_token: str


def new_agent(now: float) -> NewAgent:
    join, proxy = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    record = AgentRecord(proxy_hash=hashed(proxy), join_hash=hashed(join), join_until=now + _JOIN_S)
    return NewAgent(record, join, proxy)


def hashed(token: str) -> str:
    """Tokens are random and long, so a plain digest cannot be searched."""
    return hashlib.sha256(token.encode()).hexdigest()


def matches(token: str, digest: str) -> bool:
    return hmac.compare_digest(hashed(token), digest)


def record_secret(cluster: str, record: AgentRecord) -> Json:
    data = {_KEY: base64.b64encode(msgspec.json.encode(record)).decode()}
    return manifest("v1", "Secret", secret_name(cluster), namespace=SYSTEM_NAMESPACE, type="Opaque", data=data)


def secret_name(cluster: str) -> str:
    return f"{cluster}-agent"


class StoredRecord(msgspec.Struct, frozen=True):
    record: AgentRecord
    version: str


class AgentRecords:
    """Reads and writes records on the control plane."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def read(self, cluster: str) -> StoredRecord | None:
        try:
            found = await self._client.get(SECRETS, secret_name(cluster), SYSTEM_NAMESPACE)
        except KubeStatusError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return StoredRecord(_decoded(cluster, found), text_at(found, "metadata", "resourceVersion"))

    async def write(self, cluster: str, record: AgentRecord, version: str) -> bool:
        """Whether it was written: not, where somebody else was first."""
        packed = base64.b64encode(msgspec.json.encode(record)).decode()
        patch = {"metadata": {"resourceVersion": version}, "data": {_KEY: packed}}
        try:
            await self._client.merge(SECRETS, secret_name(cluster), SYSTEM_NAMESPACE, patch)
        except KubeStatusError as error:
            if error.status in {_CONFLICT, _NOT_FOUND}:
                return False
            raise
        return True


def _decoded(cluster: str, found: Manifest) -> AgentRecord:
    try:
        content = base64.b64decode(text_at(found, "data", _KEY), validate=True)
        return msgspec.json.decode(content, type=AgentRecord)
    except (ValueError, msgspec.MsgspecError):
        raise TunnelError(f"Secret {secret_name(cluster)}: data.{_KEY} is not the record of an agent") from None
