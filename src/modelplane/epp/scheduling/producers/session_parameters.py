"""The parameters of the session plugins."""

from enum import StrEnum
from typing import Annotated

import msgspec

from modelplane.framework.registry import Parameters

TOKEN_HEADER = "x-session-token"  # noqa: S105  the name of a header
ID_HEADER = "x-session-id"
Seconds = Annotated[float, msgspec.Meta(gt=0.0)]


class SessionStrategy(StrEnum):
    TOKEN = "encoded_endpoint_header"  # noqa: S105  the name of a strategy
    SESSION = "session_id"


class SessionSource(Parameters, frozen=True):
    """The source of the session id: a header, or a producer."""

    header: str = ""
    attribute: str = ""
    producer: str = ""


class TokenConfig(Parameters, frozen=True):
    header: str = TOKEN_HEADER


class SessionConfig(Parameters, frozen=True):
    sources: tuple[SessionSource, ...] = (SessionSource(header=ID_HEADER),)
    eviction_ttl_seconds: Seconds = 300
    eviction_sweep_seconds: Seconds = 10
    """Read, and without effect: bindings are dropped as others are made."""


class SessionAffinityParameters(Parameters, frozen=True):
    strategy: SessionStrategy = SessionStrategy.TOKEN
    encoded_endpoint_header_config: TokenConfig = TokenConfig()
    session_id_config: SessionConfig = SessionConfig()
    profile_name: str = ""
    """The profile whose pick a session is bound to; empty: the primary one."""


class SessionIdParameters(Parameters, frozen=True):
    header_name: str = ""
    cookie_name: str = ""

    def __post_init__(self) -> None:
        if bool(self.header_name) == bool(self.cookie_name):
            raise ValueError("exactly one of headerName and cookieName is needed")
