"""`modelplane cluster add --agent`: the agent on the cluster, and its record on the control plane."""

import argparse
import base64
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError
from modelplane.api.labels import SYSTEM_NAMESPACE

if TYPE_CHECKING:
    from modelplane.api.objects import Json

Apply = Callable[["list[Json]", Path | None], int]


def enrol(arguments: argparse.Namespace, secret: str, apply: Apply) -> "list[Json]":
    """Starts the agent on the cluster. Returns what the control plane gets: a record, and a kubeconfig of the hub."""
    from modelplane.api.objects import manifest
    from modelplane.k8s.yaml import to_yaml
    from modelplane.tunnel.records import new_agent, record_secret
    from modelplane.views.agent_objects import agent_objects, hub_kubeconfig

    authority = _authority(arguments.control_kubeconfig)
    made = new_agent(time.time())
    objects = agent_objects(
        arguments.name,
        hub=arguments.agent,
        authority=base64.b64decode(authority).decode(),
        image=arguments.image,
        join_token=made.join_token,
    )
    if apply(list(objects), arguments.kubeconfig):
        raise InputError("the agent could not be applied on the cluster; nothing was stored")
    config = to_yaml(hub_kubeconfig(arguments.name, authority=authority, proxy_token=made.proxy_token))
    kubeconfig = manifest("v1", "Secret", secret, namespace=SYSTEM_NAMESPACE, stringData={"kubeconfig": config})
    return [record_secret(arguments.name, made.record), kubeconfig]


def _authority(kubeconfig: Path | None) -> str:
    """The hub's certificate, in base64."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise InputError("kubectl is not on this machine; --agent reads the hub's authority with it")
    chosen = [f"--kubeconfig={kubeconfig}"] if kubeconfig is not None else []
    wanted = ["get", "secret", "modelplane-hub-authority", "-n", SYSTEM_NAMESPACE, "-o", r"jsonpath={.data.tls\.crt}"]
    done = subprocess.run([kubectl, *chosen, *wanted], capture_output=True, text=True, check=False)  # noqa: S603  the user's own kubectl
    if done.returncode or not done.stdout:
        said = done.stderr.strip() or "it is empty"
        raise InputError(f"the hub has no authority yet; `modelplane install --hub HOST` installs it: {said}")
    return done.stdout
