"""How conversations become bytes, so that two that begin alike begin with the same bytes.

Each message gives its role and parts in order, however a client spells its JSON.
What a chat template puts first comes first: tools, then instructions, then messages. Media count by a digest of where
they come from: the picture itself may be megabytes, and what matters is whether it is the same.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import xxhash

_LARGEST_TOKEN: Final = 0xFFFFFFFF
_LONGEST_PLAIN: Final = 64
_MEDIA: Final = frozenset(
    ("image_url", "input_image", "image", "input_audio", "audio_url", "audio", "video_url", "video", "input_video")
)
_TEXTS: Final = frozenset(("text", "input_text", "output_text"))
_ABSENT: Final = msgspec.Raw()


class Part(msgspec.Struct):
    """A piece of a message's content: text, or something else that is told apart by its bytes."""

    type: str = "text"
    text: str | None = None
    image_url: msgspec.Raw = _ABSENT
    audio_url: msgspec.Raw = _ABSENT
    video_url: msgspec.Raw = _ABSENT
    input_audio: msgspec.Raw = _ABSENT
    source: msgspec.Raw = _ABSENT
    content: msgspec.Raw = _ABSENT
    input: msgspec.Raw = _ABSENT
    thinking: str | None = None
    refusal: str | None = None

    @property
    def is_media(self) -> bool:
        return self.type in _MEDIA

    def write(self, pieces: list[bytes]) -> None:
        if self.text and self.type in _TEXTS:
            pieces.append(encode(self.text))
            return
        media = (self.image_url, self.audio_url, self.video_url, self.input_audio, self.source)
        pieces.extend(encode(text) for text in (self.text, self.thinking, self.refusal) if text)
        pieces.extend(digest(bytes(raw)) for raw in media if raw is not _ABSENT)
        pieces.extend(bytes(raw) for raw in (self.content, self.input) if raw is not _ABSENT)


Content = str | list[Part] | None


class Message(msgspec.Struct):
    """One turn of a conversation."""

    role: str = ""
    content: Content = None
    tool_calls: msgspec.Raw = _ABSENT
    type: str = ""
    arguments: str | None = None
    output: msgspec.Raw = _ABSENT

    @property
    def has_media(self) -> bool:
        return isinstance(self.content, list) and any(part.is_media for part in self.content)

    def write(self, pieces: list[bytes]) -> None:
        pieces.append(f"\n{self.role or self.type}\n".encode("utf-8", "replace"))
        if type(self.content) is str:
            pieces.append(self.content.encode("utf-8", "replace"))
        else:
            write_content(self.content, pieces)
        if self.arguments:
            pieces.append(encode(self.arguments))
        if self.tool_calls is not _ABSENT:
            pieces.append(bytes(self.tool_calls))
        if self.output is not _ABSENT:
            pieces.append(bytes(self.output))


def write_content(content: Content, pieces: list[bytes]) -> None:
    if isinstance(content, str):
        pieces.append(encode(content))
    elif content:
        for part in content:
            part.write(pieces)


def encode(text: str) -> bytes:
    """UTF-8; a half of a surrogate pair, which JSON can spell and no text has, becomes a question mark."""
    return text.encode("utf-8", "replace")


def conversation(tools: msgspec.Raw, system: Content, messages: Sequence[Message]) -> bytes:
    """The bytes of a chat, in the order in which an engine reads it."""
    pieces: list[bytes] = []
    if tools is not _ABSENT:
        pieces.append(bytes(tools))
    if system:
        pieces.append(b"\nsystem\n")
        write_content(system, pieces)
    for message in messages:
        message.write(pieces)
    return b"".join(pieces)


def digest(data: bytes) -> bytes:
    """Data itself where it is short, else a name for it."""
    return data if len(data) <= _LONGEST_PLAIN else xxhash.xxh3_128_digest(data)


def tokens(identities: Sequence[int]) -> bytes:
    """Token ids, four bytes each. Raises OverflowError for what is no token id."""
    return array("I", identities).tobytes()


Prompt = str | list[str | int | list[int]] | None


def prompts(prompt: Prompt) -> tuple[bytes, ...]:
    """The prompts of a completion or an embedding: texts, or token ids."""
    if not prompt:
        return ()
    if isinstance(prompt, str):
        return (encode(prompt),)
    if isinstance(prompt[0], int):
        return (tokens([_token(item) for item in prompt]),)
    return tuple(_prompt(item) for item in prompt)


def _prompt(item: str | int | list[int]) -> bytes:
    if isinstance(item, int):
        raise TypeError("prompts are texts or lists of token ids, not a mixture")
    return encode(item) if isinstance(item, str) else tokens(item)


def _token(item: str | int | list[int]) -> int:
    if not isinstance(item, int):
        raise TypeError("prompts are texts or lists of token ids, not a mixture")
    return item


def has_media(messages: Iterable[Message]) -> bool:
    for message in messages:  # noqa: SIM110  nearly every message is plain text, and looking at it costs a call less
        if type(message.content) is list and message.has_media:
            return True
    return False


ABSENT: Final = _ABSENT
