"""Credentials: files that a Secret is mounted as. They are read when they are used, and never shown."""

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from modelplane.api.reasons import Reason
from modelplane.hydrate.errors import HydrateError

_DOCKER_CONFIGS = (".dockerconfigjson", "config.json")


@dataclass(frozen=True, slots=True)
class MountedSecret:
    """The keys of a Secret, and a token that may lie in a file of its own."""

    folder: Path | None = None
    token_file: Path | None = None

    def token(self, key: str | None, usual: Iterable[str] = ()) -> str | None:
        """The token file, the key that the source names, or the first usual key that is there."""
        if self.token_file is not None:
            return _text(self.token_file)
        if key is not None and self.folder is not None:
            found = self.value(key)
            if found is None:
                raise HydrateError(f"the Secret has no key {key}", Reason.SECRET_MISSING)
            return found
        return next((found for name in usual if (found := self.value(name)) is not None), None)

    def value(self, *keys: str) -> str | None:
        """The first of these keys that the Secret has."""
        for key in keys:
            path = self.folder / key if self.folder is not None and "/" not in key else None
            if path is not None and path.is_file():
                return _text(path)
        return None

    def registry_login(self, registry: str) -> tuple[str, str] | None:
        """The user and password for a registry: of a pull secret, or of keys `username` and `password`."""
        for name in _DOCKER_CONFIGS:
            path = self.folder / name if self.folder is not None else None
            if path is not None and path.is_file():
                return _docker_login(_content(path), registry)
        user, password = self.value("username"), self.value("password")
        return (user, password) if user is not None and password is not None else None


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise HydrateError(f"{path} is not text", Reason.SECRET_INVALID) from None
    except OSError as error:
        raise HydrateError(f"{path} cannot be read: {error.strerror}") from error


def _text(path: Path) -> str:
    """What goes into a header."""
    text = _content(path).strip()
    if not text.isprintable():
        raise HydrateError(f"{path} has line breaks or control characters", Reason.SECRET_INVALID)
    return text


def _docker_login(text: str, registry: str) -> tuple[str, str] | None:
    try:
        entries = json.loads(text)["auths"]
        found = next((entry for name, entry in entries.items() if _host(name) == registry), None)
        if found is None:
            return None
        if "auth" in found:
            user, _, password = base64.b64decode(found["auth"], validate=True).decode().partition(":")
            return user, password
        return str(found["username"]), str(found["password"])
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise HydrateError("the pull secret is not a Docker configuration", Reason.SECRET_INVALID) from None


def _host(name: str) -> str:
    host = name.partition("://")[2] or name
    host = host.partition("/")[0]
    return "registry-1.docker.io" if host in {"index.docker.io", "docker.io"} else host
