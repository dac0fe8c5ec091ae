"""Structs from schemas: one frozen msgspec struct for each distinct object, named by its place.

Objects of equal shape share one struct, so a label selector is the same type wherever it stands. A struct's name is the
shortest ending of its path that no other struct has; PREFERRED names the few that deserve better.
"""

import builtins
import json
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

PREFERRED = {
    "ModelDeployment.spec.clusterSelector": "LabelSelector",
    "ModelDeployment.spec.clusterSelector.matchExpressions[]": "LabelRequirement",
    "ModelDeployment.spec.workers.template": "PodTemplate",
    "ModelDeployment.spec.workers.template.spec": "PodSpec",
    "ModelDeployment.spec.workers.template.spec.containers[].startupProbe": "Probe",
    "ModelDeployment.spec.workers.template.spec.containers[].startupProbe.exec": "ExecAction",
    "ModelDeployment.spec.workers.template.spec.containers[].startupProbe.httpGet": "HttpGetAction",
    "ModelDeployment.spec.workers.template.spec.containers[].startupProbe.tcpSocket": "TcpSocketAction",
    "ModelDeployment.spec.workers.template.spec.containers[].startupProbe.grpc": "GrpcAction",
    "ModelDeployment.spec.workers.template.spec.containers[].lifecycle": "ContainerLifecycle",
    "ModelDeployment.spec.workers.template.spec.containers[].lifecycle.postStart": "LifecycleHook",
    "ModelDeployment.spec.workers.template.spec.containers[].lifecycle.postStart.sleep": "SleepAction",
    "ModelDeployment.spec.workers.template.spec.containers[].securityContext": "ContainerSecurityContext",
    "ModelDeployment.spec.workers.template.spec.securityContext": "PodSecurityContext",
    "ModelDeployment.spec.workers.template.spec.volumes[]": "PodVolume",
    "ModelDeployment.spec.workers.template.spec.volumes[].configMap": "ConfigMapVolume",
    "ModelDeployment.spec.workers.template.spec.volumes[].secret": "SecretVolume",
    "ModelDeployment.spec.workers.template.spec.volumes[].persistentVolumeClaim": "ClaimVolume",
    "ModelDeployment.spec.workers.template.spec.volumes[].hostPath": "HostPathVolume",
    "ModelDeployment.spec.workers.template.spec.volumes[].emptyDir": "EmptyDirVolume",
    "ModelDeployment.spec.workers.template.spec.volumes[].configMap.items[]": "KeyPath",
    "ModelDeployment.spec.workers.template.spec.containers[].env[].valueFrom.secretKeyRef": "KeyReference",
    "ModelDeployment.spec.workers.template.spec.containers[].envFrom[].secretRef": "ObjectReference",
    "ModelDeployment.spec.decode": "Phase",
    "ModelDeployment.spec.engines[]": "DeploymentEngine",
    "ModelDeployment.spec.engines[].members[]": "DeploymentMember",
    "ModelDeployment.spec.nodeSelector.devices[]": "DeviceSelector",
    "ModelDeployment.spec.nodeSelector.devices[].selectors[]": "CelSelector",
    "ModelReplica.spec.engines[]": "ReplicaEngine",
    "ModelDeployment.status.revisions[]": "TemplateRevision",
    "ModelDeployment.status.rollout.canary": "CanaryProgress",
    "ModelDeployment.status.rollout.halted": "RolloutHalt",
    "ModelDeployment.spec.rollout.canary": "CanarySettings",
    "ModelDeployment.spec.rollout.canary.steps[]": "CanaryStep",
    "ModelDeployment.spec.rollout.canary.analysis": "CanaryLimits",
    "ModelDeployment.spec.rollout.canary.analysis.stable": "StableLimits",
    "ModelEndpoint.status.traffic": "EndpointTraffic",
    "ModelDeployment.spec.warmUp.requests[]": "WarmUpCall",
    "ModelReplica.spec.engines[].members[]": "ReplicaMember",
    "InferenceClass.spec.devices[]": "ClassDevice",
    "InferenceClass.spec.devices[].attributes{}": "Attribute",
    "InferenceClass.spec.devices[].capacity{}": "Capacity",
    "InferenceClass.spec.devices[].capacity{}.requestPolicy": "SharePolicy",
    "InferenceClass.spec.devices[].capacity{}.requestPolicy.validRange": "ShareRange",
    "InferenceClass.spec.devices[].consumesCounters[]": "ConsumedCounters",
    "InferenceClass.spec.sharedCounters[]": "SharedCounters",
    "InferenceClass.spec.sharedCounters[].counters{}": "CounterValue",
    "ModelDeployment.spec.nodeSelector.devices[].capacity": "RequestedCapacity",
    "InferenceCluster.spec.nodePools[]": "NodePool",
    "InferenceCluster.spec.nodePools[].fabric.domain": "FabricDomain",
    "InferenceCluster.status.gpuPools[].domain": "PoolDomain",
    "InferenceCluster.spec.cluster": "ClusterSource",
    "InferenceCluster.status.gpuPools[]": "GpuPool",
    "InferenceCluster.status.gpuPools[].devices[]": "PoolDevice",
    "ModelReplica.spec.caches[]": "CacheMount",
    "ModelCache.spec.artifact": "CacheArtifact",
    "ModelCache.spec.artifact.source": "OlderSource",
    "ModelCache.spec.artifact.source.huggingFace": "OlderHuggingFace",
    "ModelCache.spec.huggingFace": "HuggingFace",
    "ModelCache.spec.http.urls[]": "HttpFile",
    "ModelCache.spec.retention": "CacheRetention",
    "ModelCache.spec.storage": "CacheStorage",
    "InferenceCluster.spec.cluster.existing.cache": "OlderClusterCache",
    "InferenceCluster.spec.cluster.k3s.controlPlane": "K3sServer",
    "InferenceGateway.spec.tracing": "FleetTracing",
    "InferenceCluster.spec.gateway.tracing": "ClusterTracing",
    "TelemetryDestination.spec.sinks[]": "TelemetrySink",
    "TelemetryDestination.spec.sinks[].auth": "SinkAuth",
    "MetricMapping.spec.metrics[]": "MappedMetric",
    "MetricMapping.spec.metrics[].labels[]": "MappedLabel",
    "ModelCache.spec.storage.pvc": "OlderStorage",
    "ModelCache.status.clusters[]": "CacheOnCluster",
    "ModelDeployment.status.clusters[]": "ModelDeploymentStatusCluster",
    "ModelCache.status.summary": "CacheSummary",
    "InferenceCluster.spec.storage": "ClusterStorage",
    "InferenceCluster.spec.storage.sharedFilesystem": "SharedFilesystem",
    "ModelReplica.spec.deployment": "DeploymentReference",
    "ModelEndpoint.spec.replica": "ReplicaReference",
    "ModelService.spec.endpoints[]": "EndpointGroup",
    "ModelService.status.endpoints": "EndpointCounts",
    "ModelService.status.tiers[]": "TierStatus",
    "ModelService.status.tiers[].endpoints[]": "TierEndpoint",
    "ModelService.status.gateways[]": "GatewayRoute",
    "ModelService.status.routes": "RouteCounts",
    "ModelService.spec.timeouts": "ServiceTimeouts",
    "ModelEndpoint.spec.auth": "ProviderAuth",
    "ModelEndpoint.status.models": "ListedModels",
    "ModelEndpoint.spec.api": "EndpointApi",
    "ModelEndpoint.spec.credential": "EndpointCredential",
    "InferenceGateway.spec.auth": "CallerAuth",
    "InferenceGateway.spec.auth.callers[]": "CallerLimits",
    "InferenceCluster.spec.gateway": "ClusterGateway",
    "InferenceCluster.status.gateway": "StatusGateway",
    "InferenceGateway.spec.router": "GatewayRouter",
    "InferenceGateway.status.endpoints": "BaseUrls",
    "InferenceGateway.spec.tls.secretRef": "NameReference",
    "InferenceCluster.spec.placement": "ClusterPlacement",
    "ModelDeployment.spec.placement": "SpecPlacement",
    "ModelDeployment.status.placement": "StatusPlacement",
    "ModelDeployment.spec.workers.topology": "Topology",
}

