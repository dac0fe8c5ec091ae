"""The ready-made kubeconfig of the embedded plane: readable by its owner only, because it holds the token."""

import base64
import json
import os
from pathlib import Path

_NAME = "modelplane"


def write_kubeconfig(path: Path, *, server: str, token: str, certificate: bytes) -> None:
    """JSON is YAML, and needs no writer of its own."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(certificate).decode()}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"token": token}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": "default"}}],
        "current-context": _NAME,
    }
    beside = path.with_suffix(".new")
    beside.unlink(missing_ok=True)  # An existing file would keep its mode.
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(document, file, indent=1)
    beside.replace(path)
