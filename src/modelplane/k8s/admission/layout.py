"""A parsed document and where each of its parts was written."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from modelplane.k8s.admission.paths import Path

if TYPE_CHECKING:
    from array import array

_PLAIN_END: Final = re.compile(r"[,\]}\s]|$")


class NodePositions(Protocol):
    """Where the nodes of a text are, in order of appearance: first character, line (from zero) and nodes spanned."""

    @property
    def text(self) -> str: ...
    @property
    def starts(self) -> "array[int]": ...
    @property
    def lines(self) -> "array[int]": ...
    @property
    def spans(self) -> "array[int]": ...


@dataclass(frozen=True, slots=True)
class Layout:
    """Places that are known."""

    text: str
    starts: "array[int]"
    lines: "array[int]"
    spans: "array[int]"


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a text: plain dicts, lists and scalars, and where each of them was written."""

    value: object
    source: str
    layout: NodePositions
    node: int

    @property
    def line(self) -> int:
        return self._line(self.node)

    def line_of(self, path: Path) -> int:
        """The line of the field, or of its nearest ancestor that was written."""
        return self._line(self._find(path)[1])

    def spelling_of(self, path: Path) -> str:
        """A plain scalar as it was written; of other nodes, the empty string."""
        node = self._find(path)[2]
        if self.layout.spans[node] != 1:
            return ""
        start = self.layout.starts[node]
        end = _PLAIN_END.search(self.layout.text, start)
        return self.layout.text[start : end.start() if end else None]

    def items_of(self, path: Path) -> Iterator["Document"]:
        """The items of a list inside as documents of their own, with their places."""
        value, _, node = self._find(path)
        node += 1
        for item in value if isinstance(value, list) else ():
            yield Document(item, self.source, self.layout, node)
            node += self.layout.spans[node]

    def _line(self, node: int) -> int:
        return self.layout.lines[node] + 1

    def _find(self, path: Path) -> tuple[object, int, int]:
        """The value at the path, the node of its key (or item) and its own, as far as the path was written."""
        value, key, node = self.value, self.node, self.node
        for step in path:
            if isinstance(value, dict) and step in value:
                key = self._skip(node, 2 * list(value).index(step))
                node = key + 1
                value = value[step]
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                key = node = self._skip(node, step)
                value = value[step]
            else:
                break
        return value, key, node

    def _skip(self, collection: int, count: int) -> int:
        """The node inside a collection that comes after `count` others."""
        node = collection + 1
        for _ in range(count):
            node += self.layout.spans[node]
        return node
