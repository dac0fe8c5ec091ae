"""Puts the product on the control cluster the way a user would: packages from a registry, rights, the function server.

Everything goes through Crossplane's own package manager. What the lab adds is what the missing pieces of a cluster
would: the ServiceAccount and the process of the function (a kubelet and a Deployment), and, where Crossplane's RBAC
manager cannot run, the rights on composites that it derives from their definitions.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lab.client import Api, Manifest, WaitedTooLongError, condition, text, until
from lab.cluster import ADMIN, LOOPBACK, answers
from lab.control import (
    FUNCTION_PORT,
    REGISTRY_PORT,
    SYSTEM,
    Control,
    Runtime,
    package_healthy,
    serving_certificate,
    token_access,
)
from lab.supervisor import Program, Supervisor
from modelplane import __version__
from modelplane.api.definitions import definitions
from modelplane.compose.router_objects import ADMIN_PORT
from modelplane.crossplane.packaging import CONFIGURATION, FUNCTION

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = "modelplane"
ROUTER_ADDRESS = "10.244.255.53"  # in the range of the fleet's gateways
MEASURED = f"--traffic-metrics=http://{ROUTER_ADDRESS}:{ADMIN_PORT}/metrics"
"""Read while a canary is analysed, and at no other time."""
_TOOL = Path("tools/build_packages.py")
_AUTHORITY = "lab-authority.crt"
"""Beside the kubeconfig: who vouches for a provider that lists its models."""


class InstallError(Exception):
    """The product could not be installed; the sentence says what the cluster said."""


async def install(
    supervisor: Supervisor, control: Control, runtime: Runtime, folder: Path, say: Callable[[str], None], *, mode: str
) -> None:
    """Returns when Function and Configuration are Healthy, every definition is Established and the function serves."""
    await asyncio.to_thread(_build, folder)
    for name in (CONFIGURATION, FUNCTION):
        package = folder / f"{name}-v{__version__}.xpkg"
        control.registry.add_file(f"{REPOSITORY}/{name}", f"v{__version__}", package)
    await prepare(control, runtime)
    await asyncio.to_thread(apply_as_documented, control, __version__)
    await serve(supervisor, control, say, mode=mode)


async def prepare(control: Control, runtime: Runtime) -> None:
    """What the function needs of the lab before it is installed: a certificate, an address, an account."""
    async with Api(control.cluster.access(*ADMIN)) as api:
        await serving_certificate(control, api, FUNCTION)
        runtime.endpoints[FUNCTION] = f"{LOOPBACK}:{FUNCTION_PORT}"
        given = () if control.derives_rights else (_composite_rights(),)
        for item in (*given, _service_account()):
            await api.apply(dict(item))


async def serve(supervisor: Supervisor, control: Control, say: Callable[[str], None], *, mode: str) -> None:
    """Starts the function server once it was installed, and returns when it serves.

    A function that is `live` watches the fleet and its clusters; a `lean` one the fleet alone, and it logs each call;
    a `stateless` one has Crossplane fetch the fleet with every call.
    """
    async with Api(control.cluster.access(*ADMIN)) as api:
        await until("the Function is Healthy", lambda: package_healthy(api, "Function", FUNCTION), within_s=180.0)
        await until(
            "the Configuration is Healthy", lambda: package_healthy(api, "Configuration", CONFIGURATION), within_s=180.0
        )
        say("packages Healthy")
        await definitions_established(api)
        access = await token_access(control.cluster, api, FUNCTION)
    kubeconfig = control.cluster.write_kubeconfig("function", access)
    kubeconfig.with_name(_AUTHORITY).write_bytes(control.cluster.keys.authority.pair.certificate)
    looks = "charts" if control.charts else mode
    await supervisor.start(function_server(control.cluster.folder / FUNCTION, kubeconfig, looks))
    say("function server ready")


def _build(folder: Path) -> None:
    """Without the image that would run the function: here a process does."""
    repository = f"{LOOPBACK}:{REGISTRY_PORT}/{REPOSITORY}/{FUNCTION}"
    command = [sys.executable, str(_TOOL), "--runtime=none", f"--function={repository}", f"--output={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InstallError(f"{_TOOL} ended with {done.returncode}:\n{done.stderr[-2000:]}")


def apply_as_documented(control: Control, version: str, *more: str) -> None:
    """By the command that users are told to type, and kubectl under it."""
    registry = f"{LOOPBACK}:{REGISTRY_PORT}"
    command = [sys.executable, "-m", "modelplane", "install", f"--packages={registry}/{REPOSITORY}"]
    command += [f"--providers={registry}/lab", f"--version={version}", f"--kubeconfig={control.cluster.kubeconfig}"]
    command += [MEASURED, *no_gateway(control), *(["--helm"] if control.charts else []), *more]
    folders = [str(control.cluster.binary("kubectl").parent), os.environ.get("PATH", "")]
    environment = {**os.environ, "PATH": os.pathsep.join(folders)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InstallError(f"`modelplane install` ended with {done.returncode}:\n{done.stderr[-2000:]}")


def no_gateway(control: Control) -> tuple[str, ...]:
    """Where genuine Envoy Gateway runs, the GatewayClass is the lab's: its Envoy is a process."""
    return ("--no-gateway",) if control.has_gateway_class else ()


