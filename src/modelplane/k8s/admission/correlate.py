"""Which part of an old object a part of the new one replaces.

Fields are matched by name and the items of a list of type `map` by their keys; the items of other lists have no
identity and match nothing, as in Kubernetes.
"""

from typing import TYPE_CHECKING, cast

from modelplane.k8s.admission.paths import Path
from modelplane.k8s.admission.schema import same
from modelplane.k8s.admission.schemas import Schema, find_child, items_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def old_field(name: str, old: object, schema: Schema) -> object:
    """The old value of a field; null where there is none to compare with."""
    if not isinstance(old, dict) or schema.get("x-kubernetes-map-type") == "atomic":
        return None
    return old.get(name)


def old_item(item: object, old: object, schema: Schema) -> object:
    """The old item with the same keys; null where there is none to compare with."""
    keys = cast("Sequence[str]", schema.get("x-kubernetes-list-map-keys", ()))
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list) or not isinstance(item, dict):
        return None
    matches = (each for each in old if isinstance(each, dict) and all(same(each.get(k), item.get(k)) for k in keys))
    return next(matches, None)


def is_unchanged(path: Path, value: object, old: object, schema: Schema) -> bool:
    """Whether the value at the path is the old one again."""
    step_schema: Schema | None = schema
    for step in path:
        if step_schema is None or old is None:
            return False
        if isinstance(value, dict) and isinstance(step, str):
            old, step_schema, value = (
                old_field(step, old, step_schema),
                find_child(step_schema, step)[1],
                value.get(step),
            )
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
            old, step_schema = old_item(value, old, step_schema), items_of(step_schema)
        else:
            return False
    return old is not None and same(value, old)
