"""An address that serves requests, and its load as last seen.

The identity never changes; the load is a frozen value that whoever watches the endpoint replaces as a whole, so a cycle
never sees half of a scrape. In-flight numbers are the picker's own: what it sent there and has not seen end.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

NOTHING: Mapping[str, str] = MappingProxyType({})
_NO_NUMBERS: Mapping[str, float] = MappingProxyType({})
_MOST = 1e12


ROLE_LABEL = "llm-d.ai/role"


class Role(StrEnum):
    """What an endpoint does in disaggregated serving; written in its role label.

    An endpoint without the label serves whole requests and counts as one that can decode.
    """

    DECODE = "decode"
    PREFILL = "prefill"
    PREFILL_DECODE = "prefill-decode"
    BOTH = "both"
    ENCODE = "encode"
    ENCODE_PREFILL = "encode-prefill"
    ENCODE_PREFILL_DECODE = "encode-prefill-decode"


class Adapters(msgspec.Struct, frozen=True):
    """LoRA adapters of a server: which run, which wait, and how many may be active at once (0: not told)."""

    running: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()
    most: int = 0


NO_ADAPTERS = Adapters()


class Load(msgspec.Struct, frozen=True):
    """What one look at a server's metrics said. `seen_s` is the time of the look; negative: never.

    Whatever a server prints, a load holds finite numbers within their range, so no scorer has to check: below the range
    counts as its lower end, above it as its upper end. A KV use that is no number counts as full, a count as none.
    """

    waiting: float = 0.0
    running: float = 0.0
    kv_use: float = 0.0
    """The share of the KV cache in use, in [0, 1]."""
    block_size: int = 0
    """Tokens of one KV block; 0: not told."""
    blocks: int = 0
    """KV blocks of the server; 0: not told."""
    adapters: Adapters = NO_ADAPTERS
    models: frozenset[str] = frozenset()
    """Names the server answers to; empty: not told."""
    seen_s: float = -1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.kv_use <= 1.0:
            msgspec.structs.force_setattr(self, "kv_use", 0.0 if self.kv_use < 0.0 else 1.0)
        if not 0.0 <= self.waiting <= _MOST:
            msgspec.structs.force_setattr(self, "waiting", _MOST if self.waiting > _MOST else 0.0)
        if not 0.0 <= self.running <= _MOST:
            msgspec.structs.force_setattr(self, "running", _MOST if self.running > _MOST else 0.0)


UNSEEN = Load()


class Endpoint(msgspec.Struct, eq=False):
    """One `ip:port` of one pod. Two endpoints are the same only if they are the same object."""

    name: str
    """`namespace/pod` and, where a pod has several ports, `:port`: unique in the pool."""
    address: str
    """`ip:port`, with brackets around an IPv6 address: what the proxy is told."""
    labels: Mapping[str, str] = NOTHING
    attributes: Mapping[str, float] = _NO_NUMBERS
    """Numbers that discovery knows of it: price an hour, prefill tokens a second, …"""
    load: Load = UNSEEN
    requests_in_flight: int = 0
    tokens_in_flight: int = 0
    failures: int = 0
    """Responses in a row that failed at the endpoint; the first success clears it."""

    def __repr__(self) -> str:
        return f"Endpoint({self.name} at {self.address})"
