"""The hub and the agents of workload clusters: processes with the arguments, identities and Secrets of their pods.

The hub is called by the name of its Service, which is a name of the lab's own hosts file; so is the name that agents
dial. Nothing else of the control cluster knows where a workload cluster is.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from typing import TYPE_CHECKING

from lab.certificates import write_private
from lab.client import Api, items, text, value
from lab.cluster import ADMIN, LOOPBACK, answers, unverified
from lab.control import token_access
from lab.install import InstallError, apply_as_documented
from lab.supervisor import Program, Supervisor
from modelplane import __version__
from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.crossplane.hub_objects import HUB, PROXY_PORT
from modelplane.views.agent_objects import ACCOUNT, AGENT

if TYPE_CHECKING:
    from pathlib import Path

    from lab.client import Manifest
    from lab.cluster import Cluster
    from lab.control import Control

DIALLED = "hub.lab"
HOSTS = {DIALLED: (LOOPBACK,), f"{HUB}.{SYSTEM_NAMESPACE}.svc": (LOOPBACK,)}
PROGRAM = "hub"
_MOUNTED_CA = "--hub-ca=/hub/ca.crt"


async def start_hub(supervisor: Supervisor, control: Control) -> None:
    """Installs it by the documented command, and returns when it serves."""
    await asyncio.to_thread(apply_as_documented, control, __version__, f"--hub={DIALLED}")
    async with Api(control.cluster.access(*ADMIN)) as api:
        arguments = await _arguments(api, HUB)
        access = await token_access(control.cluster, api, HUB, SYSTEM_NAMESPACE)
    kubeconfig = control.cluster.write_kubeconfig(PROGRAM, access)
    where = (f"--kubeconfig={kubeconfig}", f"--address={LOOPBACK}")
    probe = answers(f"https://{LOOPBACK}:{PROXY_PORT}/healthz", unverified())
    await supervisor.start(Program(PROGRAM, _command("hub", *arguments, *where), probe, _environment()))


async def start_agent(supervisor: Supervisor, cluster: Cluster) -> str:
    """The agent that `modelplane cluster add` applied on the cluster; the name of its program."""
    folder = cluster.folder / AGENT
    async with Api(cluster.access(*ADMIN)) as api:
        arguments = await _arguments(api, AGENT)
        secret = await api.get("v1", "Secret", AGENT, namespace=SYSTEM_NAMESPACE)
        access = await token_access(cluster, api, ACCOUNT, SYSTEM_NAMESPACE)
    ca = _written(folder / "hub-ca.crt", base64.b64decode(text(secret, "data", "ca.crt")))
    token = _written(folder / "token", access.token.encode())
    mounted = [f"--hub-ca={ca}" if each == _MOUNTED_CA else each for each in arguments]
    api_ca = cluster.folder / "keys" / "ca.crt"
    where = (f"--api-server={cluster.server}", f"--token-file={token}", f"--ca-file={api_ca}")
    join = base64.b64decode(text(secret, "data", "join-token")).decode()
    environment = {**_environment(), "MODELPLANE_JOIN_TOKEN": join}
    name = cluster.program("agent")
    await supervisor.start(Program(name, _command("agent", *mounted, *where), _always, environment))
    return name


async def _arguments(api: Api, deployment: str) -> list[str]:
    found: Manifest | None = await api.get("apps/v1", "Deployment", deployment, namespace=SYSTEM_NAMESPACE)
    containers = items(found, "spec", "template", "spec", "containers")
    given = value(containers[0], "args") if containers else None
    if not isinstance(given, list):
        raise InstallError(f"Deployment {deployment} is not there, or has no arguments")
    return [str(each) for each in given]


def _written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, content)
    return path


def _command(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "modelplane", *words)


def _environment() -> dict[str, str]:
    return {"PYTHONUNBUFFERED": "1", "PATH": os.environ.get("PATH", "")}


async def _always() -> bool:
    return True
