"""What was read of a request's body."""

import msgspec


class Parsed(msgspec.Struct, frozen=True):
    """The parsed fields of a body; what they mean: `Request`."""

    model: str = ""
    prompts: tuple[bytes, ...] = ()
    streaming: bool = False
    max_output_tokens: int = 0
    salt: str = ""
    has_media: bool = False
