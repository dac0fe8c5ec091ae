"""What a response says of its tokens."""

from typing import Final

import msgspec


class ResponseUsage(msgspec.Struct, frozen=True):
    """Token counts of a response; -1: unknown."""

    prompt_tokens: int = -1
    output_tokens: int = -1
    cached_tokens: int = -1


NO_USAGE: Final = ResponseUsage()
