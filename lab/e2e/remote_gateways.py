"""An InferenceGateway on a workload cluster: its objects and Secrets there, requests through it, and nothing left."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from typing import TYPE_CHECKING

import aiohttp

from lab.certificates import new_authority
from lab.client import Manifest, condition, items, name_of, text, until, value
from lab.e2e.steps import DEPLOYMENT, SERVICE, expect, remove
from lab.e2e.world import OURS, World
from modelplane.api.codec import decode
from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.api.models import InferenceGateway
from modelplane.compose.caller_keys import keys_name

if TYPE_CHECKING:
    from lab.certificates import Authority, Pair

_NAME, _HOST = "beside", "beside.example"
_KEYS = {"lab.modelplane.ai/keys": "beside"}
_FRONT, _CALLERS = "beside-front", "beside-callers"
_OBJECTS = "kubernetes.m.crossplane.io/v1alpha1"
_COPIED = "modelplane.ai/copied-from"
_WITHIN_S, _CALM_S, _OK = 240.0, 20.0, 200


async def on_cluster(world: World) -> str:
    """Both gateways serve one service; copies of certificates and keys follow their originals; all of it leaves."""
    site = min(world.sites)
    authority = new_authority("lab beside")
    for secret in (_front(authority.server(_HOST, dns=(_HOST,), addresses=())), _callers("first-canary")):
        await world.control.apply(secret)
    gateway = _gateway(site)
    await world.control.apply(gateway)
    addressed = await until("the gateway's address", lambda: _address(world), within_s=_WITHIN_S)
    accepted = await until("its route", lambda: _serves(world), within_s=_WITHIN_S)
    answered = await until("an answer through it", lambda: _answers(world, authority), within_s=_WITHIN_S)
    await until("the callers' copy", lambda: _has_key(world, site, "first-canary"), within_s=_WITHIN_S)
    await world.control.apply(_callers("second-canary"))
    followed = await until("the changed key", lambda: _has_key(world, site, "second-canary"), within_s=_WITHIN_S)
    renewed = authority.server(_HOST, dns=(_HOST,), addresses=())
    await world.control.apply(_front(renewed))
    await until("the renewed certificate", lambda: _has_certificate(world, site, renewed), within_s=_WITHIN_S)
    await asyncio.sleep(_CALM_S)
    expect(await _has_certificate(world, site, renewed), "what created the certificate's copy took its values away")
    expect(await _answers(world, authority), "no answer after the certificate was renewed")
    count = await _synced(world)
    await _held(world, site)
    await remove(world, [gateway])
    gone = await until("nothing of it on the cluster", lambda: _left(world, site), within_s=_WITHIN_S)
    await remove(world, [_callers(""), _front(renewed)])
    return (
        f"address after {addressed:.1f} s, a route after {accepted:.1f} s, an answer {answered:.1f} s later; "
        f"a changed key was there after {followed:.1f} s; {count} Objects without a value in any; gone {gone:.1f} s "
        "after its deletion"
    )


def _gateway(site: str) -> Manifest:
    selector = {"matchLabels": _KEYS}
    spec = {
        "clusterName": site,
        "hostname": _HOST,
        "tls": {"certificateRefs": [{"name": _FRONT}]},
        "auth": {"method": "APIKey", "apiKey": {"secretSelector": selector}},
        "router": {"replicas": 1, "image": "modelplane-router:lab"},
    }
    return {"apiVersion": OURS, "kind": "InferenceGateway", "metadata": {"name": _NAME}, "spec": spec}


def _secret(name: str, data: dict[str, bytes], **more: object) -> Manifest:
    encoded = {key: base64.b64encode(content).decode() for key, content in data.items()}
    metadata = {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": more.pop("labels", {})}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded, **more}


def _front(pair: Pair) -> Manifest:
    return _secret(_FRONT, {"tls.crt": pair.certificate, "tls.key": pair.key}, type="kubernetes.io/tls")


def _callers(key: str) -> Manifest:
    return _secret(_CALLERS, {"ada": key.encode()}, labels=_KEYS)


async def _found(world: World) -> Manifest:
    return await world.control.get(OURS, "InferenceGateway", _NAME, namespace="") or {}


async def _address(world: World) -> bool:
    return bool(text(await _found(world), "status", "address"))


async def _serves(world: World) -> bool:
    service = await world.control.get(OURS, "ModelService", SERVICE)
    shown = {text(each, "name"): each for each in items(service, "status", "gateways")}
    return all(
        name in shown and shown[name].get("accepted") is True and int(text(shown[name], "endpoints") or 0) > 0
        for name in ("default", _NAME)
    )


async def _answers(world: World, authority: Authority) -> bool:
    trust = ssl.create_default_context(cadata=authority.pair.certificate.decode())
    address = text(await _found(world), "status", "address")
    body = {"model": DEPLOYMENT, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20.0)) as session:
        try:
            url = f"https://{address}/default/{SERVICE}/v1/chat/completions"
            async with session.post(
                url, json=body, headers={"host": _HOST}, ssl=trust, server_hostname=_HOST
            ) as response:
                return response.status == _OK
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False


def _checked() -> str:
    """The Secret of the keys that hold, which is what is copied."""
    return keys_name(decode(InferenceGateway, _gateway("")))


async def _copies(world: World, site: str, name: str) -> list[Manifest]:
    found = await world.sites[site].list("v1", "Secret", namespace=SYSTEM_NAMESPACE)
    return [item for item in found if value(item, "metadata", "annotations", _COPIED) == f"{SYSTEM_NAMESPACE}/{name}"]


async def _has_key(world: World, site: str, key: str) -> bool:
    found = await _copies(world, site, _checked())
    return [base64.b64decode(text(item, "data", "ada")).decode() for item in found] == [key]


async def _has_certificate(world: World, site: str, pair: Pair) -> bool:
    found = await _copies(world, site, _FRONT)
    return [base64.b64decode(text(item, "data", "tls.crt")) for item in found] == [pair.certificate]


async def _synced(world: World) -> int:
    """How many Objects there are; each is Synced, and none has a value."""
    objects = [item for item in await world.control.list(_OBJECTS, "Object") if "beside" in json.dumps(item["spec"])]
    broken = [f"{name_of(each)}: {each.get('status')}" for each in objects if condition(each, "Synced") != "True"]
    expect(not broken, f"Objects that are not Synced: {broken[:3]}")
    shown = json.dumps(objects)
    values = [base64.b64encode(key).decode() for key in (b"first-canary", b"second-canary")]
    expect(not [each for each in ("PRIVATE KEY", "LS0tLS1CRUdJTi", *values) if each in shown], "a value in an Object")
    return len(objects)


async def _held(world: World, site: str) -> None:
    """The cluster is not deleted under the gateway."""
    usages = await world.control.list("protection.crossplane.io/v1beta1", "ClusterUsage")
    named = [each for each in usages if text(each, "spec", "of", "resourceRef", "name") == site]
    expect([each for each in named if _NAME in text(each, "spec", "reason")], "no Usage of the cluster by the gateway")


async def _left(world: World, site: str) -> bool:
    api = world.sites[site]
    objects = await api.list("gateway.networking.k8s.io/v1", "Gateway")
    objects += await api.list("gateway.networking.k8s.io/v1", "HTTPRoute")
    objects += await api.list("gateway.envoyproxy.io/v1alpha1", "Backend")
    objects += await _copies(world, site, _FRONT) + await _copies(world, site, _checked())
    return not [item for item in objects if _is_ours(item)]


def _is_ours(item: Manifest) -> bool:
    """Replicas and the cluster's own gateway have a name that the fleet's do not."""
    return item["kind"] in {"Backend", "Secret"} or _NAME in name_of(item) or name_of(item).startswith("modelplane-")
