"""Genuine Envoy AI Gateway beside Envoy Gateway: it teaches that one what an InferencePool is.

Envoy Gateway calls its controller for every translation. Both insist on one port for metrics, so each has an annex.
Gateways are no pods here, so its webhook, which adds a container to them, is registered for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from typing import TYPE_CHECKING

from lab.annex import open_annex
from lab.cluster import ADMIN, LOOPBACK
from lab.components import AI_GATEWAY
from lab.schedulers.parts import READY_WITHIN_S, define, namespace
from lab.supervisor import Program

if TYPE_CHECKING:
    from lab.client import Api, Manifest
    from lab.cluster import Cluster
    from lab.manifests import Sources
    from lab.supervisor import Probe, Supervisor

_NAMESPACE = "envoy-ai-gateway-system"
_KINDS = "manifests/charts/ai-gateway-crds-helm/templates"
_WEBHOOK = f"envoy-ai-gateway-gateway-pod-mutator.{_NAMESPACE}"
_PORT, _WEBHOOK_PORT = 1063, 9443
_NAME = "ai-gateway"


def extension_manager(address: str) -> Manifest:
    """What Envoy Gateway has to know of it: where it is, what it changes, and the kind of backend that it brings."""
    return {
        "backendResources": [{"group": "inference.networking.k8s.io", "kind": "InferencePool", "version": "v1"}],
        "hooks": {
            "xdsTranslator": {
                "post": ["Translation", "Cluster", "Route"],
                "translation": {name: {"includeAll": True} for name in ("listener", "route", "cluster", "secret")},
            }
        },
        "service": {"ip": {"address": address, "port": _PORT}},
    }


async def bring_up(supervisor: Supervisor, cluster: Cluster, api: Api, sources: Sources, number: int) -> str:
    """Returns when Envoy Gateway can call it, with the address. `number` is that of its annex."""
    await define(api, sources.read(AI_GATEWAY, _KINDS))
    await api.apply(namespace(_NAMESPACE))
    await api.apply(_webhook())
    annex = await open_annex(supervisor, cluster.program(_NAME), number)
    access = annex.access(cluster, cluster.access(*ADMIN))
    folder = cluster.folder / _NAME
    folder.mkdir(exist_ok=True)
    for name in ("tls.crt", "tls.key"):
        shutil.copyfile(cluster.folder / "keys" / name, folder / name)
    (folder / "ca.crt").write_bytes(cluster.keys.authority.pair.certificate)
    command = (
        str(cluster.binary(_NAME)),
        "--enableLeaderElection=false",
        f"--port=:{_PORT}",
        f"--webhookPort={_WEBHOOK_PORT}",
        f"--tlsCertDir={folder}",
    )
    environment = {
        "KUBECONFIG": str(cluster.write_kubeconfig(_NAME, access)),
        "POD_NAMESPACE": _NAMESPACE,
    }
    probe = _accepts(annex.inside, _PORT)
    program = Program(cluster.program(_NAME), annex.enter(command), probe, environment, ready_within_s=READY_WITHIN_S)
    await supervisor.start(program)
    return annex.inside


def _webhook() -> Manifest:
    """The program wants it to be there, with one entry."""
    entry = {
        "name": "gateway-pod-mutator.envoyproxy.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"https://{LOOPBACK}:{_WEBHOOK_PORT}/mutate"},
        "failurePolicy": "Ignore",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": _NAMESPACE}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "sideEffects": "None",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": _WEBHOOK},
        "webhooks": [entry],
    }


def _accepts(address: str, port: int) -> Probe:
    async def probe() -> bool:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(address, port)
            writer.close()
            return True
        return False

    return probe
