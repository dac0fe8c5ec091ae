"""Reads a kubeconfig: server, trusted certificate authority and credentials.

A kubeconfig with a credential plugin is refused: reading a file must not start a program.
"""

import base64
import builtins
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from modelplane.api.errors import DocumentError, InputError
from modelplane.cli.running import RunningPlane
from modelplane.k8s.admission.documents import parse_documents

_RUNS_PROGRAMS = ("exec", "auth-provider")


def read_kubeconfig(path: Path) -> RunningPlane:
    """The control plane of the current context."""
    return kubeconfig_of(path.read_bytes(), path, folder=path.parent)


def kubeconfig_of(text: bytes, path: Path | str, *, folder: Path | None) -> RunningPlane:
    """`path` names the text in messages. Files that it names are beside it; without a folder, they are refused."""
    try:
        config = parse_documents(text, source=str(path))[0].value
    except (DocumentError, IndexError) as error:
        raise InputError(f"{path}: not a kubeconfig: {str(error).splitlines()[0]}") from None
    context = _mapping(_named(path, config, "contexts", _text(config, "current-context")), "context")
    cluster = _mapping(_named(path, config, "clusters", _text(context, "cluster")), "cluster")
    user = _mapping(_named(path, config, "users", _text(context, "user")), "user")
    refused = [name for name in _RUNS_PROGRAMS if user.get(name)]
    if refused:
        raise InputError(f"{path}: credentials from {refused[0]} are not supported; use a token")
    server = _text(cluster, "server").rstrip("/")
    if urlsplit(server).scheme != "https":
        raise InputError(f"{path}: the server {server or 'is missing'} is not an https address")
    files = _KubeconfigFiles(path, folder)
    return RunningPlane(server, files.token(user), _trust(files, cluster, user))


class _KubeconfigFiles(NamedTuple):
    """The text of a kubeconfig, and the files that it may name."""

    path: Path | str
    folder: Path | None

    def token(self, user: Mapping[str, object]) -> str:
        file = _text(user, "tokenFile")
        return self._read(file).decode().strip() if file else _text(user, "token")

    def bytes(self, holder: Mapping[str, object], name: str) -> bytes:
        """The inline data of a field, or the content of the file it names."""
        inline, file = _text(holder, f"{name}-data"), _text(holder, name)
        try:
            return base64.b64decode(inline, validate=True) if inline else self._read(file) if file else b""
        except ValueError:
            raise InputError(f"{self.path}: {name}-data is not base64") from None

    def _read(self, file: str) -> builtins.bytes:
        if self.folder is None:
            raise InputError(f"{self.path}: it names the file {file}, and is in none itself; write the data into it")
        return (self.folder / file).read_bytes()


def _trust(files: _KubeconfigFiles, cluster: Mapping[str, object], user: Mapping[str, object]) -> ssl.SSLContext:
    path = files.path
    if cluster.get("insecure-skip-tls-verify"):
        raise InputError(f"{path}: insecure-skip-tls-verify is not supported; set certificate-authority")
    authority = files.bytes(cluster, "certificate-authority")
    try:
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        certificate, key = (files.bytes(user, name) for name in ("client-certificate", "client-key"))
        if certificate and key:
            _load_pair(context, certificate, key)
    except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
        raise InputError(f"{path}: a certificate cannot be read: {error}") from None
    return context


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """The ssl module reads files only; this one is readable by its owner and deleted after reading."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def _named(path: Path | str, config: object, part: str, name: str) -> Mapping[str, object]:
    entries = config.get(part) if isinstance(config, Mapping) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and entry.get("name") == name:
            return entry
    raise InputError(f"{path}: no entry named {name!r} in {part}")


def _mapping(holder: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = holder.get(name)
    return found if isinstance(found, Mapping) else {}


def _text(holder: object, name: str) -> str:
    found = holder.get(name) if isinstance(holder, Mapping) else None
    return found if isinstance(found, str) else ""
