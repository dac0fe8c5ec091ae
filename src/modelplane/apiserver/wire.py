"""Objects as bytes, encoded once for each version that is read.

The store returns the same value until an object changes, so identity shows whether the bytes are current.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

import msgspec

from modelplane.api.objects import Manifest
from modelplane.apiserver.objects import shown
from modelplane.apiserver.resources import Resource
from modelplane.reconcile.store import ObjectRef

_TABLE: Final = "meta.k8s.io/v1"
_MOST_BYTES: Final = 64 * 1024 * 1024

_encoder = msgspec.json.Encoder()


def encode(value: object) -> bytes:
    return _encoder.encode(value)


class Wire:
    def __init__(self, *, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes
        self._held = 0
        self._known: OrderedDict[ObjectRef, tuple[Manifest, bytes]] = OrderedDict()

    def object(self, resource: Resource, ref: ObjectRef, manifest: Manifest) -> bytes:
        """The whole object, cached for its own kind."""
        if resource.is_view:
            return encode(shown(resource, manifest))
        known = self._known.get(ref)
        if known is not None and known[0] is manifest:
            return known[1]
        encoded = encode(shown(resource, manifest))
        self._held += len(encoded) - (len(known[1]) if known is not None else 0)
        self._known[ref] = (manifest, encoded)
        self._known.move_to_end(ref)
        while self._held > self._most:
            self._held -= len(self._known.popitem(last=False)[1][1])
        return encoded

    def forget(self, ref: ObjectRef) -> None:
        known = self._known.pop(ref, None)
        if known is not None:
            self._held -= len(known[1])


def listing(api_version: str, kind: str, metadata: object, items: Iterable[bytes]) -> bytes:
    """A list of objects that are encoded already."""
    head = encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})
    return head[:-1] + b',"items":[' + b",".join(items) + b"]}"


def tabled(columns: object, metadata: object, rows: Iterable[bytes]) -> bytes:
    """A table of rows that are encoded already."""
    head = encode({"kind": "Table", "apiVersion": _TABLE, "metadata": metadata, "columnDefinitions": columns})
    return head[:-1] + b',"rows":[' + b",".join(rows) + b"]}"
