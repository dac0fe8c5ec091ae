"""Field ownership: metadata.managedFields, as the real API server keeps it.

A manager is identified by its name, its operation (Apply or Update), its API version and its subresource. An update
makes its manager the only owner of the fields that it changed. An apply makes its manager an owner of exactly the
fields that it sets, removes fields that it set before and no other manager owns, and fails with a conflict if it would
change a field of another owner, unless it is forced.

Not tracked: fields that the server sets (names, versions, times), and fields that a write resets (the status for the
object itself; everything but the status for the status subresource).

Writes of the plane's own controllers have no manager. The fields of an object without managers are given to
`before-first-apply` by the first apply, as upstream does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from modelplane.api.objects import Json, Manifest, annotations_of, as_list, as_mapping, metadata_of, with_metadata
from modelplane.apiserver.failures import ApiError, StatusCause, apply_conflict, bad_request
from modelplane.apiserver.field_sets import EMPTY, Field, FieldSet, read, spelled, under, written
from modelplane.apiserver.resources import Resource
from modelplane.apiserver.typed import (
    Comparison,
    TypedError,
    check_declared,
    compare,
    merge,
    owned,
    remove,
    with_parents,
)
from modelplane.k8s.admission.schemas import Schema

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
BEFORE_FIRST_APPLY: Final = "before-first-apply"
_ANCIENT: Final = "ancient-changes"
_UPDATERS_MOST: Final = 10
_UNTRACKED: Final = frozenset((
    ("f:apiVersion",), ("f:kind",), ("f:metadata",),
    *(("f:metadata", f"f:{name}") for name in (
        "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
        "resourceVersion",
    )),
))  # fmt: skip

_sorted = msgspec.json.Encoder(order="sorted")


@dataclass(frozen=True, slots=True, order=True)
class Writer:
    """Whose fields an entry holds."""

    manager: str
    applies: bool
    api_version: str
    subresource: str = ""

    def __str__(self) -> str:
        through = f' with subresource "{self.subresource}"' if self.subresource else ""
        using = "" if self.applies else f" using {self.api_version}"
        return f'"{self.manager}"{through}{using}'


@dataclass(frozen=True, slots=True)
class ManagedFieldsEntry:
    """The fields of a manager with their time, and the entry as it was read, if unchanged."""

    fields: FieldSet
    time: str
    entry: Json | None = field(default=None, compare=False)

    def without(self, lost: FieldSet) -> "ManagedFieldsEntry":
        return self if self.fields.isdisjoint(lost) else ManagedFieldsEntry(self.fields - lost, self.time)


Owners = Mapping[Writer, ManagedFieldsEntry]


@dataclass(frozen=True, slots=True)
class WriteContext:
    """The kind and the manager of a write, and its time."""

    resource: Resource
    writer: Writer
    now: str

    @property
    def resets(self) -> tuple[Field, ...]:
        match self.writer.subresource:
            case "status":
                return (("f:metadata",), ("f:spec",))
            case _ if self.resource.kind == "Namespace":
                return (("f:spec",), ("f:status",))
            case _:
                return (("f:status",),) if self.resource.has_status else ()


def read_owners(manifest: Manifest) -> Owners | None:
    """The managers of an object; None if managedFields cannot be read."""
    found: dict[Writer, ManagedFieldsEntry] = {}
    try:
        for entry in as_list(metadata_of(manifest).get("managedFields")):
            each = as_mapping(entry)
            writer = Writer(
                str(each.get("manager", "")),
                each.get("operation") == "Apply",
                str(each["apiVersion"]),
                str(each.get("subresource", "")),
            )
            found[writer] = ManagedFieldsEntry(read(each["fieldsV1"]), str(each.get("time", "")), dict(each))
    except (KeyError, ValueError):
        return None
    return found


def write_owners(owners: Owners) -> list[Json]:
    """Entries in upstream's order: Apply first, then by time and name."""
    order = sorted(
        owners.items(),
        key=lambda pair: (not pair[0].applies, pair[1].time, pair[0].manager, pair[0].api_version, pair[0].subresource),
    )
    return [_entry(writer, owned) for writer, owned in order]


