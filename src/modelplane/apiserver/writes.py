"""Create, replace, patch, apply and delete.

Each is one step without waiting, so that what was read is still so when it is written. A dry run does the same inside a
transaction that is taken back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from modelplane.api.objects import (
    Json,
    Manifest,
    as_mapping,
    finalizers_of,
    is_deleting,
    metadata_of,
    name_of,
    text_at,
    uid_of,
    with_metadata,
)
from modelplane.api.timestamps import timestamp
from modelplane.apiserver import failures
from modelplane.apiserver.bodies import Body, read_json, read_yaml
from modelplane.apiserver.failures import ApiError, StatusCause, bad_request
from modelplane.apiserver.managed_fields import WriteContext, Writer, apply, updated
from modelplane.apiserver.objects import NAMESPACE_FINALIZER, AdmittedObject, StrictError, admitted
from modelplane.apiserver.options import DeleteOptions, ListOptions, WriteOptions
from modelplane.apiserver.patches import PatchError, json_patch, merge_patch, strategic_patch
from modelplane.apiserver.paths import RequestInfo
from modelplane.apiserver.reads import ListPage, Reads, ref_in
from modelplane.apiserver.resources import namespaces
from modelplane.apiserver.scales import read_scale, scale_of, with_replicas
from modelplane.apiserver.selectors import ListSelector
from modelplane.apiserver.store.database import SqliteStore
from modelplane.apiserver.wire import encode
from modelplane.k8s.deletion import deletion_finalizers
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.store import ObjectRef

T = TypeVar("T")

OBJECT_BYTES_MOST: Final = 1536 * 1024
"""The size of a stored object as JSON: the default limit of etcd."""

ALWAYS_THERE: Final = ("default", "modelplane-system")
_PROTECTED: Final = {"default", "modelplane-system"}


class Patch(StrEnum):
    """How a patch describes its change, by the media type of its body."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a write; `created` for a new object."""

    manifest: Manifest
    warnings: tuple[str, ...] = ()
    created: bool = False


class _DryRunError(Exception):
    """Leaves a transaction so that it is taken back."""


