"""The control cluster: Crossplane with its package manager and usages webhook, and provider-kubernetes.

Crossplane runs with its external package runtime, in which somebody else owes each active revision a process, a
serving certificate and a few words of status. `Runtime` is that somebody: it looks for active revisions for as long as
the lab lives, so an upgraded package gets what a first one got.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import aiohttp

from lab import rights
from lab.certificates import Authority, Pair, write_private
from lab.charts import packed_charts, publish, tls_context
from lab.client import Access, Api, ApiError, Manifest, condition, items, text, until
from lab.cluster import ADMIN, LOOPBACK, Cluster, answers, listens
from lab.components import CROSSPLANE, GATEWAY_API, PROVIDER_HELM, PROVIDER_KUBERNETES
from lab.gateway_kinds import envoy_gateway_kinds
from lab.registry import Registry
from lab.supervisor import Program, ProgramError, Supervisor
from lab.workload import addressed, binding
from modelplane.crossplane.packaging import PROVIDER_HELM as INSTALLED_PROVIDER_HELM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lab.components import Module
    from lab.manifests import Sources

SYSTEM = "crossplane-system"
REGISTRY_PORT = 21060
CHARTS_PORT = 21070
METRICS_PORT, PROBE_PORT, WEBHOOK_PORT = 21020, 21021, 21022
FUNCTION_PORT = 21030
_INIT_TRIES = 5
_TOKEN_S = 720 * 3600
_WATCH_S = 0.3


@dataclass(frozen=True, slots=True)
class Control:
    """What a scenario needs to know of a control cluster that is up."""

    cluster: Cluster
    authority: Authority
    registry: Registry
    derives_rights: bool
    """Whether Crossplane's RBAC manager runs."""
    charts: bool = False
    """Whether provider-helm runs, with a repository of charts."""
    has_gateway_class: bool = False
    """Whether the lab brings the fleet's GatewayClass itself."""


async def bring_up(
    supervisor: Supervisor,
    cluster: Cluster,
    registry: Registry,
    sources: Sources,
    say: Callable[[str], None],
    *,
    own_network: bool,
) -> Control:
    """Returns when Crossplane serves, its usages webhook is registered and provider-kubernetes is Healthy.

    Without a network of its own there is no place for the RBAC manager.
    """
    async with asyncio.TaskGroup() as group:
        for program in (cluster.etcd(), cluster.api_server(), cluster.controller_manager(workloads=False)):
            group.create_task(supervisor.start(program))
    async with Api(cluster.access(*ADMIN)) as api:
        authority = await _crossplane(supervisor, cluster, api, sources)
        say(f"{cluster.name}: Crossplane {CROSSPLANE.version} serves")
        control = Control(cluster, authority, registry, derives_rights=own_network)
        await registry.start(LOOPBACK, REGISTRY_PORT)
        async with asyncio.TaskGroup() as group:
            group.create_task(_gateway_kinds(api, sources))
            if control.derives_rights:
                group.create_task(_rights(supervisor, cluster, api, sources))
            group.create_task(_provider(supervisor, control, api, sources, _KUBERNETES_PROVIDER))
    say(f"{cluster.name}: provider-kubernetes {PROVIDER_KUBERNETES.version} Healthy")
    return control


async def add_charts(supervisor: Supervisor, control: Control, sources: Sources, say: Callable[[str], None]) -> Control:
    """Returns when provider-helm is Healthy and the charts that can be had are served."""
    await _serve_charts(control)
    async with Api(control.cluster.access(*ADMIN)) as api:
        await _provider(supervisor, control, api, sources, _HELM_PROVIDER)
    say(f"{control.cluster.name}: provider-helm {PROVIDER_HELM.version} Healthy")
    return replace(control, charts=True)


async def _serve_charts(control: Control) -> None:
    """Over HTTPS: provider-helm trusts the authority of the control cluster."""
    folder = control.cluster.folder / "charts"
    control.authority.server("charts").write(folder)
    write_private(folder / "ca.crt", control.authority.pair.certificate)
    repository = Registry()
    publish(repository, await asyncio.to_thread(packed_charts), f"https://{LOOPBACK}:{CHARTS_PORT}")
    await repository.start(LOOPBACK, CHARTS_PORT, tls_context(folder / "tls.crt", folder / "tls.key"))


async def _rights(supervisor: Supervisor, cluster: Cluster, api: Api, sources: Sources) -> None:
    await rights.prepare(api, sources, SYSTEM)
    await rights.start(supervisor, cluster, await token_access(cluster, api, rights.ACCOUNT))


async def _gateway_kinds(api: Api, sources: Sources) -> None:
    await api.apply_all(sources.read(GATEWAY_API, "config/crd/standard"))
    await envoy_gateway_kinds(api, sources)