def function_server(
    certificates: Path,
    kubeconfig: Path,
    mode: str,
    *,
    name: str = "function",
    host: str = LOOPBACK,
    port: int = FUNCTION_PORT,
) -> Program:
    """Its admin page is on the next port."""
    looks = {
        "live": ("--live", MEASURED),
        "lean": ("--live", "--no-observe", "--log-calls"),
        "stateless": (),
        "charts": ("--live", "--helm"),
    }[mode]
    command = (
        sys.executable,
        "-m",
        "modelplane",
        "function",
        f"--address={host}:{port}",
        f"--admin-address={host}:{port + 1}",
        f"--tls-certs-dir={certificates}",
        *looks,
        f"--kubeconfig={kubeconfig}",
    )
    probe = answers(f"http://{host}:{port + 1}/readyz")
    trusted = {"REQUESTS_CA_BUNDLE": str(kubeconfig.with_name(_AUTHORITY))}
    return Program(name, command, probe, {"PYTHONUNBUFFERED": "1", "PATH": os.environ.get("PATH", ""), **trusted})


def _service_account() -> Manifest:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": FUNCTION, "namespace": SYSTEM}}


def _composite_rights() -> Manifest:
    kinds = ("", "/status", "/finalizers", "/scale")
    groups: dict[str, list[str]] = {}
    for definition in definitions().values():
        groups.setdefault(definition.group, []).extend(f"{definition.plural}{kind}" for kind in kinds)
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": "lab:composites",
            "labels": {"rbac.crossplane.io/aggregate-to-crossplane": "true"},
        },
        "rules": [{"apiGroups": [group], "resources": names, "verbs": ["*"]} for group, names in groups.items()],
    }


async def definitions_established(api: Api) -> None:
    """Every definition Established. One that the API server refuses says so in an event and nowhere else."""

    async def established() -> bool:
        found = await api.list("apiextensions.crossplane.io/v2", "CompositeResourceDefinition")
        return bool(found) and all(condition(each, "Established") == "True" for each in found)

    try:
        await until("definitions Established", established, within_s=240.0)
    except WaitedTooLongError as error:
        raise InstallError(f"{error}; {await _complaints(api)}") from error


async def _complaints(api: Api) -> str:
    events = await api.list("v1", "Event")
    told = [
        f"{text(event, 'involvedObject', 'name')}: {text(event, 'message')}"
        for event in events
        if text(event, "involvedObject", "kind") == "CompositeResourceDefinition" and event.get("type") == "Warning"
    ]
    return "; ".join(dict.fromkeys(told)) or "no definition has a warning event"
