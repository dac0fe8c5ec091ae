"""Mutual TLS between gateways: certificates of genuine cert-manager, a fleet that moves to them while it serves."""

from __future__ import annotations

import base64
import json
import ssl
from typing import TYPE_CHECKING

import aiohttp

from lab.certificates import Pair, new_authority
from lab.client import Manifest, condition, items, text, value
from lab.e2e.services import GATEWAY, MODEL, Door, open_door, sending
from lab.e2e.steps import expect
from lab.e2e.world import OURS, World
from modelplane.api.labels import CLUSTER_GATEWAY, DEFAULT_GATEWAY, FLEET_GATEWAY, REPLICA_HEADER, SYSTEM_NAMESPACE
from modelplane.compose.hop_certificates import API, hop_hostname

if TYPE_CHECKING:
    from pathlib import Path

_GATEWAY_API = "gateway.networking.k8s.io/v1"
_OK = 200
_MOVED_S = 300.0


async def mutual_tls(world: World) -> str:
    """Moves a fleet that serves to mutual TLS and back. A cluster's gateway refuses who has no certificate."""
    async with open_door(world) as door:
        async with sending(door) as there:
            await _turn(world, {"issuer": "CertManager"})
            await world.wait("HTTPS alone on every cluster", lambda: _listen(world, ["https"]), within_s=_MOVED_S)
            await world.wait("an answer", lambda: door.answers(MODEL))
        expect(set(there) == {_OK}, f"on the way to mutual TLS: {dict(there)}")
        refused = [await _refusals(world, site) for site in world.sites]
        await _keys_stay(world)
        renewed = await _renewed(world, door)
        async with sending(door) as back:
            await _turn(world, None)
            await world.wait("HTTP alone on every cluster", lambda: _listen(world, ["http"]), within_s=_MOVED_S)
            await world.wait("an answer", lambda: door.answers(MODEL))
        expect(set(back) == {_OK}, f"on the way back: {dict(back)}")
    told = f"{there.total()} and {back.total()} requests on the way there and back, all answered"
    return f"{told}; {'; '.join(refused)}; {renewed} requests across a renewal"


async def _turn(world: World, mutual: Manifest | None) -> None:
    await world.control.patch(GATEWAY, {"spec": {"mutualTLS": mutual}})
    for site in world.sites:
        cluster: Manifest = {"apiVersion": OURS, "kind": "InferenceCluster", "metadata": {"name": site}}
        await world.control.patch(cluster, {"spec": {"gateway": mutual and {"mutualTLS": mutual}}})


async def _listen(world: World, names: list[str]) -> bool:
    for api in world.sites.values():
        gateway = await api.get(_GATEWAY_API, "Gateway", CLUSTER_GATEWAY, namespace=SYSTEM_NAMESPACE)
        if [text(each, "name") for each in items(gateway, "spec", "listeners")] != names:
            return False
    return True


async def _refusals(world: World, site: str) -> str:
    """What a cluster's gateway says to callers that are not of the fleet."""
    cluster = await world.control.get(OURS, "InferenceCluster", site)
    address, authority = (text(cluster, "status", "gateway", name) for name in ("address", "caCertificate"))
    folder = world.places.state / "strangers"
    foreign = new_authority("stranger").client("stranger").write(folder)
    for who, pair in (("nobody", None), ("a stranger", foreign)):
        said = await _call(site, address, authority, pair)
        expect(not isinstance(said, int), f"{site} answered {who}: {said}")
    expect(isinstance(await _plain(address), str), f"{site} answers plain HTTP")
    own = await _fleet_pair(world, folder)
    said = await _call(site, address, authority, own)
    expect(isinstance(said, int), f"{site} refuses the fleet's own certificate: {said}")
    return f"{site} refused nobody's and a stranger's certificate and plain HTTP, and let in the fleet's ({said})"


async def _call(site: str, address: str, authority: str, pair: tuple[Path, Path] | None) -> int | str:
    """The status, or why there is none."""
    context = ssl.create_default_context(cadata=authority)
    if pair is not None:
        context.load_cert_chain(*pair)
    return await _get(f"https://{address}/v1/models", ssl=context, server_hostname=hop_hostname(site))


async def _plain(address: str) -> int | str:
    return await _get(f"http://{address}/v1/models")


async def _get(url: str, **options: object) -> int | str:
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10.0)) as session,
            session.get(url, headers={REPLICA_HEADER: "none/none"}, **options) as response,  # type: ignore[arg-type]  # two options of one type each
        ):
            return response.status
    except (aiohttp.ClientError, OSError) as error:
        return f"{type(error).__name__}: {error}"


async def _fleet_pair(world: World, folder: Path) -> tuple[Path, Path]:
    secret = await _client_secret(world)
    certificate, key = (base64.b64decode(text(secret, "data", name)) for name in ("tls.crt", "tls.key"))
    return Pair(certificate, key).write(folder / "fleet")


async def _client_name(world: World) -> str:
    """Of the certificate that the fleet's gateway shows, and of its Secret."""
    gateway = await world.control.get(_GATEWAY_API, "Gateway", FLEET_GATEWAY, namespace=SYSTEM_NAMESPACE)
    return text(gateway, "spec", "tls", "backend", "clientCertificateRef", "name")


async def _client_secret(world: World) -> Manifest:
    found = await world.control.get("v1", "Secret", await _client_name(world), namespace=SYSTEM_NAMESPACE)
    expect(found is not None, "cert-manager issued no certificate for the fleet's gateway")
    return found or {}


async def _keys_stay(world: World) -> None:
    """No object that travels between clusters has a key in it; the CAs are there."""
    travelling = [
        *await world.control.list("kubernetes.m.crossplane.io/v1alpha1", "Object"),
        *await world.control.list(OURS, "InferenceCluster"),
        *await world.control.list(OURS, "InferenceGateway"),
        *await world.control.list("v1", "ConfigMap"),
    ]
    expect("PRIVATE KEY" not in json.dumps(travelling), "a key travelled")
    gateway = await world.control.get(OURS, "InferenceGateway", DEFAULT_GATEWAY)
    expect(bool(text(gateway, "status", "clientCACertificate")), "the gateway's CA is not in its status")


async def _renewed(world: World, door: Door) -> int:
    """cert-manager renews the gateway's certificate, as its own command asks it to; requests go on."""
    name, before = await _client_name(world), text(await _client_secret(world), "data", "tls.crt")
    certificate = await world.control.get(API, "Certificate", name, namespace=SYSTEM_NAMESPACE)
    known = [each for each in items(certificate, "status", "conditions") if text(each, "type") != "Issuing"]
    asked = {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "asked by the lab"}
    status = {"conditions": [*known, {**asked, "observedGeneration": value(certificate, "metadata", "generation")}]}

    async def is_new() -> bool:
        found = await world.control.get(API, "Certificate", name, namespace=SYSTEM_NAMESPACE)
        fresh = text(await _client_secret(world), "data", "tls.crt") != before
        return fresh and condition(found, "Ready") == "True"

    async with sending(door) as across:
        await world.control.patch(certificate or {}, {"status": status}, subresource="status")
        await world.wait("a new certificate", is_new, within_s=120.0)
        await world.wait("an answer", lambda: door.answers(MODEL))
    expect(set(across) == {_OK}, f"across a renewal: {dict(across)}")
    return across.total()
