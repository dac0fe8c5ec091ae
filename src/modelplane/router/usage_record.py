"""What one request used, as it is written down."""

import msgspec


class UsageRecord(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One request: who, what, where, how much. -1 tokens: not known."""

    time: str
    request_id: str
    caller: str
    service: str
    endpoint: str
    status: int
    duration_ms: float
    input_tokens: int = -1
    output_tokens: int = -1
    cached_tokens: int = -1
    cost: float = 0.0
    attempts: int = 1