HEADER = '''"""Written by tools/generate_api.py from apis/; do not edit."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from modelplane.api.conditions import Condition
from modelplane.api.meta import ObjectMeta

'''

# Keywords that bound or explain a value without changing its type.
NOT_SHAPE = {
    *("description", "pattern", "x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
    *("minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum", "maxProperties"),
}

Schema = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Place:
    """An object of a schema and where it was met first."""

    path: str
    schema: Schema


def models_source(definitions: Sequence[Mapping[str, object]]) -> str:
    roots = [(_kind(definition), _object(definition["schema"])) for definition in definitions]
    places = _distinct(place for kind, schema in roots for place in _walk(kind, schema))
    names = _names(places)
    writer = _Writer(names)
    structs = [writer.struct(names[shape], place.schema) for shape, place in reversed(places.items())]
    kinds = [writer.kind(definition) for definition in definitions]
    table = "".join(f'    ("{_api_version(d)}", "{_kind(d)}"): {_kind(d)},\n' for d in definitions)
    exports = sorted([*names.values(), *(_kind(d) for d in definitions), "KINDS"])
    exported = "".join(f'    "{name}",\n' for name in exports)
    return HEADER + f"__all__ = [\n{exported}]\n\n\n" + "\n\n".join(structs + kinds) + f"\n\nKINDS = {{\n{table}}}\n"


def _walk(path: str, schema: Schema) -> Iterator[Place]:
    """Every object below the root, parents before children; the root itself is written by hand-made rules."""
    for name, child in _object(schema.get("properties", {})).items():
        if path.count(".") == 0 and name not in {"spec", "status"}:
            continue
        if name != "conditions":
            yield from _below(f"{path}.{name}", _object(child))


def _below(path: str, schema: Schema) -> Iterator[Place]:
    if "properties" in schema:
        yield Place(path, schema)
        yield from _walk(path, schema)
    elif "items" in schema:
        yield from _below(f"{path}[]", _object(schema["items"]))
    elif "additionalProperties" in schema:
        yield from _below(f"{path}{{}}", _object(schema["additionalProperties"]))


def _distinct(places: Iterator[Place]) -> dict[str, Place]:
    """By shape. A shape met again moves to the back, so that dependencies end up after their users."""
    found: dict[str, Place] = {}
    for place in places:
        # A kind's own spec and status keep their names even where another kind's look the same.
        shape = place.path if place.path.count(".") == 1 else _shape(place.schema)
        first = found.pop(shape, place)
        found[shape] = place if place.path in PREFERRED else first
    return found


def _shape(schema: Schema) -> str:
    return json.dumps(_without_prose(schema), sort_keys=True)


def _without_prose(value: object) -> object:
    if isinstance(value, dict):
        # A property may be called "description": only keywords of the schema are prose.
        inside = value.get("properties")
        kept = {k: _without_prose(v) for k, v in value.items() if k not in NOT_SHAPE and k != "properties"}
        if isinstance(inside, dict):
            kept["properties"] = {k: _without_prose(v) for k, v in inside.items()}
        return kept
    if isinstance(value, list):
        return [_without_prose(item) for item in value]
    return value


def _names(places: Mapping[str, Place]) -> dict[str, str]:
    wanted = {shape: PREFERRED.get(place.path) for shape, place in places.items()}
    names = {shape: name for shape, name in wanted.items() if name}
    pending = {shape: 1 for shape in places if shape not in names}
    while pending:
        proposals: dict[str, list[str]] = {}
        for shape, length in pending.items():
            proposals.setdefault(_ending(places[shape].path, length), []).append(shape)
        taken = set(names.values())
        for name, shapes in proposals.items():
            if len(shapes) == 1 and name not in taken:
                names[shapes[0]] = name
                del pending[shapes[0]]
            else:
                for shape in shapes:
                    pending[shape] += 1
    return names


def _ending(path: str, length: int) -> str:
    parts = [_title(part) for part in path.split(".")]
    return "".join(parts[-length:])


def _title(part: str) -> str:
    singular = part.endswith(("[]", "{}"))
    name = part.removesuffix("[]").removesuffix("{}")
    if singular:
        name = re.sub(r"ies$", "y", name) if name.endswith("ies") else re.sub(r"(?<!s)s$", "", name)
    return name[:1].upper() + name[1:]


class _Writer:
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def struct(self, name: str, schema: Schema) -> str:
        required = set(_texts(schema.get("required", [])))
        fields = [
            self._field(field, _object(child), required=field in required)
            for field, child in _object(schema["properties"]).items()
        ]
        return f"class {name}(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):\n" + "".join(fields)

    def kind(self, definition: Mapping[str, object]) -> str:
        kind = _kind(definition)
        spec, status = self._names[f"{kind}.spec"], self._names[f"{kind}.status"]
        return (
            f"class {kind}(msgspec.Struct, frozen=True, kw_only=True):\n"
            f'    api_version: Literal["{_api_version(definition)}"] = msgspec.field('
            f'name="apiVersion", default="{_api_version(definition)}")\n'
            f'    kind: Literal["{kind}"] = "{kind}"\n'
            f"    metadata: ObjectMeta\n    spec: {spec}\n    status: {status} = {status}()\n"
        )

    def _field(self, name: str, schema: Schema, *, required: bool) -> str:
        python = _python_name(name)
        kind, default = self._type(name, schema), self._default(schema)
        if required and default is None:
            value = None if python == name else f'msgspec.field(name="{name}")'
            return f"    {python}: {kind}" + (f" = {value}\n" if value else "\n")
        if default is None:
            kind, default = self._optional(kind)
        return f"    {python}: {kind} = {default if python == name else self._renamed(name, default)}\n"

    def _renamed(self, name: str, default: str) -> str:
        if default.startswith("msgspec.field("):
            return default.replace("msgspec.field(", f'msgspec.field(name="{name}", ')
        return f'msgspec.field(name="{name}", default={default})'

    def _optional(self, kind: str) -> tuple[str, str]:
        if kind.startswith("tuple["):
            return kind, "()"
        if kind.startswith("Mapping["):
            return kind, "msgspec.field(default_factory=dict)"
        return f"{kind} | None", "None"

    def _type(self, name: str, schema: Schema) -> str:
        if name == "conditions":
            return "tuple[Condition, ...]"
        if "properties" in schema:
            return self._names[_shape(schema)]
        if schema.get("x-kubernetes-int-or-string"):
            return "int | str"
        match schema.get("type"):
            case "array":
                return f"tuple[{self._type('', _object(schema['items']))}, ...]"
            case "object" if schema.get("x-kubernetes-preserve-unknown-fields"):
                return "Mapping[str, object]"
            case "object":
                return f"Mapping[str, {self._type('', _object(schema['additionalProperties']))}]"
            case "string" if "enum" in schema:
                return "Literal[" + ", ".join(f'"{value}"' for value in _texts(schema["enum"])) + "]"
            case other:
                return {"string": "str", "integer": "int", "boolean": "bool", "number": "float"}[str(other)]

    def _default(self, schema: Schema) -> str | None:
        default = schema.get("default")
        if default is None:
            return None
        if "properties" in schema:  # whatever the default states are the defaults of its fields
            return f"{self._names[_shape(schema)]}()"
        return repr(tuple(default) if isinstance(default, list) else default)


def _python_name(name: str) -> str:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return f"{snake}_" if keyword.iskeyword(snake) or hasattr(builtins, snake) else snake


def _kind(definition: Mapping[str, object]) -> str:
    return str(_object(definition["names"])["kind"])


def _api_version(definition: Mapping[str, object]) -> str:
    return f"{definition['group']}/{definition['version']}"


def _object(value: object) -> dict[str, object]:
    assert isinstance(value, dict), value
    return value


def _texts(value: object) -> list[str]:
    assert isinstance(value, list), value
    return [str(item) for item in value]
