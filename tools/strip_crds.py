"""Writes the structural schemas that rendered objects are checked against in tests, from the real definitions.

    strip_crds.py CRDS [--openapi FILE]...
    strip_crds.py CRDS --clouds
    strip_crds.py CRDS --dynamo
    strip_crds.py CRDS --pools

CRDS is a folder of CustomResourceDefinitions with `kubernetes-openapi/schemas.json` beside them; further OpenAPI
documents of an API server (`kubectl get --raw /openapi/v3/apis/<group>/<version>`) add built-in kinds. What stays are
types, required fields, enums and bounds; descriptions, defaults and rules go. Equal parts are stored once: a pod's
schema appears dozens of times in these definitions.

`--clouds` writes the managed resources that the golden files of clouds have into a file of their own, without their
status; the providers' definitions are in folders `provider-*`. `--dynamo` writes those of Grove and Dynamo. `--pools`
writes the definition of InferencePools that a cluster gets which has none: the extension publishes no chart of it. It
keeps the defaults, which controllers count on, and no description and no rule.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

OUTPUT = Path(__file__).resolve().parent.parent / "tests" / "compose" / "schemas" / "schemas.json"
POOLS_OUTPUT = OUTPUT.parents[3] / "src" / "modelplane" / "catalog" / "manifests" / "inferencepools.yaml"
CLOUDS_OUTPUT = OUTPUT.with_name("clouds.json")
CLOUDS_GOLDEN = OUTPUT.parents[1] / "golden-clouds"
DYNAMO_OUTPUT = OUTPUT.with_name("dynamo.json")
DYNAMO_FOLDERS = ("grove", "dynamo")
DYNAMO_KINDS = {"PodCliqueSet", "DynamoGraphDeployment"}
CRD_FOLDERS = (
    *("lws", "kserve", "kai", "kueue", "volcano", "gateway-api", "gateway-api-inference-extension", "envoy-gateway"),
    *("crossplane", "provider-kubernetes", "provider-helm", "cert-manager", "dra-driver-nvidia"),
    "prometheus-operator",
)
CRD_KINDS = {
    *("LeaderWorkerSet", "LLMInferenceService", "LLMInferenceServiceConfig", "PodGroup", "LocalQueue"),
    *("Gateway", "HTTPRoute", "ReferenceGrant", "InferencePool", "Backend", "BackendTrafficPolicy", "Queue"),
    *("SecurityPolicy", "ClientTrafficPolicy", "EnvoyExtensionPolicy", "HTTPRouteFilter", "Certificate", "Issuer"),
    *("ClusterQueue", "Object", "Release", "ClusterProviderConfig", "Usage", "ClusterUsage", "Composition"),
    *("CompositeResourceDefinition", "Function", "Configuration", "Provider", "DeploymentRuntimeConfig", "Topology"),
    *("ComputeDomain", "EnvoyProxy", "PodMonitor", "ServiceMonitor", "PrometheusRule"),
}
BUILT_IN_KINDS = {
    *("Namespace", "Service", "ServiceAccount", "ConfigMap", "Secret", "Deployment", "Job", "PersistentVolumeClaim"),
    *("ResourceClaimTemplate", "ResourceClaim", "ResourceSlice", "Role", "RoleBinding", "NetworkPolicy"),
    *("PodDisruptionBudget", "ClusterRole", "ClusterRoleBinding"),
}
KEPT = {
    *("type", "enum", "required", "pattern", "nullable", "minimum", "maximum", "minLength", "maxLength", "minItems"),
    *("maxItems", "minProperties", "maxProperties"),
    *("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"),
}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}
SHARED_FROM = 160  # characters; smaller parts are not worth a reference
GROUP_VERSION_KIND = "x-kubernetes-group-version-kind"

Schema = dict[str, object]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("crds", type=Path, help="folder of the definitions")
    parser.add_argument("--openapi", type=Path, action="append", default=[], help="a further OpenAPI document")
    parser.add_argument("--clouds", action="store_true", help="the managed resources of clouds instead")
    parser.add_argument("--dynamo", action="store_true", help="the definitions of Grove and Dynamo instead")
    parser.add_argument("--pools", action="store_true", help="the definition of InferencePools instead")
    options = parser.parse_args()
    if options.pools:
        return _write_pools(options.crds / "gateway-api-inference-extension")
    if options.clouds:
        folders = tuple(sorted(path.name for path in options.crds.glob("provider-*") if path.name not in CRD_FOLDERS))
        used = _cloud_kinds()
        found = (each for each in _custom(options.crds, folders, None) if each[0] in used)
        return _write_specs(CLOUDS_OUTPUT, found)
    if options.dynamo:
        return _write_specs(DYNAMO_OUTPUT, _custom(options.crds, DYNAMO_FOLDERS, DYNAMO_KINDS))
    documents = [options.crds / "kubernetes-openapi" / "schemas.json", *options.openapi]
    return _write(OUTPUT, dict([*_custom(options.crds, CRD_FOLDERS, CRD_KINDS), *_built_in(documents)]))


def _write(path: Path, kinds: Mapping[str, Schema]) -> int:
    shared: dict[str, Schema] = {}
    stored = {name: _intern(schema, shared) for name, schema in sorted(kinds.items())}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"kinds": stored, "shared": shared}, separators=(",", ":"), sort_keys=True)
    path.write_text(text + "\n")
    print(f"{len(stored)} kinds, {len(shared)} shared parts, {len(text)} characters")
    return 0


def _write_specs(path: Path, found: Iterator[tuple[str, Schema]]) -> int:
    return _write(path, {name: _without_status(schema) for name, schema in found})


def _write_pools(folder: Path) -> int:
    (path,) = folder.glob("*_inferencepools.yaml")
    found = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    versions = [
        {
            **{key: version[key] for key in ("name", "served", "storage", "subresources") if key in version},
            "schema": {"openAPIV3Schema": _plain(version["schema"]["openAPIV3Schema"])},
        }
        for version in found["spec"]["versions"]
    ]
    # The API server refuses names of the Kubernetes project's own groups without this.
    approval = {
        name: text for name, text in found["metadata"]["annotations"].items() if name.startswith("api-approved")
    }
    made = {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "metadata": {"name": found["metadata"]["name"], "annotations": approval},
        "spec": {**{key: found["spec"][key] for key in ("group", "names", "scope")}, "versions": versions},
    }
    POOLS_OUTPUT.write_text(
        f"# Written by tools/{Path(__file__).name} --pools.\n{yaml.safe_dump(made, sort_keys=False)}"
    )
    return 0


def _plain(schema: Mapping[str, object]) -> Schema:
    """Less what describes and what judges."""
    made: Schema = {
        key: value for key, value in schema.items() if key not in {"description", "x-kubernetes-validations"}
    }
    properties = made.get("properties")
    if isinstance(properties, Mapping):
        made["properties"] = {name: _plain(value) for name, value in properties.items()}
    for key in ("items", "additionalProperties"):
        inner = made.get(key)
        if isinstance(inner, Mapping):
            made[key] = _plain(inner)
    return made


def _without_status(schema: Schema) -> Schema:
    properties = schema["properties"]
    assert isinstance(properties, dict)
    return {**schema, "properties": {name: each for name, each in properties.items() if name != "status"}}


def _cloud_kinds() -> set[str]:
    """What the golden files of clouds are made of."""
    items = (item for path in CLOUDS_GOLDEN.glob("*.yaml") for item in yaml.safe_load_all(path.read_text()))
    return {f"{item['apiVersion']}/{item['kind']}" for item in items if "apiVersion" in item}


def _custom(folder: Path, folders: tuple[str, ...], kinds: set[str] | None) -> Iterator[tuple[str, Schema]]:
    """None: all kinds."""
    for name in folders:
        for path in sorted((folder / name).glob("*.yaml")):
            spec = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)["spec"]
            if kinds is not None and spec["names"]["kind"] not in kinds:
                continue
            for version in spec["versions"]:
                if version["served"]:
                    schema = strip(version["schema"]["openAPIV3Schema"], {})
                    yield f"{spec['group']}/{version['name']}/{spec['names']['kind']}", schema


def _built_in(documents: list[Path]) -> Iterator[tuple[str, Schema]]:
    for path in documents:
        components = json.loads(path.read_text())["components"]["schemas"]
        for schema in components.values():
            for named in schema.get(GROUP_VERSION_KIND, ()):
                if named["kind"] in BUILT_IN_KINDS:
                    group = f"{named['group']}/" if named["group"] else ""
                    yield f"{group}{named['version']}/{named['kind']}", strip(schema, components)


def strip(schema: Mapping[str, object], components: Mapping[str, Mapping[str, object]]) -> Schema:
    """The structure of a schema, with references to components followed."""
    target = _reference(schema)
    if target is not None:
        if target.endswith(("intstr.IntOrString", "resource.Quantity")):
            return dict(INT_OR_STRING)
        return strip(components[target], components)
    kept: Schema = {key: schema[key] for key in sorted(KEPT & schema.keys())}
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        kept["properties"] = {name: strip(value, components) for name, value in properties.items()}
    for key in ("items", "additionalProperties"):
        inner = schema.get(key)
        if isinstance(inner, Mapping):
            kept[key] = strip(inner, components)
        elif inner is not None:
            kept[key] = inner
    return kept


def _reference(schema: Mapping[str, object]) -> str | None:
    """The component that a schema stands for, written plainly or beside a default."""
    inner = schema.get("allOf")
    if isinstance(inner, list) and len(inner) == 1:
        schema = inner[0]
    reference = schema.get("$ref")
    return reference.rpartition("/")[2] if isinstance(reference, str) else None


def _intern(schema: Schema, shared: dict[str, Schema]) -> Schema:
    """The schema with each large part stored once and referred to by a hash of it."""
    made: Schema = dict(schema)
    properties = made.get("properties")
    if isinstance(properties, dict):
        made["properties"] = {name: _intern(value, shared) for name, value in properties.items()}
    for key in ("items", "additionalProperties"):
        inner = made.get(key)
        if isinstance(inner, dict):
            made[key] = _intern(inner, shared)
    text = json.dumps(made, separators=(",", ":"), sort_keys=True)
    if len(text) < SHARED_FROM:
        return made
    name = hashlib.sha256(text.encode()).hexdigest()[:10]
    shared[name] = made
    return {"$ref": name}


if __name__ == "__main__":
    sys.exit(main())