class Writes:
    def __init__(self, store: SqliteStore, reads: Reads, clock: Clock) -> None:
        self._store = store
        self._reads = reads
        self._clock = clock

    def create(self, target: RequestInfo, body: Body, options: WriteOptions) -> WriteResult:
        given = _placed(_identified(target, body.value), target)
        if text_at(given, "metadata", "resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        self._check_namespace(target, name_of(given))
        ready = admitted(target.resource, given, None, unknown=options.validation, duplicates=body.duplicates)
        return self._created(target, ready, self._context_of(target, options), options)

    def _created(
        self, target: RequestInfo, ready: AdmittedObject, context: WriteContext | None, options: WriteOptions
    ) -> WriteResult:
        value, name = ready.value, name_of(ready.value)
        if target.resource.custom:
            value = {field: item for field, item in value.items() if field != "status"}
        if context is not None:
            value = updated(None, value, context)
        if name and self._store.get(ObjectRef(target.ref.group, target.ref.kind, target.ref.namespace, name)):
            raise failures.already_exists(target.resource, name)
        value = _storable(value)
        made = self._attempt(lambda: self._store.create(value), dry_run=options.dry_run)
        if options.dry_run:
            made = with_metadata(made, resourceVersion=None)
        return WriteResult(made, ready.warnings, created=True)

    def replace(self, target: RequestInfo, body: Body, options: WriteOptions) -> WriteResult:
        before = self._reads.find(target)
        if target.subresource == "scale":
            return self._scaled(target, before, read_scale(body.value), options)
        given = _placed(_identified(target, body.value), target)
        self._check_known(target, before, given)
        if target.resource.custom and not text_at(given, "metadata", "resourceVersion"):
            raise _lacks_revision(target)
        return self._replaced(target, before, given, options, duplicates=body.duplicates)

    def patch(self, target: RequestInfo, raw: bytes, kind: Patch, options: WriteOptions) -> WriteResult:
        if kind is Patch.APPLY:
            return self.apply(target, raw, options)
        before = self._reads.find(target)
        scaled = target.subresource == "scale"
        base = scale_of(target.resource, before) if scaled else before
        patched = _patched(base, raw, kind)
        if scaled:
            return self._scaled(target, before, read_scale(patched), options)
        given = _placed(_identified(target, patched), target)
        try:
            return self._replaced(target, before, given, options)
        except StrictError as error:
            invalid = f"{encode(encode(given).decode()).decode()}: {error.found}"
            raise failures.invalid(
                "", "", "", [StatusCause("FieldValueInvalid", f"Invalid value: {invalid}", "patch")]
            ) from None

    def _replaced(
        self,
        target: RequestInfo,
        before: Manifest,
        given: Json,
        options: WriteOptions,
        duplicates: tuple[str, ...] = (),
    ) -> WriteResult:
        """Checks that the writer knew what it replaces, and keeps what this context does not change."""
        resource = target.resource
        self._check_known(target, before, given)
        through_status = target.subresource == "status"
        if through_status:
            metadata = {**metadata_of(before), **_only(metadata_of(given), "managedFields")}
            wanted: Json = {**before, "metadata": metadata, "status": given.get("status")}
            wanted = {field: item for field, item in wanted.items() if field != "status" or item is not None}
        elif resource.has_status:
            wanted = {field: item for field, item in given.items() if field != "status"}
            wanted |= _only(before, "status")
        else:
            wanted = given
        ready = admitted(resource, wanted, before, unknown=options.validation, duplicates=duplicates)
        value = updated(before, ready.value, self._context_of(target, options))
        return self._stored(target, before, value, options, ready.warnings)

    def _stored(
        self, target: RequestInfo, before: Manifest, value: Json, options: WriteOptions, warnings: tuple[str, ...]
    ) -> WriteResult:
        value = _storable(value)
        write = self._store.replace_status if target.subresource == "status" else self._store.replace
        made = self._attempt(lambda: write(value), dry_run=options.dry_run)
        if options.dry_run:
            made = with_metadata(made, resourceVersion=text_at(before, "metadata", "resourceVersion"))
        return WriteResult(made, warnings)

    def _check_known(self, target: RequestInfo, before: Manifest, given: Manifest) -> None:
        revision, uid = text_at(given, "metadata", "resourceVersion"), uid_of(given)
        if uid and uid != uid_of(before):
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {uid_of(before)}"
            raise failures.conflict(target.resource, target.name, why)
        if revision and not revision.isdigit():
            raise bad_request(f'strconv.ParseUint: parsing "{revision}": invalid syntax')
        if revision and revision != text_at(before, "metadata", "resourceVersion"):
            raise failures.modified(target.resource, target.name)

    def apply(self, target: RequestInfo, raw: bytes, options: WriteOptions) -> WriteResult:
        config, duplicates = _read_config(target, raw)
        live = self._store.get(target.ref)
        if target.subresource == "scale":
            raise bad_request("the scale of an object is patched or replaced; apply the object itself instead")
        if live is None and target.subresource:
            raise failures.not_found(target.resource, target.name)
        if live is None:
            self._check_namespace(target, target.name)
        else:
            self._check_known(target, live, config)
        context = self._context_of(target, options, applies=True)
        merged = apply(live, config, context, force=options.force)
        ready = admitted(target.resource, merged, live, unknown=options.validation, duplicates=duplicates)
        if live is None:
            return self._created(target, ready, None, options)
        return self._stored(target, live, _kept_status(ready.value, live, target), options, ready.warnings)

    def _scaled(self, target: RequestInfo, before: Manifest, scale: Json, options: WriteOptions) -> WriteResult:
        if name_of(scale) not in {"", target.name}:
            raise _other_name(name_of(scale), target.name)
        self._check_known(target, before, scale)
        wanted = with_replicas(target.resource, before, scale)
        ready = admitted(target.resource, wanted, before, unknown=options.validation)
        value = updated(before, ready.value, self._context_of(target, options))
        done = self._stored(RequestInfo(target.resource, target.namespace, target.name, ""), before, value, options, ())
        return WriteResult(scale_of(target.resource, done.manifest), ready.warnings)

    def delete(self, target: RequestInfo, options: DeleteOptions) -> Manifest:
        """The object as it is left, or a Status where it is gone."""
        before = self._reads.find(target)
        self._check_preconditions(target, before, options)
        if target.resource.kind == "Namespace" and not target.resource.custom and target.name in _PROTECTED:
            raise failures.forbidden(target.resource, target.name, "this namespace may not be deleted")
        left = self._attempt(lambda: self._delete(target.ref, before, options), dry_run=options.dry_run)
        return left if left is not None else _deleted(target, before)

    def _delete(self, ref: ObjectRef, before: Manifest, options: DeleteOptions) -> Manifest | None:
        with self._store.batch():
            if not is_deleting(before):
                self._begin_deletion(ref, before, options)
            self._store.delete(ref)
        return self._store.get(ref)

    def _begin_deletion(self, ref: ObjectRef, before: Manifest, options: DeleteOptions) -> None:
        """The finalizers that a deletion of this sort waits for."""
        wanted = deletion_finalizers(ref.group, ref.kind, finalizers_of(before), options.propagation)
        if (ref.group, ref.kind) == ("", "Namespace"):
            wanted = list(dict.fromkeys([*finalizers_of(before), NAMESPACE_FINALIZER]))
            self._store.replace_status(
                {**before, "status": {**as_mapping(before.get("status")), "phase": "Terminating"}}
            )
            before = self._store.get(ref) or before
        if wanted != list(finalizers_of(before)):
            self._store.replace(with_metadata(before, finalizers=wanted or None))

    def delete_all(
        self, target: RequestInfo, selector: ListSelector, page: ListOptions, options: DeleteOptions
    ) -> ListPage:
        """All of them in one transaction. Returns them as they were."""
        found = self._reads.page(target, selector, page)

        def delete() -> None:
            with self._store.batch():
                for each in found.items:
                    self._delete(ref_in(target, each), each, options)

        self._attempt(delete, dry_run=options.dry_run)
        return found

    def _check_preconditions(self, target: RequestInfo, before: Manifest, options: DeleteOptions) -> None:
        uid, revision = uid_of(before), text_at(before, "metadata", "resourceVersion")
        if options.uid and options.uid != uid:
            why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid})"
            why += ". The object might have been deleted and then recreated"
            raise failures.conflict(target.resource, target.name, why)
        if options.revision and options.revision != revision:
            why = f"the ResourceVersion in the precondition ({options.revision}) does not match"
            why += f" the ResourceVersion in record ({revision}). The object might have been modified"
            raise failures.conflict(target.resource, target.name, why)

    def _check_namespace(self, target: RequestInfo, name: str) -> None:
        if not target.resource.namespaced:
            return
        namespace = target.namespace or ""
        found = self._store.get(ObjectRef("", "Namespace", "", namespace))
        if found is None:
            raise failures.not_found(namespaces(), namespace)
        if is_deleting(found):
            cause = StatusCause(
                "NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"
            )
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise failures.forbidden(target.resource, name, why, [cause])

    def _context_of(self, target: RequestInfo, options: WriteOptions, *, applies: bool = False) -> WriteContext:
        """Upstream leaves the time out of what is written through scale; so do we."""
        now = "" if target.subresource == "scale" else timestamp(self._clock.now())
        writer = Writer(options.manager, applies, target.resource.api_version, target.subresource)
        return WriteContext(target.resource, writer, now)

    def _attempt(self, write: Callable[[], T], *, dry_run: bool) -> T:
        if not dry_run:
            return write()
        done: list[T] = []
        try:
            with self._store.batch():
                done.append(write())
                raise _DryRunError  # noqa: TRY301  leaving the transaction by an exception is what takes it back
        except _DryRunError:
            return done[0]


