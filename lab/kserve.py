"""Genuine KServe on a workload cluster: its controller of LLMInferenceServices with its webhooks and its presets.

Its other controllers (InferenceServices, local models) are left out. A kubelet would mount the certificate of its
webhooks; here it is a file where the controller looks for one.
"""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

from lab.cluster import LOOPBACK, answers
from lab.components import KSERVE
from lab.gateway import CONTROLLER, GATEWAY_API
from lab.schedulers.parts import READY_WITHIN_S, define, namespace
from lab.supervisor import Program
from lab.workload import addressed, bound_roles
from modelplane.compose.inference_cluster import GATEWAY_CLASS

if TYPE_CHECKING:
    from lab.client import Api, Manifest
    from lab.cluster import Cluster
    from lab.manifests import Sources
    from lab.supervisor import Supervisor

_USER, _NAMESPACE = "llmisvc", "kserve"
_DEFINITIONS = (
    "config/crd/full/llmisvc/serving.kserve.io_llminferenceservices.yaml",
    "config/crd/full/llmisvc/serving.kserve.io_llminferenceserviceconfigs.yaml",
    "config/crd/full/clusterstoragecontainer/serving.kserve.io_clusterstoragecontainers.yaml",
)
_CERTIFICATES = "k8s-webhook-server/serving-certs"
"""Below the folder of temporary files."""


async def bring_up(supervisor: Supervisor, cluster: Cluster, api: Api, sources: Sources) -> None:
    """Returns when LLMInferenceServices are admitted and reconciled."""
    await define(api, [item for place in _DEFINITIONS for item in sources.read(KSERVE, place)])
    await api.apply(namespace(_NAMESPACE))
    await api.apply(_gateway_class())
    await api.apply_all(sources.read(KSERVE, "config/configmap/inferenceservice.yaml"))
    await api.apply_all(bound_roles(sources.read(KSERVE, "config/rbac/llmisvc/role.yaml"), _USER))
    await supervisor.start(_program(cluster))
    hooks = sources.read(KSERVE, "config/webhook/llmisvc/manifests.yaml")
    await api.apply_all(addressed(hooks, cluster.ports.kserve_webhook, cluster.keys.authority.pair.certificate))
    presets = await asyncio.to_thread(sources.kustomized, KSERVE, "config/llmisvcconfig", cluster.binary("kubectl"))
    await api.apply_all(presets)


def _gateway_class() -> Manifest:
    """KServe reads the class of a Gateway that it is told of; the lab's controller takes Gateways of any."""
    return {
        "apiVersion": GATEWAY_API,
        "kind": "GatewayClass",
        "metadata": {"name": GATEWAY_CLASS},
        "spec": {"controllerName": CONTROLLER},
    }


def _program(cluster: Cluster) -> Program:
    temporary = cluster.folder / "kserve"
    certificates = temporary / _CERTIFICATES
    certificates.mkdir(parents=True, exist_ok=True)
    for name in ("tls.crt", "tls.key"):
        shutil.copyfile(cluster.folder / "keys" / name, certificates / name)
    health = f"{LOOPBACK}:{cluster.ports.kserve_health}"
    command = (
        str(cluster.binary("llmisvc")),
        "--metrics-addr=0",
        "--metrics-secure=false",
        f"--health-probe-addr={health}",
        f"--webhook-port={cluster.ports.kserve_webhook}",
    )
    environment = {
        "KUBECONFIG": str(cluster.write_kubeconfig(_USER, cluster.access(_USER))),
        "POD_NAMESPACE": _NAMESPACE,
        "TMPDIR": str(temporary),
    }
    ready = answers(f"http://{health}/readyz")
    return Program(cluster.program(_USER), command, ready, environment, ready_within_s=READY_WITHIN_S)
