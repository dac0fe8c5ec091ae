"""The effects of a write on an object's metadata: the rules of the Kubernetes API server, as pure functions.

    uid, creationTimestamp          set once, on creation; a writer's values are ignored
    resourceVersion                 the revision of the write; a writer may send the one it read, and gets a conflict
                                    if the object has changed since
    generation                      1 on creation; grows when anything outside metadata and status changes, and once
                                    when deletion is requested (as in the API server, so that controllers see a change)
    deletionTimestamp               set by a delete while finalizers remain; never by a writer
    status                          kept by a replacement; a status write changes it and the managed fields

Null and empty metadata fields are dropped, as their Go types would, so that `labels: {}` and no labels are equal.
Equality is that of JSON: the order of keys does not matter, and 1, 1.0 and true are three values.
Names, schemas and defaults are checked by admission.
"""

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b

import msgspec

from modelplane.api.errors import ConflictError, InvalidObject
from modelplane.api.objects import Json, Manifest
from modelplane.api.timestamps import timestamp
from modelplane.reconcile.store import ObjectRef

_RESERVED = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
_KEPT = tuple(field for field in _RESERVED if field != "selfLink")

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of Kubernetes' generated names: no vowels, no similar characters."""
_SUFFIX_LENGTH = 5
_NAME_LENGTH_MOST = 63


class _Metadata(msgspec.Struct, rename="camel"):
    """The fields whose types the store relies on."""

    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[dict[str, object]] = []


class Given(msgspec.Struct, frozen=True):
    """A copy of the manifest of a write, with its metadata parsed."""

    ref: ObjectRef
    body: Json
    metadata: Json
    generate_name: str
    uid: str
    resource_version: str


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


_encoder = msgspec.json.Encoder(enc_hook=_plain)
_canonical = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(dict[str, object])


def encode(manifest: Manifest) -> bytes:
    return _encoder.encode(manifest)


def decode(body: bytes) -> Json:
    return _decoder.decode(body)


def read(manifest: Manifest) -> Given:
    """Copy a manifest and check the fields that the store relies on."""
    body = _copied(manifest)
    ref = checked_ref(body)
    metadata: Json = {field: value for field, value in metadata_of(body).items() if value not in (None, "", [], {})}
    typed = _typed(metadata, ref)
    return Given(
        ref=ref,
        body=body,
        metadata=metadata,
        generate_name=typed.generate_name,
        uid=typed.uid,
        resource_version=typed.resource_version,
    )


def checked_ref(body: Json) -> ObjectRef:
    """The reference of an object; the name is empty when it is to be generated."""
    api_version, kind, metadata = body.get("apiVersion"), body.get("kind"), body.get("metadata")
    if not (isinstance(api_version, str) and api_version):
        raise InvalidObject("apiVersion: a non-empty string is required")
    if not (isinstance(kind, str) and kind):
        raise InvalidObject("kind: a non-empty string is required")
    if not isinstance(metadata, dict):
        raise InvalidObject(f"{kind}: metadata: an object is required")
    namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
    if not (isinstance(namespace, str) and isinstance(name, str)):
        raise InvalidObject(f"{kind}: metadata.namespace and metadata.name must be strings")
    return ObjectRef(group=api_version.rpartition("/")[0], kind=kind, namespace=namespace, name=name)


def named(given: Given, name: str) -> Given:
    return msgspec.structs.replace(given, ref=msgspec.structs.replace(given.ref, name=name))


def _copied(manifest: Manifest) -> Json:
    try:
        return decode(encode(manifest))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidObject(f"the manifest cannot be stored as a JSON object: {error}") from None


def _typed(metadata: Json, ref: ObjectRef) -> _Metadata:
    try:
        return msgspec.convert(metadata, _Metadata)
    except msgspec.ValidationError as error:
        raise InvalidObject(f"{ref}: metadata: {error}") from None


def created(given: Given, *, uid: str, now_s: float) -> Json:
    """The object that a create makes, without its resourceVersion."""
    if given.resource_version:
        raise InvalidObject(f"{given.ref}: metadata.resourceVersion must not be set on an object that is created")
    metadata: Json = {"name": given.ref.name}
    metadata |= {field: value for field, value in given.metadata.items() if field not in _RESERVED}
    metadata |= {"uid": uid, "generation": 1, "creationTimestamp": timestamp(now_s)}
    return _assembled(_common(given.body), metadata, _common_parts(given.body.get("status")))


def replaced(current: Manifest, given: Given) -> Json | None:
    """The object after a replacement, without its new resourceVersion; None when it is the same."""
    check_preconditions(current, given)
    before = metadata_of(current)
    metadata: Json = {field: value for field, value in given.metadata.items() if field not in _RESERVED}
    metadata |= {field: before[field] for field in _KEPT if field in before}
    _check_finalizers(given.ref, before, metadata)
    content_same = _same(_content(current), _content(given.body))
    if content_same and _same(before, metadata):
        return None
    if not content_same:
        metadata["generation"] = generation_of(current) + 1
    return _assembled(_shared(current, given.body), metadata, current.get("status"))


