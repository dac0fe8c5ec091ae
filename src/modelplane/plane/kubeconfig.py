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
    _write(path, json.dumps(document, indent=1))


def write_token(path: Path, token: str) -> None:
    """Beside the kubeconfig, for programs that read a token from a file, as Prometheus does."""
    _write(path, token)


def _write(path: Path, text: str) -> None:
    beside = path.with_suffix(".new")
    beside.unlink(missing_ok=True)  # An existing file would keep its mode.
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    beside.replace(path)