def _storable(value: Json) -> Json:
    """The object within the size limit; like the real server, without its managedFields where only they exceed it."""
    if len(encode(value)) <= OBJECT_BYTES_MOST:
        return value
    bare = with_metadata(value, managedFields=None)
    if len(encode(bare)) <= OBJECT_BYTES_MOST:
        return bare
    raise failures.too_large_object()


def _identified(target: RequestInfo, value: object) -> Json:
    """The object with its apiVersion and kind, which must match the path."""
    resource = target.resource
    if not isinstance(value, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {resource.kind})")
    if not resource.custom:
        value = {"apiVersion": resource.api_version, "kind": resource.kind, **value}
    for field in ("kind", "apiVersion"):
        if not value.get(field):
            shown = field[0].upper() + field[1:]
            why = f"Object '{shown}' is missing in '{encode(value).decode()}'"
            raise bad_request(f"the object provided is unrecognized (must be of type {resource.kind}): {why}")
    if value["apiVersion"] != resource.api_version:
        why = f"the API version in the data ({value['apiVersion']}) does not match the expected API version"
        raise bad_request(f"{why} ({resource.api_version})")
    if value["kind"] != resource.kind:
        cause = StatusCause("FieldValueInvalid", f'Invalid value: "{value["kind"]}": must be {resource.kind}', "kind")
        raise failures.invalid(resource.group, str(value["kind"]), name_of(value), [cause])
    return value