def status_replaced(current: Manifest, given: Given) -> Json | None:
    """The object after a status write, without its new resourceVersion; None when it is the same."""
    check_preconditions(current, given)
    status, before = given.body.get("status"), metadata_of(current)
    owners = given.metadata.get("managedFields", before.get("managedFields"))
    if _same(current.get("status"), status) and _same(before.get("managedFields"), owners):
        return None
    return _assembled(current, before | ({"managedFields": owners} if owners else {}), _common_parts(status))


def deletion_requested(current: Manifest, now_s: float) -> Json | None:
    """The object marked as being deleted, without its new resourceVersion; None when it is marked already."""
    metadata = dict(metadata_of(current))
    if "deletionTimestamp" in metadata:
        return None
    metadata |= {"deletionTimestamp": timestamp(now_s), "deletionGracePeriodSeconds": 0}
    metadata["generation"] = generation_of(current) + 1
    return _assembled(current, metadata, current.get("status"))


def is_finished(manifest: Manifest) -> bool:
    """Whether deletion was requested and no finalizer is left."""
    metadata = metadata_of(manifest)
    return "deletionTimestamp" in metadata and not metadata.get("finalizers")


def check_preconditions(current: Manifest, given: Given) -> None:
    metadata = metadata_of(current)
    check_uid(given.ref, metadata, given.uid)
    if given.resource_version and given.resource_version != metadata["resourceVersion"]:
        raise ConflictError(
            f"{given.ref}: metadata.resourceVersion is {given.resource_version} but the object is at "
            f"{metadata['resourceVersion']}: read it again and retry"
        )


def check_uid(ref: ObjectRef, metadata: Manifest, uid: str | None) -> None:
    if uid and uid != metadata["uid"]:
        raise ConflictError(f"{ref}: metadata.uid is {uid} but the object of this name has {metadata['uid']}")


def stamped(manifest: Json, revision: int) -> Json:
    """The object at this revision."""
    return {**manifest, "metadata": {**metadata_of(manifest), "resourceVersion": str(revision)}}


def generated_name(base: str, fresh_id: str) -> str:
    """The base, cut so that the name stays a label, and a short suffix drawn from a fresh id."""
    number = int.from_bytes(blake2b(fresh_id.encode(), digest_size=8).digest(), "big")
    suffix = ""
    for _ in range(_SUFFIX_LENGTH):
        number, place = divmod(number, len(_SUFFIX_ALPHABET))
        suffix += _SUFFIX_ALPHABET[place]
    return base[: _NAME_LENGTH_MOST - _SUFFIX_LENGTH] + suffix


def metadata_of(manifest: Manifest) -> Json:
    metadata = manifest["metadata"]
    if not isinstance(metadata, dict):
        raise TypeError("a stored object has lost its metadata")
    return metadata


def generation_of(manifest: Manifest) -> int:
    generation = metadata_of(manifest).get("generation")
    return generation if isinstance(generation, int) else 0


def _check_finalizers(ref: ObjectRef, before: Json, after: Json) -> None:
    if "deletionTimestamp" not in before:
        return
    old, new = before.get("finalizers", []), after.get("finalizers", [])
    if isinstance(old, list) and isinstance(new, list) and (added := [name for name in new if name not in old]):
        raise InvalidObject(f"{ref} is being deleted: metadata.finalizers cannot gain {', '.join(added)}")


def _content(manifest: Manifest) -> Json:
    return {field: value for field, value in manifest.items() if field not in {"metadata", "status"}}


def _shared(current: Manifest, body: Json) -> Json:
    """The new content with the equal parts of the current one, so that versions of an object share memory."""
    return {
        field: value if field in {"metadata", "status"} else _shared_part(current, field, value)
        for field, value in body.items()
    }


def _shared_part(current: Manifest, field: str, value: object) -> object:
    if field in current and _same(current[field], value):
        return current[field]
    return _common_parts(value)


def _common(body: Json) -> Json:
    """The object with equal parts of other objects shared: objects of one template differ in little."""
    return {field: value if field == "metadata" else _common_parts(value) for field, value in body.items()}


def _common_parts(value: object) -> object:
    if isinstance(value, dict):
        return {
            field: _held_once(item) if field != "conditions" else _common_parts(item) for field, item in value.items()
        }
    return [_held_once(item) for item in value] if isinstance(value, list) else value


def _held_once(value: object) -> object:
    return _only(_encoder.encode(value)) if isinstance(value, (dict, list)) else value


@lru_cache(maxsize=8_192)
def _only(encoded: bytes) -> object:
    """One shared value for equal texts. Stored values are never changed in place."""
    return msgspec.json.decode(encoded)


def _assembled(content: Manifest, metadata: Json, status: object) -> Json:
    manifest: Json = {}
    for field, value in content.items():
        if field == "metadata":
            manifest[field] = metadata
        elif field != "status":
            manifest[field] = value
    if status is not None:
        manifest["status"] = status
    return manifest


def _same(one: object, other: object) -> bool:
    """Python compares 1, 1.0 and True as equal; their encodings differ."""
    return one is other or (one == other and _canonical.encode(one) == _canonical.encode(other))
