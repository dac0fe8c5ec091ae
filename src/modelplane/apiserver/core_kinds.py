"""The core kinds that the plane serves, with their schemas and columns.

Namespaces, Secrets, ConfigMaps and Events can be written. Gateways, routes and backends are what the plane composes for
its own Envoy: they are read-only, with an open schema. Events are also served as events.k8s.io/v1, and the plane's
kinds as CustomResourceDefinitions. Pods, Services and Nodes are listed by many tools; here the lists are empty, because
workloads run on the clusters.
"""

from collections.abc import Mapping
from typing import Final

from modelplane.api.definitions import Definition, Names, Scope
from modelplane.apiserver.metadata_schema import OBJECT_META, TYPE_META
from modelplane.k8s.admission.schemas import Schema


class BuiltIn(Definition, frozen=True, kw_only=True):
    """A built-in kind of the API server."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


_TEXT: Final[Schema] = {"type": "string"}
_BYTES: Final[Schema] = {"type": "string", "format": "byte"}
_TIME: Final[Schema] = {"type": "string", "format": "date-time", "nullable": True}


def _texts(values: Schema, description: str) -> Schema:
    return {"type": "object", "additionalProperties": values, "description": description}


def _object(description: str, properties: Mapping[str, Schema]) -> Schema:
    return {
        "type": "object",
        "description": description,
        "properties": {**TYPE_META, "metadata": OBJECT_META, **properties},
    }


_IMMUTABLE: Final[Schema] = {"type": "boolean", "description": "Whether the data can no longer be changed."}

_CONFIG_MAP: Final = _object(
    "ConfigMap holds configuration data for others to read.",
    {
        "data": _texts(_TEXT, "The configuration, as texts by key."),
        "binaryData": _texts(_BYTES, "Configuration that is no text, as base64 by key."),
        "immutable": _IMMUTABLE,
    },
)

_SECRET: Final = _object(
    "Secret holds data that is not to be shown.",
    {
        "data": _texts(_BYTES, "The secret data, as base64 by key."),
        "stringData": _texts(_TEXT, "Secret data as text, for writing only: it is kept in data."),
        "type": {"type": "string", "description": "What the data is for."},
        "immutable": _IMMUTABLE,
    },
)

_NAMESPACE: Final = _object(
    "Namespace is a scope for names.",
    {
        "spec": {
            "type": "object",
            "description": "What the namespace should be.",
            "properties": {
                "finalizers": {
                    "type": "array",
                    "items": _TEXT,
                    "x-kubernetes-list-type": "atomic",
                    "description": "Finalizers that must be removed before the namespace is deleted.",
                }
            },
        },
        "status": {
            "type": "object",
            "description": "What the namespace is.",
            "properties": {
                "phase": {"type": "string", "description": "Active or Terminating."},
                "conditions": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            },
        },
    },
)

_REFERENCE: Final[Schema] = {
    "type": "object",
    "description": "The object that the event is about.",
    "x-kubernetes-map-type": "atomic",
    "properties": dict.fromkeys(
        ("apiVersion", "kind", "namespace", "name", "uid", "resourceVersion", "fieldPath"), _TEXT
    ),
}

_EVENT: Final = _object(
    "Event is something that happened to an object.",
    {
        "involvedObject": _REFERENCE,
        "related": _REFERENCE,
        "reason": {"type": "string", "description": "Why, in one word."},
        "message": {"type": "string", "description": "What happened, in a sentence."},
        "type": {"type": "string", "description": "Normal or Warning."},
        "action": {"type": "string", "description": "What was done."},
        "count": {"type": "integer", "format": "int32", "description": "How often it happened."},
        "firstTimestamp": _TIME,
        "lastTimestamp": _TIME,
        "eventTime": _TIME,
        "reportingComponent": {"type": "string", "description": "Component that reported the event."},
        "reportingInstance": {"type": "string", "description": "Which instance of that."},
        "source": {"type": "object", "properties": {"component": _TEXT, "host": _TEXT}},
        "series": {
            "type": "object",
            "properties": {"count": {"type": "integer", "format": "int32"}, "lastObservedTime": _TIME},
        },
    },
)

_OPEN: Final[Schema] = {
    "type": "object",
    "description": "Composed by the plane for its own gateway; read only.",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {**TYPE_META, "metadata": OBJECT_META},
}


_NONE: Final[Schema] = {**_OPEN, "description": "There are none on the plane: workloads run on the clusters."}
_CRD: Final[Schema] = {**_OPEN, "description": "CustomResourceDefinition is a kind that the plane serves; read only."}
_NEWER_EVENT: Final[Schema] = {**_OPEN, "description": "Event is something that happened to an object; read only."}


# The kinds of `kubectl get all`.
_ALL: Final = frozenset({"Pod", "Service"})


def _kind(group_version: str, kind: str, plural: str, schema: Schema, *, short: str = "") -> BuiltIn:
    group, _, version = group_version.rpartition("/")
    names = Names(
        kind=kind,
        list_kind=f"{kind}List",
        plural=plural,
        singular=kind.lower(),
        short_names=(short,) if short else (),
        categories=("all",) if kind in _ALL else (),
    )
    scope = Scope.CLUSTER if kind in {"CustomResourceDefinition", "Namespace", "Node"} else Scope.NAMESPACED
    return BuiltIn(group=group, version=version, scope=scope, names=names, columns=(), scale=None, schema=schema)


WRITABLE: Final = (
    _kind("v1", "ConfigMap", "configmaps", _CONFIG_MAP, short="cm"),
    _kind("v1", "Event", "events", _EVENT, short="ev"),
    _kind("v1", "Namespace", "namespaces", _NAMESPACE, short="ns"),
    _kind("v1", "Secret", "secrets", _SECRET),
)

READ_ONLY: Final = (
    _kind("v1", "Node", "nodes", _NONE, short="no"),
    _kind("v1", "Pod", "pods", _NONE, short="po"),
    _kind("v1", "Service", "services", _NONE, short="svc"),
    _kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", _CRD, short="crd"),
    _kind("events.k8s.io/v1", "Event", "events", _NEWER_EVENT, short="ev"),
    _kind("gateway.envoyproxy.io/v1alpha1", "Backend", "backends", _OPEN),
    _kind("gateway.envoyproxy.io/v1alpha1", "BackendTrafficPolicy", "backendtrafficpolicies", _OPEN, short="btp"),
    _kind("gateway.envoyproxy.io/v1alpha1", "HTTPRouteFilter", "httproutefilters", _OPEN),
    _kind("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy", "securitypolicies", _OPEN, short="sp"),
    _kind("gateway.networking.k8s.io/v1", "Gateway", "gateways", _OPEN, short="gtw"),
    _kind("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes", _OPEN),
)
