"""The OpenAPI documents: version 3 for each group and version, made from the definitions.

`kubectl explain` reads the schemas, and kubectl reads from the parameters of the operations whether the server
validates fields and supports dry run. Version 2 is a document without paths or definitions: clients that still request
it accept that and validate nothing. kubectl reads it in protobuf only, before it reports that a kind does not exist.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import Final

import msgspec

from modelplane.api.objects import Json
from modelplane.apiserver.discovery import group_versions
from modelplane.apiserver.metadata_schema import OBJECT_META
from modelplane.apiserver.resources import Resource, resources
from modelplane.k8s.admission.schemas import Schema, properties_of

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"
_VERB: Final = {
    "get": "get",
    "list": "list",
    "create": "post",
    "update": "put",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "deletecollection",
}
_QUERY: Final = {
    "dryRun": "All, to check a request without keeping what it does.",
    "fieldManager": "The name under which the fields of this write are owned.",
    "fieldValidation": "Ignore, Warn or Strict: what becomes of fields that are not known.",
    "force": "Whether an apply takes fields from their owners.",
    "labelSelector": "Restricts a list by labels.",
    "fieldSelector": "Restricts a list by fields.",
    "limit": "The most items that a list returns at once.",
    "continue": "The token that continues a list.",
    "resourceVersion": "The version that a list or a watch is about.",
    "resourceVersionMatch": "How resourceVersion is compared.",
    "timeoutSeconds": "How long a list or a watch may take.",
    "watch": "Whether changes are streamed.",
    "allowWatchBookmarks": "Whether a watch sends bookmarks.",
    "sendInitialEvents": "Whether a watch starts with what there is.",
    "propagationPolicy": "Orphan, Background or Foreground: what becomes of what belongs to the object.",
}
_WRITE: Final = ("dryRun", "fieldManager", "fieldValidation")
_LIST: Final = (
    "labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch",
    "timeoutSeconds", "watch", "allowWatchBookmarks", "sendInitialEvents",
)  # fmt: skip
_TAKES: Final[Mapping[str, tuple[str, ...]]] = {
    "get": (),
    "list": _LIST,
    "create": _WRITE,
    "update": _WRITE,
    "patch": (*_WRITE, "force"),
    "delete": ("dryRun", "propagationPolicy"),
    "deletecollection": (*_LIST, "dryRun", "propagationPolicy"),
}

VERSION_2: Final[Json] = {
    "swagger": "2.0",
    "info": {"title": "Modelplane", "version": "v1"},
    "paths": {},
    "definitions": {},
}
VERSION_2_REQUESTED: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
VERSION_2_BINARY: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""The answer's name differs from the one that kubectl asks for: an @ is not allowed in a Content-Type."""


@cache
def version_2_binary() -> bytes:
    """`VERSION_2` as the message `openapi.v2.Document`."""
    info = _bytes_field(1, b"Modelplane") + _bytes_field(2, b"v1")
    parts = {1: b"2.0", 2: info, 8: b"", 9: b""}
    return b"".join(_bytes_field(number, value) for number, value in parts.items())


def _bytes_field(number: int, value: bytes) -> bytes:
    """A text or message of less than 128 bytes, in the binary form."""
    return bytes((number << 3 | 2, len(value))) + value


@cache
def paths() -> bytes:
    """The list of documents. The hash in an address changes with its document, so clients may keep it for good."""
    known = ["api/v1", *(f"apis/{group}/{version}" for group, version in group_versions())]
    entries = {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_hash(path)}"} for path in known}
    return msgspec.json.encode({"paths": entries})


def _hash(path: str) -> str:
    return sha256(document(path) or b"").hexdigest().upper()[:32]


@cache
def document(path: str) -> bytes | None:
    """The document at api/v1 or apis/GROUP/VERSION."""
    match path.split("/"):
        case ["api", version]:
            pair = ("", version)
        case ["apis", group, version]:
            pair = (group, version)
        case _:
            return None
    own = [each for each in resources().values() if (each.group, each.version) == pair]
    if not own and pair not in group_versions():
        return None
    return msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Modelplane", "version": "v1"},
            "paths": {place: item for each in own for place, item in _paths(each).items()},
            "components": {"schemas": _schemas(own)},
        }
    )


def schema_name(resource: Resource) -> str:
    if not resource.group:
        return f"io.k8s.api.core.{resource.version}.{resource.kind}"
    return ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _schemas(own: list[Resource]) -> Json:
    found: Json = {f"{_META}.ObjectMeta": OBJECT_META, f"{_META}.ListMeta": _LIST_META}
    for each in own:
        found[schema_name(each)] = _object_schema(each)
        found[f"{schema_name(each)}List"] = _list_schema(each)
    if any(each.scale for each in own):
        found[_SCALE] = _SCALE_SCHEMA
    return found


