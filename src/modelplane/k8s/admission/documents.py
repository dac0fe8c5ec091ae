"""From bytes to documents, without trusting the bytes.

YAML can name, repeat and retype its parts, and a loader that follows lets a few hundred bytes become megabytes or
objects. A manifest needs none of that, so this reader takes the event stream of the C parser and builds only what JSON
can hold. Refused, each with one line that names the place: text over 3 MiB, more than 64 levels, 60,000 nodes, 1,000
documents or 10,000 aliases, explicit tags, duplicate keys, keys that are not strings, control characters, and anything
that is not UTF-8. An alias is a copy of what its anchor names and counts as such, also where it is merged (`<<`);
copies have 3 MiB of text at most. JSON is held to the same limits.

Plain scalars have the meaning that `kubectl` gives them (see `scalars`). Positions are kept outside the value: three
numbers per node, so `Document.line_of` finds any field and the value stays plain dicts and lists.
"""

from collections.abc import Iterator

from modelplane.k8s.admission._size_guard import has_too_many_values
from modelplane.k8s.admission.decode import TextError, decode_text
from modelplane.k8s.admission.json_reader import as_yaml, looks_like_json, read_json
from modelplane.k8s.admission.layout import Document
from modelplane.k8s.admission.yaml_reader import MAX_NODES, TOO_MANY_NODES, read_yaml


def parse_documents(text: bytes, *, source: str) -> tuple[Document, ...]:
    """The documents of a text in order, with lists unfolded and empty ones left out; or DocumentError."""
    decoded = decode_text(text, source=source)
    if has_too_many_values(decoded, MAX_NODES):
        raise TextError(TOO_MANY_NODES, source=source)
    documents = read_json(decoded, source=source) if looks_like_json(decoded) else None
    if documents is None:
        documents = read_yaml(as_yaml(decoded), source=source)
    return tuple(part for document in documents for part in unfold(document))


def unfold(document: Document) -> Iterator[Document]:
    """The items of a `List` (or of a list of one kind) as documents of their own; any other document as it is."""
    value = document.value
    items = value.get("items") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not str(value.get("kind")).endswith("List") or not isinstance(items, list):
        yield document
        return
    for item in document.items_of(("items",)):
        yield from unfold(item)
