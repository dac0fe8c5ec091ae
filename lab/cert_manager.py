"""Genuine cert-manager on a cluster: its definitions, and the controllers that issue what a CA of the cluster signs.

Its webhook is left out. It refuses malformed objects, which the definitions do too where it matters here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.client import Api, Manifest, text
from lab.cluster import ADMIN, LOOPBACK, answers
from lab.components import CERT_MANAGER, ENVOY_GATEWAY
from lab.schedulers.parts import define
from lab.supervisor import Program

if TYPE_CHECKING:
    from lab.cluster import Cluster
    from lab.manifests import Sources
    from lab.supervisor import Supervisor

_DEFINITIONS = "deploy/crds"
_POLICIES = "charts/gateway-helm/charts/crds/crds/generated"


async def bring_up(supervisor: Supervisor, cluster: Cluster, sources: Sources) -> None:
    """Returns when it serves."""
    async with Api(cluster.access(*ADMIN)) as api:
        await define(api, [*sources.read(CERT_MANAGER, _DEFINITIONS), *_client_policies(sources)])
    kubeconfig = cluster.write_kubeconfig("cert-manager", cluster.access(*ADMIN))
    address = f"{LOOPBACK}:{cluster.ports.cert_manager}"
    command = (str(cluster.binary("cert-manager")), str(kubeconfig), address)
    await supervisor.start(Program(cluster.program("cert-manager"), command, answers(f"http://{address}/")))


def _client_policies(sources: Sources) -> list[Manifest]:
    """The definition of Envoy Gateway by which a cluster's gateway is told whom to let in."""
    found = sources.read(ENVOY_GATEWAY, _POLICIES)
    return [item for item in found if text(item, "spec", "names", "kind") == "ClientTrafficPolicy"]