async def _crossplane(supervisor: Supervisor, cluster: Cluster, api: Api, sources: Sources) -> Authority:
    await api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})
    account: Manifest = {"kind": "ServiceAccount", "name": "crossplane", "namespace": SYSTEM}
    await api.apply(rights.service_account("crossplane", SYSTEM))
    roles = rights.chart_roles(sources.folder(CROSSPLANE), "clusterrole.yaml")
    await api.apply_all([*roles, binding("crossplane", account)])
    await _initialise(supervisor, cluster, sources)
    authority = Authority(await secret_pair(api, "crossplane-root-ca"))
    certificates = await _write_certificates(cluster, api, authority)
    kubeconfig = cluster.write_kubeconfig("crossplane", await token_access(cluster, api, "crossplane"))
    command = (
        str(cluster.binary("crossplane")),
        "core",
        "start",
        "--package-runtime=External",
        f"--xpkg-cache-dir={_folder(cluster, 'packages')}",
        f"--tls-client-certs-dir={certificates / 'client'}",
        "--enable-webhooks",
        f"--tls-server-certs-dir={certificates / 'server'}",
        f"--metrics-port={METRICS_PORT}",
        f"--health-probe-port={PROBE_PORT}",
        f"--webhook-port={WEBHOOK_PORT}",
        "--max-concurrent-reconciles=4",  # more of them fight over the processors and finish later
        # A deployment of two replicas is the subject of 137 watch events until it serves. By default a burst of 100
        # opens the breaker for five minutes, in which not even a change of the composite's own spec is acted on.
        "--circuit-breaker-burst=1000",
        "--circuit-breaker-refill-rate=20",
    )
    probe = answers(f"http://{LOOPBACK}:{PROBE_PORT}/readyz")
    await supervisor.start(Program("crossplane", command, probe, {"KUBECONFIG": str(kubeconfig)}))
    hooks = sources.read(CROSSPLANE, "cluster/webhookconfigurations/usage.yaml")
    await api.apply_all(addressed(hooks, WEBHOOK_PORT, authority.pair.certificate))
    return authority


def _folder(cluster: Cluster, name: str) -> Path:
    folder = cluster.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


async def _initialise(supervisor: Supervisor, cluster: Cluster, sources: Sources) -> None:
    """`core init` loses a race with the discovery of its kinds on an empty cluster; a pod would be restarted too."""
    command = (
        str(cluster.binary("crossplane")),
        "core",
        "init",
        f"--cr-ds-path={sources.folder(CROSSPLANE) / 'cluster/crds'}",
        "--enable-webhooks=false",  # it insists on a Service; the webhook is registered by address instead
        "--tlsca-secret-name=crossplane-root-ca",
        "--tls-client-secret-name=crossplane-tls-client",
        "--activation=*",
    )
    for _ in range(_INIT_TRIES):
        if await supervisor.run_once("crossplane-init", command, {"KUBECONFIG": str(cluster.kubeconfig)}) == 0:
            return
        await asyncio.sleep(0.5)
    raise ProgramError(f"`crossplane core init` keeps failing:\n{supervisor.tail('crossplane-init')}")


async def secret_data(api: Api, name: str) -> dict[str, bytes]:
    found = await api.get("v1", "Secret", name, namespace=SYSTEM)
    data = (found or {}).get("data")
    return {key: base64.b64decode(str(content)) for key, content in data.items()} if isinstance(data, dict) else {}


async def secret_pair(api: Api, name: str) -> Pair:
    data = await secret_data(api, name)
    return Pair(data["tls.crt"], data["tls.key"])


async def _write_certificates(cluster: Cluster, api: Api, authority: Authority) -> Path:
    folder = cluster.folder / "crossplane"
    client = await secret_data(api, "crossplane-tls-client")
    Pair(client["tls.crt"], client["tls.key"]).write(folder / "client")
    write_private(folder / "client" / "ca.crt", client["ca.crt"])
    authority.server("crossplane").write(folder / "server")
    write_private(folder / "server" / "ca.crt", authority.pair.certificate)
    return folder


async def token_access(cluster: Cluster, api: Api, account: str, namespace: str = SYSTEM) -> Access:
    """As a ServiceAccount, by a token such as a kubelet would mount."""
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": _TOKEN_S}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    token = text(await api.call("POST", path, body=asked), "status", "token")
    return Access(cluster.server, cluster.keys.authority.pair.certificate, token=token)


@dataclass(frozen=True, slots=True)
class _Provider:
    """A provider that is built here, and the tag under which the product's install asks for it."""

    name: str
    module: Module
    tag: str
    kind: tuple[str, str]
    """An API version and a kind of it that it reconciles."""
    arguments: tuple[str, ...]
    port: int | None = None
    """Where it listens once it serves. None: nowhere."""


_KUBERNETES_PROVIDER = _Provider(
    "provider-kubernetes",
    PROVIDER_KUBERNETES,
    PROVIDER_KUBERNETES.version,
    ("kubernetes.m.crossplane.io/v1alpha1", "Object"),
    ("--enable-watches", "--poll=1m", "--sanitize-secrets"),
    9443,
)
# The module of the version that the product installs cannot be had: the nearest one stands for it, under that tag.
_HELM_PROVIDER = _Provider(
    "provider-helm",
    PROVIDER_HELM,
    INSTALLED_PROVIDER_HELM,
    ("helm.m.crossplane.io/v1beta1", "Release"),
    ("--poll=30s", "--debug"),
)


