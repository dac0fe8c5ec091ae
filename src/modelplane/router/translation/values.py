"""JSON values of bodies, read without trust: a wrong type reads as absent, and a missing field is refused by name."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

Json = dict[str, object]
_OBJECT: Final = msgspec.json.Decoder(dict[str, object])


class TranslationError(ValueError):
    """The body cannot be put into the other API; the sentence is for the client."""


def decode_object(body: bytes) -> Json:
    """The JSON object of a body. TranslationError where it is none."""
    try:
        return _OBJECT.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise TranslationError(f"the body is not acceptable: {error}") from None


def encode(value: object) -> bytes:
    return msgspec.json.encode(value)


def objects(value: object) -> list[Json]:
    """The objects in a list; empty for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def object_at(value: Mapping[str, object], key: str) -> Json:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def text_of(value: Mapping[str, object], key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def count_of(value: Mapping[str, object], key: str) -> int:
    found = value.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else 0


def copied(source: Mapping[str, object], names: Sequence[str]) -> Json:
    """The fields that have a value."""
    return {name: source[name] for name in names if source.get(name) is not None}


def parsed_arguments(text: str) -> object:
    """The arguments of a tool call, which OpenAI writes as text. Text that is no JSON object is kept under a name."""
    try:
        found = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        return {"arguments": text}
    return found if isinstance(found, dict) else {"arguments": found}
