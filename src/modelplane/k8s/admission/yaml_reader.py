"""Plain values from the event stream of the C parser; YAML features that manifests do not need are rejected."""

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import yaml

from modelplane.k8s.admission.decode import CONTROL, MAX_BYTES, TextError, refuse, shorten
from modelplane.k8s.admission.layout import Document, Layout
from modelplane.k8s.admission.scalars import Scalar, resolve_scalar

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DEPTH: Final = 64
MAX_NODES: Final = 60_000
MAX_DOCUMENTS: Final = 1_000
MAX_ALIASES: Final = 10_000
TOO_MANY_DOCUMENTS: Final = f"more than {MAX_DOCUMENTS:,} documents; split the text"
TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH} levels"
TOO_MANY_NODES: Final = f"more than {MAX_NODES:,} values; split the text"

_MERGE_KEY: Final = "<<"


def read_yaml(text: str, *, source: str) -> list[Document]:
    """The documents that are not empty, in order; or TextError."""
    builder = _YamlBuilder(text, source)
    try:
        builder.consume(yaml.CBaseLoader(text))
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, source) from None
    except yaml.YAMLError as error:
        raise TextError(f"not valid YAML: {error}", source=source) from None
    return builder.documents


def _syntax_error(error: yaml.MarkedYAMLError, text: str, source: str) -> TextError:
    mark = error.problem_mark or error.context_mark
    line, column, index = (mark.line + 1, mark.column + 1, mark.index) if mark else (1, 1, 0)
    if text[index : index + 1] == "\t":
        return TextError("a tab cannot indent YAML; use spaces", source=source, line=line, column=column)
    context = f" ({error.context} of line {error.context_mark.line + 1})" if error.context_mark else ""
    return TextError(f"not valid YAML: {error.problem}{context}", source=source, line=line, column=column)


class _Field(NamedTuple):
    """A value of a mapping, and the nodes of its key and itself."""

    value: object
    start: int
    stop: int


