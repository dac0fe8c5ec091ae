"""Documents in JSON, under the same limits as YAML.

Not all JSON is YAML: values may follow each other on one line, keys may be longer than 1,024 characters, and U+0085 is
no line break. A text that is not JSON within the limits is left to the YAML reader, which finds the position of what
is wrong; only too many values are refused here, since counting them again would take the time that the limit saves.
"""

import json
import math
import re
from array import array
from functools import cached_property
from typing import Final, NoReturn

from modelplane.k8s.admission.decode import CONTROL, TextError, refuse
from modelplane.k8s.admission.layout import Document, Layout, NodePositions
from modelplane.k8s.admission.scalars import normalize_integer, normalize_number
from modelplane.k8s.admission.yaml_reader import (
    MAX_DEPTH,
    MAX_DOCUMENTS,
    MAX_NODES,
    TOO_MANY_DOCUMENTS,
    TOO_MANY_NODES,
    read_yaml,
)

_START: Final = re.compile(r"\s*+[{\[]")
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_SURROGATES: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
# Between two JSON values that follow each other, and zeros else in JSON, since a string has no bare line break.
_BETWEEN_VALUES: Final = re.compile(r"(?<=[}\]])\s++(?=[{\[])")
_STRUCTURAL: Final = (",", ":", "[", "{", "\\")
_MAX_STRUCTURAL: Final = 2 * MAX_NODES
# Texts with more escapes reach the YAML reader only to be rejected.
_MAX_ESCAPES: Final = 20_000
_BREAK: Final = "\n"


class _NotJsonError(Exception):
    """The text is not JSON within the limits; the YAML reader reports why."""


def looks_like_json(text: str) -> bool:
    """Whether the text starts as a JSON object or array does. Flow style YAML does too."""
    return _START.match(text) is not None


def read_json(text: str, *, source: str) -> list[Document] | None:
    """The documents of a text of JSON values; None where the YAML reader has to decide."""
    # The scanner builds everything before it can be counted, so it is not given what may be far too much work.
    if sum(map(text.count, _STRUCTURAL)) > _MAX_STRUCTURAL:
        return None
    try:
        return _Reader(text, source).documents()
    except (_NotJsonError, RecursionError):
        return None


def as_yaml(text: str) -> str:
    """JSON that is not YAML, made YAML: pairs of surrogates, and values that just follow each other. Lines stay."""
    if not looks_like_json(text):
        return text
    if 0 < text.count("\\u") <= _MAX_ESCAPES:
        text = _SURROGATES.sub(lambda found: found[1] + _astral(found[2], found[3]), text)
    return _BETWEEN_VALUES.sub(lambda found: _document_start(found[0]), text)


def _astral(high: str, low: str) -> str:
    return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)


def _document_start(blank: str) -> str:
    return f"{blank[: blank.rindex(_BREAK) + 1]}--- " if _BREAK in blank else blank


class _Reader:
    """Reads value after value, keeping count of the nodes as the YAML reader would."""

    __slots__ = ("_decoder", "_nodes", "_objects", "_source", "_start", "_text")

    def __init__(self, text: str, source: str) -> None:
        self._decoder = json.JSONDecoder(object_pairs_hook=self._object, parse_constant=_refuse_constant)
        self._text = text
        self._source = source
        self._start = 0
        self._nodes = 0
        self._objects = 0

    def documents(self) -> list[Document]:
        positions = _LazyPositions(self._text, self._source)
        documents: list[Document] = []
        self._start = _skip_blank(self._text, 0)
        while self._start < len(self._text):
            node = self._nodes
            value, end = self._decode()
            self._count(1)
            documents.append(Document(self._checked_value(value, 1), self._source, positions, node))
            if len(documents) > MAX_DOCUMENTS:
                refuse(TOO_MANY_DOCUMENTS, source=self._source, text=self._text, index=self._start)
            self._start = _skip_blank(self._text, end)
        return documents

    def _decode(self) -> tuple[object, int]:
        if self._text[self._start] not in "{[":
            raise _NotJsonError
        try:
            return self._decoder.raw_decode(self._text, self._start)
        except ValueError:
            raise _NotJsonError from None

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        self._objects += 1
        if self._objects > MAX_NODES:
            self._refuse_count()
        fields = dict(pairs)
        if len(fields) != len(pairs):
            raise _NotJsonError
        return fields

    def _checked_value(self, value: object, depth: int) -> object:
        """The value with its numbers as Kubernetes takes them, its texts checked and its nodes counted."""
        if isinstance(value, str):
            return _checked(value)
        if not isinstance(value, dict | list):
            return _normalized(value)
        if depth > MAX_DEPTH:
            raise _NotJsonError
        if isinstance(value, list):
            self._count(len(value))
            return [self._checked_value(item, depth + 1) for item in value]
        self._count(2 * len(value))
        return {_checked(name): self._checked_value(item, depth + 1) for name, item in value.items()}

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            self._refuse_count()

    def _refuse_count(self) -> NoReturn:
        refuse(TOO_MANY_NODES, source=self._source, text=self._text, index=self._start)


class _LazyPositions:
    """The positions of a JSON text, which the YAML reader finds when the first one is read."""

    def __init__(self, text: str, source: str) -> None:
        self.text = as_yaml(text)
        self._source = source

    @property
    def starts(self) -> "array[int]":
        return self._layout.starts

    @property
    def lines(self) -> "array[int]":
        return self._layout.lines

    @property
    def spans(self) -> "array[int]":
        return self._layout.spans

    @cached_property
    def _layout(self) -> NodePositions:
        try:
            return read_yaml(self.text, source=self._source)[0].layout
        except TextError:
            # JSON that YAML cannot express, such as a key of over 1,024 characters: every position is the start.
            zeros = array("I", [0]) * MAX_NODES
            return Layout(self.text, zeros, zeros, array("I", [1]) * MAX_NODES)


def _refuse_constant(_name: str) -> NoReturn:
    raise _NotJsonError


def _skip_blank(text: str, index: int) -> int:
    blank = _BLANK.match(text, index)
    return blank.end() if blank else index


def _checked(text: str) -> str:
    if not text.isprintable() and CONTROL.search(text):
        raise _NotJsonError
    return text


def _normalized(value: object) -> object:
    if isinstance(value, float):
        if math.isinf(value):
            raise _NotJsonError
        return normalize_number(value)
    return normalize_integer(value) if type(value) is int else value