async def _provider(supervisor: Supervisor, control: Control, api: Api, sources: Sources, provider: _Provider) -> None:
    name = provider.name
    package = sources.read(provider.module, "package/crossplane.yaml")
    package += sources.read(provider.module, "package/crds")
    control.registry.add_manifests(f"lab/{name}", provider.tag, package)
    folder = await serving_certificate(control, api, name)
    await api.apply(package_manifest("Provider", name, f"lab/{name}:{provider.tag}"))
    await until(f"{name} revision", lambda: _settled(api, name))
    await until(f"the kind {provider.kind[1]}", lambda: _serves(api, *provider.kind))
    kubeconfig = control.cluster.kubeconfig
    if control.derives_rights:
        await rights.own_account(api, name, SYSTEM)
        kubeconfig = control.cluster.write_kubeconfig(name, await token_access(control.cluster, api, name))
    command = (str(control.cluster.binary(name)), *provider.arguments)
    environment = {
        "KUBECONFIG": str(kubeconfig),
        "TLS_SERVER_CERTS_DIR": str(folder),
        # Go reads this where it would read the machine's authorities.
        "SSL_CERT_FILE": str(control.cluster.folder / "charts" / "ca.crt"),
    }
    probe = listens(provider.port) if provider.port is not None else _always
    await supervisor.start(Program(name, command, probe, environment))
    await until(f"{name} Healthy", lambda: package_healthy(api, "Provider", name))


async def _settled(api: Api, package: str) -> bool:
    return package in await settle_revisions(api, {})


async def _always() -> bool:
    return True


async def _serves(api: Api, api_version: str, kind: str) -> bool:
    found = await api.kind(api_version, kind)
    await api.call("GET", found.path(None))
    return True


def package_manifest(kind: str, name: str, reference: str) -> Manifest:
    return {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"package": f"{LOOPBACK}:{REGISTRY_PORT}/{reference}"},
    }


async def package_healthy(api: Api, kind: str, name: str) -> bool:
    found = await api.get("pkg.crossplane.io/v1", kind, name)
    return condition(found, "Installed") == "True" and condition(found, "Healthy") == "True"


async def serving_certificate(control: Control, api: Api, name: str) -> Path:
    """A certificate that Crossplane trusts: in a folder for the process, in a Secret for the package manager."""
    pair = control.authority.server(name)
    folder = control.cluster.folder / name
    pair.write(folder)
    write_private(folder / "ca.crt", control.authority.pair.certificate)
    content = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": control.authority.pair.certificate}
    await api.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{name}-tls-server", "namespace": SYSTEM},
            "type": "kubernetes.io/tls",
            "data": {key: base64.b64encode(each).decode() for key, each in content.items()},
        }
    )
    return folder


async def settle_revisions(api: Api, endpoints: Mapping[str, str]) -> set[str]:
    """Give every active revision what its runtime owes it; the packages that have one."""
    seen: set[str] = set()
    for kind in ("ProviderRevision", "FunctionRevision"):
        for revision in await api.list("pkg.crossplane.io/v1", kind):
            if text(revision, "spec", "desiredState") == "Active":
                seen.add(text(revision, "metadata", "labels", "pkg.crossplane.io/package"))
                await _settle(api, revision, endpoints)
    return seen


async def _settle(api: Api, revision: Manifest, endpoints: Mapping[str, str]) -> None:
    package = text(revision, "metadata", "labels", "pkg.crossplane.io/package")
    wanted = {"tlsServerSecretName": f"{package}-tls-server"}
    if package in endpoints:
        wanted["endpoint"] = endpoints[package]
    kept = [each for each in items(revision, "status", "conditions") if not str(each["type"]).startswith("Runtime")]
    settled = all(text(revision, "status", key) == value for key, value in wanted.items())
    if settled and len(items(revision, "status", "conditions")) > len(kept):
        return
    await api.patch(
        revision, {"status": {**wanted, "conditions": [*kept, *_runtime_conditions()]}}, subresource="status"
    )


def _runtime_conditions() -> list[Manifest]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    reasons = {"RuntimeHealthy": "HealthyPackageRuntime", "RuntimeActive": "ActiveRuntime"}
    return [
        {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": now}
        for kind, reason in reasons.items()
    ]


class Runtime:
    """The package runtime: keeps settling revisions until it is cancelled. Function endpoints may be added later."""

    def __init__(self, cluster: Cluster) -> None:
        """Acts on this cluster as its administrator."""
        self._cluster = cluster
        self.endpoints: dict[str, str] = {}

    async def run(self) -> None:
        async with Api(self._cluster.access(*ADMIN)) as api:
            while True:
                # The API server may be the one that a test has just killed.
                with contextlib.suppress(ApiError, aiohttp.ClientError, OSError, TimeoutError):
                    await settle_revisions(api, self.endpoints)
                await asyncio.sleep(_WATCH_S)