def _entry(writer: Writer, owned: ManagedFieldsEntry) -> Json:
    if owned.entry is not None:
        return owned.entry
    entry: Json = {
        "manager": writer.manager,
        "operation": "Apply" if writer.applies else "Update",
        "apiVersion": writer.api_version,
        "time": owned.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": written(owned.fields),
        "subresource": writer.subresource,
    }
    return {name: value for name, value in entry.items() if value != ""}


def updated(before: Manifest | None, after: Manifest, context: WriteContext) -> Json:
    """The object after an update, with its owners."""
    owners = _base(before, after)
    if before is not None and not owners:
        return with_metadata(after, managedFields=None)
    try:
        changes = compare(before if before is not None else {}, after, context.resource.schema)
    except TypedError:
        return with_metadata(after, managedFields=write_owners(owners) or None)
    remaining = _remaining(owners, changes, context.writer)
    gained = _tracked(changes.added | changes.modified, context)
    if gained:
        held = remaining.get(context.writer)
        kept = (held.fields if held else EMPTY) - changes.removed
        remaining[context.writer] = ManagedFieldsEntry(kept | gained, context.now)
    elif context.writer in remaining:
        remaining[context.writer] = remaining[context.writer].without(changes.removed)
    return with_metadata(after, managedFields=write_owners(_capped(_kept(remaining))) or None)


def _base(before: Manifest | None, after: Manifest) -> Owners:
    """The owners to start from: those of the request, if it has valid ones; else the stored ones."""
    given = read_owners(after)
    if given or before is None:
        return given or {}
    if _is_reset(after):
        return {}
    return read_owners(before) or {}


def _is_reset(manifest: Manifest) -> bool:
    """A list of one empty entry resets all ownership."""
    return metadata_of(manifest).get("managedFields") == [{}]


def _remaining(owners: Owners, changes: Comparison, writer: Writer) -> dict[Writer, ManagedFieldsEntry]:
    """The fields of all managers after the writer made these changes."""
    lost = changes.added | changes.modified | changes.removed
    return {each: owned if each == writer else owned.without(lost) for each, owned in owners.items()}


def _kept(owners: Mapping[Writer, ManagedFieldsEntry]) -> dict[Writer, ManagedFieldsEntry]:
    return {writer: owned for writer, owned in owners.items() if owned.fields}


def _capped(owners: dict[Writer, ManagedFieldsEntry]) -> dict[Writer, ManagedFieldsEntry]:
    """Too many updaters would make the object grow: the oldest are taken together."""
    updaters = sorted((each for each in owners if not each.applies), key=lambda each: (owners[each].time, each))
    for oldest in updaters[: max(0, len(updaters) - _UPDATERS_MOST)]:
        owned = owners.pop(oldest)
        together = Writer(_ANCIENT, applies=False, api_version=oldest.api_version)
        known = owners.get(together)
        fields = owned.fields | (known.fields if known else EMPTY)
        owners[together] = ManagedFieldsEntry(fields, max(owned.time, known.time if known else ""))
    return owners


def _tracked(fields: FieldSet, context: WriteContext) -> FieldSet:
    return fields - _UNTRACKED - under(fields, context.resets)


def apply(live: Manifest | None, config: Manifest, context: WriteContext, *, force: bool) -> Json:
    """The live object with a configuration applied to it; without one, the configuration itself."""
    _check_config(config, context)
    try:
        return _applied(live, config, context, force=force)
    except TypedError as error:
        raise _untyped(str(error), context, config) from None


