"""The processes of one Kubernetes cluster without kubelets: what to run, with which flags, and when each is ready.

Every identity is a client certificate: the API server authorises by RBAC as in production, and upstream's own
ClusterRoles are bound to users instead of ServiceAccounts, since nothing here mounts tokens.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

from lab.certificates import Authority, Pair, new_authority, service_account_keys, write_private
from lab.client import Access
from lab.supervisor import Probe, Program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOOPBACK = "127.0.0.1"
ADMIN = ("admin", "system:masters")
_PROBE_TIMEOUT_S = 2.0
_OK = 200
# The controllers that a cluster without workloads needs; the others would only use time.
_CONTROL_CONTROLLERS = (
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "clusterrole-aggregation-controller",
    "root-ca-certificate-publisher-controller",
)
# The default of 20 requests a second would make every measurement one of that limit.
_UNTHROTTLED = ("--kube-api-qps=500", "--kube-api-burst=1000")


@dataclass(frozen=True, slots=True)
class Ports:
    """One cluster's ports, counted from a base."""

    base: int

    @property
    def etcd(self) -> int:
        return self.base + 1

    @property
    def peers(self) -> int:
        return self.base + 2

    @property
    def api(self) -> int:
        return self.base + 3

    @property
    def controllers(self) -> int:
        return self.base + 4

    @property
    def scheduler(self) -> int:
        return self.base + 5

    @property
    def kwok(self) -> int:
        return self.base + 6

    @property
    def lws_webhook(self) -> int:
        return self.base + 7

    @property
    def lws_health(self) -> int:
        return self.base + 8

    @property
    def proxy(self) -> int:
        return self.base + 9

    @property
    def cert_manager(self) -> int:
        return self.base + 10

    @property
    def kserve_webhook(self) -> int:
        return self.base + 11

    @property
    def kserve_health(self) -> int:
        return self.base + 12


@dataclass(frozen=True, slots=True)
class Keys:
    """What a cluster's programs present to each other."""

    authority: Authority
    server: Pair
    service_accounts: Pair


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster's name, places and identities; its methods say what to run."""

    name: str
    ports: Ports
    folder: Path
    keys: Keys
    binary: Callable[[str], Path]
    host: str = LOOPBACK
    """Where the API server listens."""

    @property
    def server(self) -> str:
        return f"https://{LOOPBACK}:{self.ports.api}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.folder / "admin.kubeconfig"

    def access(self, user: str, *groups: str) -> Access:
        pair = self.keys.authority.client(user, *groups)
        return Access(self.server, self.keys.authority.pair.certificate, pair)

    def write_kubeconfig(self, name: str, access: Access) -> Path:
        path = self.folder / f"{name}.kubeconfig"
        write_private(path, access.kubeconfig().encode())
        return path

    def program(self, name: str) -> str:
        """The name under which the supervisor knows a program of this cluster."""
        return f"{self.name}-{name}"

    def etcd(self) -> Program:
        clients, peers = f"http://{LOOPBACK}:{self.ports.etcd}", f"http://{LOOPBACK}:{self.ports.peers}"
        command = (
            str(self.binary("etcd")),
            f"--name={self.name}",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",  # the data does not outlive the run
            "--log-level=error",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster={self.name}={peers}",
        )
        return Program(self.program("etcd"), command, answers(f"{clients}/health"))

    def api_server(self) -> Program:
        keys = self.folder / "keys"
        command = (
            str(self.binary("kube-apiserver")),
            f"--etcd-servers=http://{LOOPBACK}:{self.ports.etcd}",
            f"--bind-address={self.host}",
            f"--secure-port={self.ports.api}",
            f"--advertise-address={LOOPBACK}",
            "--endpoint-reconciler-type=none",  # it would publish an address on which nothing listens
            f"--tls-cert-file={keys / 'tls.crt'}",
            f"--tls-private-key-file={keys / 'tls.key'}",
            f"--client-ca-file={keys / 'ca.crt'}",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",  # as every cluster whose nodes have drivers
            f"--service-account-issuer={self.server}",
            f"--service-account-key-file={keys / 'sa.pub'}",
            f"--service-account-signing-key-file={keys / 'sa.key'}",
            "--service-cluster-ip-range=10.96.0.0/16",
        )
        probe = answers(f"{self.server}/readyz", self.access(*ADMIN).tls())
        return Program(self.program("apiserver"), command, probe, after=(self.program("etcd"),))

    def controller_manager(self, *, workloads: bool) -> Program:
        access = self.access("system:kube-controller-manager")
        keys = self.folder / "keys"
        chosen = () if workloads else (f"--controllers={','.join(_CONTROL_CONTROLLERS)}",)
        command = (
            str(self.binary("kube-controller-manager")),
            f"--kubeconfig={self.write_kubeconfig('controller-manager', access)}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.ports.controllers}",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={keys / 'sa.key'}",
            f"--root-ca-file={keys / 'ca.crt'}",
            *_UNTHROTTLED,
            *chosen,
        )
        probe = answers(f"https://{LOOPBACK}:{self.ports.controllers}/healthz", unverified())
        return Program(self.program("controller-manager"), command, probe, after=(self.program("apiserver"),))

    def scheduler(self) -> Program:
        command = (
            str(self.binary("kube-scheduler")),
            f"--kubeconfig={self.write_kubeconfig('scheduler', self.access('system:kube-scheduler'))}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.ports.scheduler}",
            "--leader-elect=false",
            *_UNTHROTTLED,
        )
        probe = answers(f"https://{LOOPBACK}:{self.ports.scheduler}/readyz", unverified())
        return Program(self.program("scheduler"), command, probe, after=(self.program("apiserver"),))


def new_cluster(
    name: str, base_port: int, folder: Path, binary: Callable[[str], Path], *, host: str = LOOPBACK
) -> Cluster:
    """A cluster with new keys, all of them on disk where its programs look for them."""
    authority = new_authority(f"lab-{name}")
    keys = Keys(authority, authority.server("kube-apiserver"), service_account_keys())
    keys.server.write(folder / "keys")
    keys.service_accounts.write(folder / "keys", names=("sa.pub", "sa.key"))
    write_private(folder / "keys" / "ca.crt", authority.pair.certificate)
    cluster = Cluster(name, Ports(base_port), folder, keys, binary, host)
    cluster.write_kubeconfig("admin", cluster.access(*ADMIN))
    return cluster


def unverified() -> ssl.SSLContext:
    """For health ports on loopback that make a certificate of their own at each start."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def answers(url: str, tls: ssl.SSLContext | None = None) -> Probe:
    """Whether a GET answers 200."""

    async def probe() -> bool:
        timeout = aiohttp.ClientTimeout(total=_PROBE_TIMEOUT_S)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, ssl=tls or True) as answer:
                return answer.status == _OK
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    return probe


def listens(port: int, host: str = LOOPBACK) -> Probe:
    """Whether something accepts connections."""

    async def probe() -> bool:
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                _, writer = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    return probe
