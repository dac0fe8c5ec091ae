"""Whom a request is for: by its path, or by the model that its body names.

/v1/…                          the model in the body names the service
/anthropic/v1/…                the same, for Anthropic's clients
/NAMESPACE/SERVICE/v1/…        the service of the path, whatever the body names
/NAMESPACE/SERVICE/anthropic/v1/…
"""

from functools import lru_cache
from typing import Final

import msgspec

from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.epp.server.parsing import find_api

_ANTHROPIC: Final = "/anthropic"
_VERSION: Final = "/v1"
_LONGEST: Final = 8192


class FrontPath(msgspec.Struct, frozen=True):
    """A path, taken apart."""

    service: str
    """Namespace and name with a slash between them; empty where the body names the service."""
    rest: str
    """The path below it with its query: `/v1/chat/completions`."""
    api: InferenceApi

    @property
    def lists_models(self) -> bool:
        return _without_query(self.rest) == f"{_VERSION}/models"


@lru_cache(maxsize=4096)
def read_path(path: str) -> FrontPath | None:
    """None for a path that leads nowhere."""
    if not path.isascii() or len(path) > _LONGEST or not path.startswith("/"):
        return None
    if _is_below(path, _VERSION):
        return FrontPath("", path, find_api(path))
    if _is_below(path, f"{_ANTHROPIC}{_VERSION}"):
        rest = path.removeprefix(_ANTHROPIC)
        return FrontPath("", rest, find_api(rest))
    parts = path.split("/", 3)
    if len(parts) < 4 or not parts[1] or not parts[2]:  # noqa: PLR2004  "", namespace, service, rest
        return None
    rest = f"/{parts[3]}"
    rest = rest.removeprefix(_ANTHROPIC) if _is_below(rest, f"{_ANTHROPIC}{_VERSION}") else rest
    return FrontPath(f"{parts[1]}/{parts[2]}", rest, find_api(rest))


def upstream_path(rest: str, prefix: str) -> str:
    """The path at an endpoint whose prefix takes the place of /v1. What is not below /v1 stays as it is."""
    if not _is_below(rest, _VERSION):
        return rest
    return f"{prefix.rstrip('/')}{rest.removeprefix(_VERSION)}" or "/"


def _is_below(path: str, prefix: str) -> bool:
    return path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in {"", "/", "?"}


def _without_query(path: str) -> str:
    return path.partition("?")[0].rstrip("/")
