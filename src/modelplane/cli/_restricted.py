"""A kubeconfig with the rights that Modelplane needs, made with one that has more."""

import asyncio
import base64
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError

if TYPE_CHECKING:
    from modelplane.api.objects import Manifest
    from modelplane.kube import KubeClient
    from modelplane.kube.config import ClientConfig

ACCOUNT = "modelplane"
_TRIES, _PAUSE_S = 60, 0.5


async def restricted_kubeconfig(client: "KubeClient", config: "ClientConfig", name: str) -> str:
    """With the token of the ServiceAccount of `modelplane cluster role`, which was applied. It holds nothing else."""
    from modelplane.k8s.yaml import to_yaml

    token = await _token(client)
    cluster: dict[str, object] = {
        "server": config.cluster.server,
        "certificate-authority-data": config.cluster.certificate_auth_data,
    }
    if config.cluster.insecure:
        cluster = {"server": config.cluster.server, "insecure-skip-tls-verify": True}
    return to_yaml(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "contexts": [{"name": name, "context": {"cluster": name, "user": ACCOUNT}}],
            "clusters": [{"name": name, "cluster": {key: value for key, value in cluster.items() if value}}],
            "users": [{"name": ACCOUNT, "user": {"token": token}}],
        }
    )


async def _token(client: "KubeClient") -> str:
    """A controller of the cluster writes it, a moment after the Secret was made."""
    from modelplane.api.labels import SYSTEM_NAMESPACE
    from modelplane.api.objects import text_at
    from modelplane.kube import GroupVersionResource, KubeError

    secrets, name = GroupVersionResource("", "v1", "secrets"), f"{ACCOUNT}-token"
    for _ in range(_TRIES):
        try:
            found: Manifest = await client.get(secrets, name, SYSTEM_NAMESPACE)
        except KubeError as error:
            raise InputError(f"Secret {SYSTEM_NAMESPACE}/{name} of the cluster cannot be read: {error}") from None
        if token := text_at(found, "data", "token"):
            return base64.b64decode(token).decode()
        await asyncio.sleep(_PAUSE_S)
    raise InputError(f"Secret {SYSTEM_NAMESPACE}/{name} of the cluster got no token in {_TRIES * _PAUSE_S:.0f} s")
