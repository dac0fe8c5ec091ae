"""Parses the body of a request, and finds duplicate keys.

JSON that may have duplicate keys is parsed a second time, by a parser that finds them; clients get a warning. YAML is
held to the limits of `modelplane.k8s.admission.documents`, which refuses duplicates altogether. JSON is held to the
same depth: what comes after reads objects recursively. The number of its values is bounded, too: a million empty lists
are 3 MB of text and take more than a second to read.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from modelplane.api.errors import DocumentError
from modelplane.apiserver.failures import bad_request
from modelplane.apiserver.media import JSON, YAML
from modelplane.apiserver.protobuf import MEDIA, read_protobuf
from modelplane.k8s.admission.documents import parse_documents
from modelplane.k8s.admission.yaml_reader import MAX_DEPTH

MOST_BYTES: Final = 3 * 1024 * 1024
MOST_VALUES: Final = 100_000
LARGE_BYTES: Final = 256 * 1024
"""Larger bodies are parsed in a thread, so that other requests are served meanwhile."""

_SHOWN: Final = 30
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Body:
    value: object
    duplicates: tuple[str, ...] = ()
    """Fields that occur more than once; the last one counts."""


class _DuplicateKeys(dict[str, object]):
    """An object with duplicate keys."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        seen: set[str] = set()
        self.repeated = [name for name, _ in pairs if name in seen or seen.add(name)]  # type: ignore[func-returns-value]  # set.add is None


def read_json(raw: bytes, *, watch_duplicates: bool = True) -> Body:
    """A JSON body. Raises ValueError if it is invalid."""
    if _marks(raw) > MOST_VALUES and count_values(raw) > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES} values")
    try:
        value = msgspec.json.decode(raw)
        if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH:
            check_depth(value)
        if not watch_duplicates or not _may_repeat(raw, value):
            return Body(value)
        duplicates: list[_DuplicateKeys] = []
        again = json.loads(raw, object_pairs_hook=lambda pairs: _noting_duplicates(pairs, duplicates))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
    return Body(value, tuple(_repeated(again, "")) if duplicates else ())


def count_values(raw: bytes) -> int:
    """The values of a JSON text, without the keys of objects and whatever is in strings."""
    return _marks(_STRING.sub(b"", raw)) + 1


def _marks(raw: bytes) -> int:
    """A comma parts two values, and a bracket opens one that holds others."""
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def check_depth(value: object) -> None:
    """ValueError for a value that is nested deeper than a document may be."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
        if not level:
            return
    raise ValueError(f"nested deeper than {MAX_DEPTH} levels")


def _may_repeat(raw: bytes, value: object) -> bool:
    """Without escapes, quotes are around keys and strings only: a repeated key lost two of them."""
    return b"\\" in raw or raw.count(b'"') != msgspec.json.encode(value).count(b'"')


def _noting_duplicates(pairs: list[tuple[str, object]], duplicates: list[_DuplicateKeys]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    duplicates.append(_DuplicateKeys(pairs))
    return duplicates[-1]


def _repeated(value: object, at: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in value.repeated if isinstance(value, _DuplicateKeys) else ():
            yield f"{at}.{name}".removeprefix(".")
        for name, item in value.items():
            yield from _repeated(item, f"{at}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _repeated(item, f"{at}[{index}]")


def read_yaml(raw: bytes) -> Body:
    """A YAML (or JSON) body of one document. Raises ValueError if it is invalid."""
    if raw.lstrip()[:1] == b"{":
        return read_json(raw)
    try:
        documents = parse_documents(raw, source="body")
    except DocumentError as error:
        raise ValueError(str(error)) from None
    if len(documents) != 1:
        raise ValueError(f"one document is expected, not {len(documents)}")
    return Body(documents[0].value)


def read_object(raw: bytes, media: str, kind: str) -> Body:
    """The body of a create or a replace. Raises ApiError if it is not an object."""
    try:
        body = _READERS[media](raw)
    except ValueError as error:
        raise _unrecognized(raw, kind, f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(body.value, dict):
        raise _unrecognized(raw, kind, "couldn't get version/kind; json parse error: the body is no object")
    return body


def _unrecognized(raw: bytes, kind: str, why: str) -> Exception:
    text = raw.decode(errors="replace")
    shown = (f"{text[:_SHOWN]} ..." if len(text) > _SHOWN else text) or "<empty>"
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {why} ({shown})")


_READERS: Final[Mapping[str, Callable[[bytes], Body]]] = {
    JSON: read_json,
    YAML: read_yaml,
    MEDIA: lambda raw: Body(read_protobuf(raw)),
}
ACCEPTED: Final = tuple(_READERS)