def _placed(value: Json, target: RequestInfo) -> Json:
    """The object with the name and namespace of the path."""
    if not isinstance(value.get("metadata"), dict):
        if value.get("metadata") is not None:
            kind = target.resource.kind
            raise bad_request(f"{kind}: metadata: an object is expected")
        value = {**value, "metadata": {}}
    namespace, name = metadata_of(value).get("namespace") or "", metadata_of(value).get("name") or ""
    if target.resource.namespaced and namespace not in {"", target.namespace}:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if target.name and name != target.name:
        if name:
            raise _other_name(str(name), target.name)
        value = with_metadata(value, name=target.name)
    return with_metadata(value, namespace=target.namespace) if target.resource.namespaced else value


def _other_name(given: str, wanted: str) -> ApiError:
    return bad_request(f"the name of the object ({given}) does not match the name on the URL ({wanted})")


def _patched(base: Manifest, raw: bytes, kind: Patch) -> object:
    try:
        patch = read_json(raw, watch_duplicates=False).value
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if kind is Patch.JSON:
        try:
            return json_patch(dict(base), patch)
        except PatchError as error:
            message = f"the server rejected our request due to an error in our request: {error}"
            raise ApiError(422, "Invalid", message, details={}) from None
    if not isinstance(patch, Mapping):
        raise bad_request("error decoding patch: a merge patch is an object")
    return merge_patch(dict(base), patch) if kind is Patch.MERGE else strategic_patch(dict(base), patch)


def _read_config(target: RequestInfo, raw: bytes) -> tuple[Json, tuple[str, ...]]:
    try:
        body = read_yaml(raw)
    except ValueError as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    config = body.value
    if not isinstance(config, dict):
        raise bad_request("error decoding YAML: an object is expected")
    resource = target.resource
    found = (config.get("apiVersion"), config.get("kind"))
    if found != (resource.api_version, resource.kind):
        raise bad_request(f"invalid object type: {found[0]}, Kind={found[1]}")
    if metadata_of(config).get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    placed = _placed(config, target)
    return with_metadata(placed, managedFields=None, creationTimestamp=None), body.duplicates


def _kept_status(value: Json, live: Manifest, target: RequestInfo) -> Json:
    if target.subresource == "status" or not target.resource.has_status:
        return value
    return {**{field: item for field, item in value.items() if field != "status"}, **_only(live, "status")}


def _only(value: Mapping[str, object], field: str) -> Json:
    return {field: value[field]} if field in value else {}


def _lacks_revision(target: RequestInfo) -> ApiError:
    cause = StatusCause(
        "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
    )
    return failures.invalid(target.resource.group, target.resource.plural, target.name, [cause])


def _deleted(target: RequestInfo, before: Manifest) -> Json:
    named = {"name": target.name, "group": target.resource.group, "kind": target.resource.plural}
    details = {**{key: text for key, text in named.items() if text}, "uid": uid_of(before)}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