def _applied(live: Manifest | None, config: Manifest, context: WriteContext, *, force: bool) -> Json:
    schema = context.resource.schema
    owners = dict(_first_owners(live, context))
    former = owners.get(context.writer)
    stated = owned(config, schema)
    owners[context.writer] = ManagedFieldsEntry(_tracked(stated, context), context.now)
    base = dict(live) if live is not None else {}
    needed = stated.union(*(owned.fields for owned in owners.values()))
    pruned = _pruned(merge(base, dict(config), schema), former, needed, schema)
    changes = compare(base, pruned, schema)
    conflicts = _conflicts(owners, changes, context.writer)
    if conflicts and not force:
        raise _refusal(conflicts)
    left = _kept(_remaining(owners, changes, context.writer))
    if (
        former is not None
        and context.writer in left
        and former.fields == left[context.writer].fields
        and changes.is_same
    ):
        left[context.writer] = former
    return with_metadata(_noted(as_mapping(pruned), config, context), managedFields=write_owners(left) or None)


def _check_config(config: Manifest, context: WriteContext) -> None:
    for wrong in check_declared(dict(config), context.resource.schema):
        raise _untyped(wrong, context, config)


def _untyped(wrong: str, context: WriteContext, config: Manifest) -> ApiError:
    metadata = metadata_of(config)
    place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    kind = f"{context.resource.api_version}, Kind={context.resource.kind}"
    return bad_request(f"failed to create typed patch object ({place}; {kind}): {wrong}")


def _first_owners(live: Manifest | None, context: WriteContext) -> Owners:
    if live is None:
        return {}
    owners = read_owners(live) or {}
    if owners:
        return owners
    writer = Writer(BEFORE_FIRST_APPLY, applies=False, api_version=context.resource.api_version)
    try:
        held = compare({}, live, context.resource.schema).added - _UNTRACKED
    except TypedError:
        return {}
    return {writer: ManagedFieldsEntry(held - under(held, (("f:status",),)), context.now)}


def _pruned(merged: object, former: ManagedFieldsEntry | None, stated: FieldSet, schema: Schema) -> object:
    """Without the fields that the manager applied before and no manager owns any more."""
    if former is None:
        return merged
    needed = with_parents(stated, schema) | _ancestors(stated)
    return remove(merged, with_parents(former.fields, schema) - needed, schema)


def _noted(merged: Manifest, config: Manifest, context: WriteContext) -> Manifest:
    """Update the last-applied annotation of kubectl, if the object has one."""
    if context.writer.manager != "kubectl" or LAST_APPLIED not in annotations_of(merged):
        return merged
    kept = {key: text for key, text in annotations_of(config).items() if key != LAST_APPLIED}
    noted = with_metadata(config, annotations=kept or None)
    annotations = {**annotations_of(merged), LAST_APPLIED: f"{_sorted.encode(noted).decode()}\n"}
    return with_metadata(merged, annotations=annotations)


def _ancestors(fields: Iterable[Field]) -> FieldSet:
    return frozenset(each[:depth] for each in fields for depth in range(1, len(each)))


def _conflicts(owners: Owners, changes: Comparison, writer: Writer) -> dict[Writer, list[Field]]:
    touched = changes.added | changes.modified
    found = {each: sorted(owned.fields & touched) for each, owned in owners.items() if each != writer}
    return {each: fields for each, fields in sorted(found.items()) if fields}


def _refusal(conflicts: Mapping[Writer, list[Field]]) -> ApiError:
    pairs = [(writer, each) for writer, fields in conflicts.items() for each in fields]
    causes = [StatusCause("FieldManagerConflict", f"conflict with {writer}", spelled(each)) for writer, each in pairs]
    if len(pairs) == 1:
        writer, only = pairs[0]
        return apply_conflict(f"Apply failed with 1 conflict: conflict with {writer}: {spelled(only)}", causes)
    messages = [
        f"conflicts with {writer}:\n" + "\n".join(f"- {spelled(each)}" for each in fields)
        for writer, fields in conflicts.items()
    ]
    return apply_conflict(f"Apply failed with {len(pairs)} conflicts: " + "\n".join(messages), causes)
