"""JSON of a source. It is a stranger's: whatever it holds is read, or refused in one sentence."""

from typing import Annotated, TypeVar

import msgspec

from modelplane.hydrate.errors import SourceInvalidError

T = TypeVar("T")
FileSize = Annotated[int, msgspec.Meta(ge=0, le=1 << 60)]
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What decoding raises for text that is not JSON, not of the type that was asked for, or nested too deeply."""


def decode_answer(content: bytes, kind: type[T], what: str) -> T:
    """`what` begins the sentence of a refusal."""
    try:
        return msgspec.json.decode(content, type=kind)
    except UNREADABLE as error:
        raise SourceInvalidError(f"{what}: {error}") from None