_TEXT: Final[Schema] = {"type": "string"}
_LIST_META: Final[Schema] = {
    "type": "object",
    "description": "What every list has besides its items.",
    "properties": {
        "continue": _TEXT,
        "remainingItemCount": {"type": "integer", "format": "int64"},
        "resourceVersion": _TEXT,
    },
}
_SCALE_SCHEMA: Final[Schema] = {
    "type": "object",
    "description": "How many replicas there should be, and are.",
    "properties": {
        "apiVersion": _TEXT,
        "kind": _TEXT,
        "metadata": {"allOf": [_ref(f"{_META}.ObjectMeta")]},
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer", "format": "int32"}}},
        "status": {
            "type": "object",
            "properties": {"replicas": {"type": "integer", "format": "int32"}, "selector": _TEXT},
        },
    },
    "x-kubernetes-group-version-kind": [{"group": "autoscaling", "version": "v1", "kind": "Scale"}],
}


def _gvk(resource: Resource, kind: str = "") -> Json:
    return {"group": resource.group, "version": resource.version, "kind": kind or resource.kind}


def _object_schema(resource: Resource) -> Json:
    described = properties_of(resource.schema)["metadata"].get("description", "")
    meta = {"description": described, "allOf": [_ref(f"{_META}.ObjectMeta")]}
    return {
        **resource.schema,
        "properties": {**properties_of(resource.schema), "metadata": meta},
        "x-kubernetes-group-version-kind": [_gvk(resource)],
    }


def _list_schema(resource: Resource) -> Json:
    kind = resource.definition.names.list_kind
    return {
        "type": "object",
        "description": f"{kind} is a list of {resource.kind}.",
        "required": ["items"],
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": {"allOf": [_ref(f"{_META}.ListMeta")]},
            "items": {"type": "array", "items": _ref(schema_name(resource))},
        },
        "x-kubernetes-group-version-kind": [_gvk(resource, kind)],
    }


def _paths(resource: Resource) -> Json:
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    base = f"{root}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
    collection = [verb for verb in ("list", "create", "deletecollection") if verb in resource.verbs]
    single = [verb for verb in ("get", "update", "patch", "delete") if verb in resource.verbs]
    found: Json = {base: _item(resource, collection), f"{base}/{{name}}": _item(resource, single)}
    if resource.namespaced:
        found[f"{root}/{resource.plural}"] = _item(resource, ["list"], everywhere=True)
    for name in resource.subresources:
        item = _item(resource, ["get", "update", "patch"], subresource=name)
        found[f"{base}/{{name}}/{name}"] = item
    return found


def _item(resource: Resource, verbs: Sequence[str], *, subresource: str = "", everywhere: bool = False) -> Json:
    places = {
        "deletecollection": "delete",
        "list": "get",
    }
    item: Json = {
        places.get(verb, _VERB[verb]): _operation(resource, verb, subresource, everywhere=everywhere) for verb in verbs
    }
    in_path = [*(["name"] if verbs and verbs[0] == "get" else [])]
    in_path += ["namespace"] if resource.namespaced and not everywhere else []
    item["parameters"] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}
        for name in in_path
    ]
    return item


def _operation(resource: Resource, verb: str, subresource: str, *, everywhere: bool) -> Json:
    body = _SCALE if subresource == "scale" else schema_name(resource)
    content = {"application/json": {"schema": _ref(f"{body}List" if verb == "list" else body)}}
    scope = "ForAllNamespaces" if everywhere else "Namespaced" if resource.namespaced else ""
    gvk: Json = {"group": "autoscaling", "version": "v1", "kind": "Scale"} if subresource == "scale" else _gvk(resource)
    operation: Json = {
        "description": f"{verb} {resource.kind}{f' {subresource}' if subresource else ''}",
        "operationId": f"{verb}{_camel(resource.group)}{resource.version}{scope}{resource.kind}{subresource.title()}",
        "parameters": [
            {"name": name, "in": "query", "description": _QUERY[name], "schema": _query_type(name)}
            for name in _TAKES[verb]
        ],
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": _VERB[verb],
        "x-kubernetes-group-version-kind": gvk,
    }
    if verb in {"create", "update"}:
        operation["requestBody"] = {"content": content, "required": True}
    if verb == "patch":
        operation["requestBody"] = {"content": _patches(resource), "required": True}
    return operation


def _patches(resource: Resource) -> Json:
    formats = ["json-patch+json", "merge-patch+json", "apply-patch+yaml"]
    formats += [] if resource.custom else ["strategic-merge-patch+json"]
    return {f"application/{each}": {"schema": {"type": "object"}} for each in formats}


def _query_type(name: str) -> Json:
    if name in {"force", "watch", "allowWatchBookmarks", "sendInitialEvents"}:
        return {"type": "boolean", "uniqueItems": True}
    return {"type": "integer" if name in {"limit", "timeoutSeconds"} else "string", "uniqueItems": True}


def _camel(group: str) -> str:
    return "".join(part.title() for part in group.replace("-", ".").split(".")) or "Core"
