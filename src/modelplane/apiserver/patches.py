"""The three patches that describe a change by itself: JSON patch, merge patch, and strategic merge.

Strategic merge is served for the kinds of Kubernetes itself, none of which has a list that merges outside of its
metadata. So it is a merge patch that also knows `$patch: replace` and `$patch: delete` on objects, `$retainKeys`, and
the two merging lists of metadata: finalizers by value and ownerReferences by uid, with `$deleteFromPrimitiveList/` and
`$patch: delete` items. `$setElementOrder/` is accepted and changes nothing.

The `copy` operations of one JSON patch are bounded by their total size, as in the real API server: without the bound,
each copy of an object into itself doubles it. They are bounded by the number of copied values as well, since a million
empty objects are 3 MB as text and 100 MB in memory. What operations shift in lists is bounded too: ten thousand items
put one by one before a million others would take seconds of the one thread that serves everybody.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from modelplane.api.objects import Json
from modelplane.apiserver.bodies import MOST_BYTES, MOST_VALUES, check_depth, count_values
from modelplane.apiserver.failures import ApiError, bad_request

COPIED_BYTES_MOST: Final = MOST_BYTES
"""The size of everything that one JSON patch copies, as JSON."""
SHIFTED_ITEMS_MOST: Final = 50_000_000
"""How many items of lists one JSON patch moves by a place: about a tenth of a second."""

_OPERATIONS_MOST = 10_000
_DIGITS_MOST = 9


class PatchError(ValueError):
    """The patch cannot be carried out on this object."""


def merge_patch(value: object, patch: object) -> object:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(value) if isinstance(value, Mapping) else {}
    for name, change in patch.items():
        if change is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), change)
    return merged


_MERGING = {"finalizers": "", "ownerReferences": "uid"}


def strategic_patch(value: object, patch: object) -> object:
    if not isinstance(patch, Mapping):
        return patch
    match patch.get("$patch"):
        case "replace":
            return {name: item for name, item in patch.items() if name != "$patch"}
        case "delete":
            return {}
    merged = dict(value) if isinstance(value, Mapping) else {}
    retained = patch.get("$retainKeys")
    if isinstance(retained, list):
        merged = {name: item for name, item in merged.items() if name in retained}
    for name, change in patch.items():
        _merge_field(merged, name, change)
    return merged


def _merge_field(merged: Json, name: str, change: object) -> None:
    directive, _, target = name.partition("/")
    if directive == "$deleteFromPrimitiveList" and isinstance(change, list):
        found = merged.get(target)
        dropped = {_identity(item) for item in change}
        merged[target] = [item for item in found if _identity(item) not in dropped] if isinstance(found, list) else []
    elif directive.startswith("$"):
        return
    elif change is None:
        merged.pop(name, None)
    elif name in _MERGING and isinstance(change, list):
        merged[name] = _merge_list(merged.get(name), change, _MERGING[name])
    else:
        merged[name] = strategic_patch(merged.get(name), change)


def _merge_list(value: object, changes: Sequence[object], key: str) -> list[object]:
    """Changed items move to the end. Linear in both lists."""
    found = {_key_of(item, key): item for item in (value if isinstance(value, list) else ())}
    for change in changes:
        identity = _key_of(change, key)
        if not isinstance(change, Mapping):
            found.setdefault(identity, change)
            continue
        same = found.pop(identity, {})
        if change.get("$patch") != "delete":
            found[identity] = strategic_patch(same, change)
    return list(found.values())


def _key_of(item: object, key: str) -> tuple[bool, bytes]:
    is_object = isinstance(item, Mapping)
    return is_object, _identity(item.get(key) if isinstance(item, Mapping) else item)


def _identity(item: object) -> bytes:
    return msgspec.json.encode(item)


def json_patch(value: object, operations: object) -> object:
    """RFC 6902. PatchError where an operation cannot be carried out, ApiError where it is none or too deep."""
    if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > _OPERATIONS_MOST:
        message = f"The allowed maximum operations in a JSON patch is {_OPERATIONS_MOST}, got {len(operations)}"
        raise ApiError(413, "RequestEntityTooLarge", message)
    patched, budget = copy.deepcopy(value), _PatchBudget()
    for operation in operations:
        patched = _operate(patched, operation, budget)
    try:
        check_depth(patched)
    except ValueError as error:
        raise bad_request(f"the patched object is {error}") from None
    return patched


class _PatchBudget:
    """Copies values up to a total size, and shifts items up to a total number."""

    def __init__(self) -> None:
        self._copied = 0
        self._values = 0
        self._shifted = 0

    def copy(self, value: object) -> object:
        try:
            encoded = msgspec.json.encode(value)
        except RecursionError:
            raise PatchError("a copied value is nested too deeply") from None
        self._copied += len(encoded)
        if self._copied > COPIED_BYTES_MOST:
            grown = f"the accumulated size increase of copy is {self._copied}"
            raise PatchError(f"Unable to complete the copy, {grown}, exceeding the limit {COPIED_BYTES_MOST}")
        self._values += count_values(encoded)
        if self._values > MOST_VALUES:
            raise PatchError(f"Unable to complete the copy: more than {MOST_VALUES} values are copied")
        return msgspec.json.decode(encoded)

    def insert(self, items: list[object], place: int, item: object) -> None:
        self._shift(len(items) - place)
        items.insert(place, item)

    def remove(self, items: list[object], place: int) -> None:
        self._shift(len(items) - place)
        del items[place]

    def _shift(self, items: int) -> None:
        self._shifted += items
        if self._shifted > SHIFTED_ITEMS_MOST:
            raise PatchError(f"the operations shift more than {SHIFTED_ITEMS_MOST} items of lists")


def _operate(value: object, operation: Mapping[str, object], budget: _PatchBudget) -> object:
    path = _pointer(operation.get("path"))
    match operation.get("op"):
        case "add":
            return _add(value, path, _given(operation), budget)
        case "remove":
            return _take(value, path, budget)[0]
        case "replace":
            _get(value, path)
            return _set(value, path, _given(operation))
        case "move":
            source = _pointer(operation.get("from"))
            rest, moved = _take(value, source, budget)
            return _add(rest, path, moved, budget)
        case "copy":
            return _add(value, path, budget.copy(_get(value, _pointer(operation.get("from")))), budget)
        case "test":
            found = _get(value, path)
            if found != _given(operation) or type(found) is not type(operation["value"]):
                raise PatchError(f"testing value {operation.get('path')} failed")
            return value
        case other:
            raise PatchError(f"unexpected kind: {other}")


def _given(operation: Mapping[str, object]) -> object:
    if "value" not in operation:
        raise PatchError(f"{operation.get('op')} {operation.get('path')} lacks a value")
    return copy.deepcopy(operation["value"])


def _pointer(text: object) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise PatchError(f"{text!r} is no JSON pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]


def _index(step: str, length: int) -> int:
    is_number = step.isascii() and step.isdigit() and len(step) <= _DIGITS_MOST
    if not is_number or (len(step) > 1 and step[0] == "0") or int(step) >= length:
        raise PatchError(f"there is no item {step}")
    return int(step)


def _get(value: object, path: Sequence[str]) -> object:
    for step in path:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list):
            value = value[_index(step, len(value))]
        else:
            raise PatchError(f"there is no {step}")
    return value


def _set(value: object, path: Sequence[str], item: object) -> object:
    """Puts an item where one is."""
    if not path:
        return item
    parent = _get(value, path[:-1])
    if isinstance(parent, list):
        parent[_index(path[-1], len(parent))] = item
    elif isinstance(parent, dict):
        parent[path[-1]] = item
    return value


def _add(value: object, path: Sequence[str], item: object, budget: _PatchBudget) -> object:
    if not path:
        return item
    parent = _get(value, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = item
    elif isinstance(parent, list):
        place = len(parent) if path[-1] == "-" else _index(path[-1], len(parent) + 1)
        budget.insert(parent, place, item)
    else:
        raise PatchError(f"nothing can be added at {path[-1]}")
    return value


def _take(value: object, path: Sequence[str], budget: _PatchBudget) -> tuple[object, object]:
    """The value without what is at the path, and that."""
    if not path:
        return None, value
    found, parent = _get(value, path), _get(value, path[:-1])
    if isinstance(parent, list):
        budget.remove(parent, _index(path[-1], len(parent)))
    elif isinstance(parent, dict):
        del parent[path[-1]]
    return value, found