class _YamlBuilder:
    """The value under construction.

    The innermost open collection is `_mapping` or else `_sequence`; `_key` is the mapping's key that awaits a value.
    """

    __slots__ = (
        "_aliases",
        "_anchors",
        "_count",
        "_key",
        "_layout",
        "_lines",
        "_mapping",
        "_merging",
        "_node",
        "_nodes",
        "_open",
        "_repeated",
        "_sequence",
        "_source",
        "_spans",
        "_starts",
        "documents",
    )

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._starts = array("I")
        self._lines = array("I")
        self._spans = array("I")
        self._layout = Layout(text, self._starts, self._lines, self._spans)
        self._merging: set[int] = set()
        self._nodes = self._aliases = 0
        self._anchors: dict[str, tuple[int, object] | None] = {}
        self._open: list[tuple[dict[str, object] | None, list[object], int, str | None]] = []
        self._mapping: dict[str, object] | None = None
        self._sequence: list[object] = []
        self._key: str | None = None
        self._node = 0
        self._count = 0
        self._repeated = 0
        self.documents: list[Document] = []

    def consume(self, parser: yaml.CBaseLoader) -> None:
        handlers: dict[type[yaml.Event], Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._start_mapping,
            yaml.SequenceStartEvent: self._start_sequence,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: self._start_document,
            yaml.DocumentEndEvent: self._end_document,
            yaml.StreamStartEvent: lambda _: None,
            yaml.StreamEndEvent: lambda _: None,
        }
        for event in iter(parser.get_event, None):
            handlers[type(event)](event)

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        self._enter(event)
        value: Scalar = event.value
        if event.implicit[0]:
            value = self._resolve(event)
        elif event.style == '"' and not event.value.isprintable():
            self._refuse_escaped_controls(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = (len(self._starts) - 1, value)
        if self._mapping is None:
            self._sequence.append(value)
        elif self._key is None:
            self._key = self._accept_key(value, event)
        else:
            self._mapping[self._key] = value
            self._key = None

    def _resolve(self, event: yaml.ScalarEvent) -> Scalar:
        try:
            return resolve_scalar(event.value)
        except ValueError as error:
            self._refuse(str(error), event)

    def _accept_key(self, key: Scalar, event: yaml.ScalarEvent) -> str:
        if not isinstance(key, str):
            self._refuse(f"key {shorten(event.value) or 'null'} is not a string; write it in quotes", event)
        if key == _MERGE_KEY and event.implicit[0]:
            self._merging.add(self._node)
        if self._mapping is not None and key in self._mapping:
            self._refuse(f'key "{shorten(key)}" is given twice; keep one', event)
        return key

    def _start_mapping(self, event: yaml.MappingStartEvent) -> None:
        mapping: dict[str, object] = {}
        self._start(event, mapping)
        self._mapping = mapping

    def _start_sequence(self, event: yaml.SequenceStartEvent) -> None:
        sequence: list[object] = []
        self._start(event, sequence)
        self._mapping = None
        self._sequence = sequence

    def _start(self, event: yaml.CollectionStartEvent, value: object) -> None:
        self._enter(event)
        if len(self._open) >= MAX_DEPTH:
            self._refuse(TOO_DEEP, event)
        if self._mapping is None:
            self._sequence.append(value)
        elif self._key is None:
            self._refuse("a key must be a string, not a mapping or a list", event)
        else:
            self._mapping[self._key] = value
            self._key = None
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append((self._mapping, self._sequence, self._node, event.anchor))
        self._node = len(self._starts) - 1

    def _end(self, _event: yaml.CollectionEndEvent) -> None:
        if self._mapping is not None and self._node in self._merging:
            self._merging.discard(self._node)
            self._merge(self._mapping)
        self._spans[self._node] = len(self._starts) - self._node
        ended = self._sequence if self._mapping is None else self._mapping
        node = self._node
        self._mapping, self._sequence, self._node, anchor = self._open.pop()
        if anchor is not None:
            self._anchors[anchor] = (node, ended)

    def _merge(self, mapping: dict[str, object]) -> None:
        """Put the fields of `<<` in its place. Fields that are written out win; of several mappings, the first."""
        fields: dict[str, _Field] = {}
        for key, value, node in self._fields(mapping, self._node):
            if key != _MERGE_KEY:
                fields.pop(key, None)
                fields[key] = _Field(value, node, node + 1 + self._spans[node + 1])
                continue
            written = set(fields)
            for merged, at in self._merged(value, node):
                for name, item, place in self._fields(merged, at):
                    if name in written:
                        self._refuse_at(f'key "{shorten(name)}" stands before <<; put << first', node)
                    fields.setdefault(name, _Field(item, place, place + 1 + self._spans[place + 1]))
        for places in (self._starts, self._lines, self._spans):
            kept = [places[each.start : each.stop] for each in fields.values()]
            del places[self._node + 1 :]
            for part in kept:
                places.extend(part)
        mapping.clear()
        mapping.update((name, each.value) for name, each in fields.items())

    def _fields(self, mapping: dict[str, object], node: int) -> Iterator[tuple[str, object, int]]:
        """Key, value and the node of the key."""
        node += 1
        for key, value in mapping.items():
            yield key, value, node
            node += 1 + self._spans[node + 1]

    def _merged(self, value: object, key: int) -> Iterator[tuple[dict[str, object], int]]:
        """The mappings that `<<` at a node names, each with its node."""
        node = key + 1
        if isinstance(value, dict):
            yield value, node
            return
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self._refuse_at("<< takes a mapping or a list of mappings", key)
        node += 1
        for item in value:
            yield item, node
            node += self._spans[node]

    def _alias(self, event: yaml.AliasEvent) -> None:
        """A copy of the anchored value. Its nodes count again, so a few aliases cannot become many values."""
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            self._refuse(f"more than {MAX_ALIASES:,} aliases; split the text", event)
        node, value = self._anchored(event)
        span = self._spans[node]
        self._nodes += span
        if self._nodes > MAX_NODES:
            self._refuse(TOO_MANY_NODES, event)
        if len(self._open) + _depth(value) > MAX_DEPTH:
            self._refuse(TOO_DEEP, event)
        self._repeated += _characters(value)
        if self._repeated > MAX_BYTES:
            self._refuse("aliases repeat more than 3 MiB of text; write less of it", event)
        for places in (self._starts, self._lines, self._spans):
            places.extend(places[node : node + span])
        self._lines[-span] = event.start_mark.line if event.start_mark else 0
        if self._mapping is None:
            self._sequence.append(_copied(value))
        elif self._key is None:
            self._refuse("an alias cannot be a key; write the key out", event)
        else:
            self._mapping[self._key] = _copied(value)
            self._key = None

    def _anchored(self, event: yaml.AliasEvent) -> tuple[int, object]:
        name = event.anchor or ""
        if name not in self._anchors:
            self._refuse(f"alias *{shorten(name)} has no anchor &{shorten(name)} before it", event)
        found = self._anchors[name]
        if found is None:
            self._refuse(f"the value of anchor &{shorten(name)} contains itself", event)
        return found

    def _start_document(self, event: yaml.DocumentStartEvent) -> None:
        self._count += 1
        if self._count > MAX_DOCUMENTS:
            self._refuse(TOO_MANY_DOCUMENTS, event)
        self._mapping, self._sequence, self._node = None, [], len(self._starts)
        self._anchors = {}

    def _end_document(self, _event: yaml.DocumentEndEvent) -> None:
        (value,) = self._sequence
        if value is not None:
            self.documents.append(Document(value, self._source, self._layout, self._node))

    def _enter(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        """Count a node and keep its place."""
        mark = event.start_mark
        self._starts.append(mark.index if mark else 0)
        self._lines.append(mark.line if mark else 0)
        self._spans.append(1)
        if event.tag is not None:
            self._refuse(f"tags ({shorten(event.tag)}) are not supported; leave it out", event)
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._refuse(TOO_MANY_NODES, event)

    def _refuse_escaped_controls(self, event: yaml.ScalarEvent) -> None:
        found = CONTROL.search(event.value)
        if found is not None:
            self._refuse(f"control character U+{ord(found[0]):04X} is not allowed", event)

    def _refuse_at(self, sentence: str, node: int) -> NoReturn:
        refuse(sentence, source=self._source, text=self._layout.text, index=self._starts[node])

    def _refuse(self, sentence: str, event: yaml.Event) -> NoReturn:
        index = event.start_mark.index if event.start_mark else 0
        refuse(sentence, source=self._source, text=self._layout.text, index=index)


def _depth(value: object) -> int:
    """Levels of lists and objects; 0 for a scalar."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


def _characters(value: object) -> int:
    """Of all texts in a value, keys included."""
    if isinstance(value, dict):
        return sum(len(key) + _characters(item) for key, item in value.items())
    if isinstance(value, list):
        return sum(map(_characters, value))
    return len(value) if isinstance(value, str) else 0


def _copied(value: object) -> object:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value
