"""Encodes conversations as bytes, so that two with the same beginning have the same first bytes.

Each message gives its role and parts in order, however a client spells its JSON.
What a chat template puts first comes first: tools, then instructions, then messages. Media count by a digest of where
they come from: the picture itself may be megabytes, and what matters is whether it is the same.
"""

from array import array
from collections.abc import Sequence
from typing import Final

import msgspec
import xxhash

from modelplane.epp.server.parsing.request_types import ABSENT, Content, Part, Prompt, PromptMessage

_ABSENT: Final = ABSENT
_LONGEST_PLAIN: Final = 64
MAX_PARTS: Final = 16_384
"""Messages of a conversation and parts of their contents, together."""
_MEDIA: Final = frozenset(
    ("image_url", "input_image", "image", "input_audio", "audio_url", "audio", "video_url", "video", "input_video")
)
_TEXTS: Final = frozenset(("text", "input_text", "output_text"))


def _write_part(part: Part, pieces: list[bytes]) -> None:
    if part.text and part.type in _TEXTS:
        pieces.append(encode(part.text))
        return
    media = (part.image_url, part.audio_url, part.video_url, part.input_audio, part.source)
    pieces.extend([encode(text) for text in (part.text, part.thinking, part.refusal) if text])
    pieces.extend([digest(bytes(raw)) for raw in media if raw is not _ABSENT])
    pieces.extend([bytes(raw) for raw in (part.content, part.input) if raw is not _ABSENT])


def _write_message(message: PromptMessage, content: Content, pieces: list[bytes]) -> None:
    pieces.append(f"\n{message.role or message.type}\n".encode("utf-8", "replace"))
    if isinstance(content, str):
        pieces.append(content.encode("utf-8", "replace"))
    else:
        _write_content(content, pieces)
    if message.arguments:
        pieces.append(encode(message.arguments))
    if message.tool_calls is not _ABSENT:
        pieces.append(bytes(message.tool_calls))
    if message.output is not _ABSENT:
        pieces.append(bytes(message.output))


def _write_content(content: Content, pieces: list[bytes]) -> None:
    if isinstance(content, str):
        pieces.append(encode(content))
    elif content:
        for part in content:
            _write_part(part, pieces)


def encode(text: str) -> bytes:
    """UTF-8; a half of a surrogate pair, which JSON can spell and no text has, becomes a question mark."""
    return text.encode("utf-8", "replace")


def conversation(tools: msgspec.Raw, system: Content, messages: Sequence[PromptMessage]) -> bytes:
    """The bytes of a chat, in the order in which an engine reads it."""
    contents = [message.content for message in messages]
    _check_parts(system, contents)
    pieces: list[bytes] = []
    if tools is not _ABSENT:
        pieces.append(bytes(tools))
    if system:
        pieces.append(b"\nsystem\n")
        _write_content(system, pieces)
    for at, message in enumerate(messages):
        _write_message(message, contents[at], pieces)
    return b"".join(pieces)


def _check_parts(system: Content, contents: Sequence[Content]) -> None:
    """Raises TypeError for a conversation that takes long to encode."""
    count = len(contents) + (len(system) if isinstance(system, list) else 0)
    if count <= MAX_PARTS:
        for content in contents:
            if isinstance(content, list):
                count += len(content)
    if count > MAX_PARTS:
        raise TypeError(f"the conversation has {count} messages and parts; {MAX_PARTS} are accepted")


def digest(data: bytes) -> bytes:
    """Data itself where it is short, else a name for it."""
    return data if len(data) <= _LONGEST_PLAIN else xxhash.xxh3_128_digest(data)


def tokens(identities: Sequence[int]) -> bytes:
    """Token ids, four bytes each. Raises OverflowError for an invalid id."""
    return array("I", identities).tobytes()


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


def has_media(messages: Sequence[PromptMessage]) -> bool:
    for message in messages:
        content = message.content
        if isinstance(content, list):
            for part in content:
                if part.type in _MEDIA:
                    return True
    return False
