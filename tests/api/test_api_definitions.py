"""The XRDs: described, bounded, and the source of everything generated."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from modelplane.api.definitions import custom_resource_definition, definitions
from modelplane.k8s.admission.rules import check_rules

ROOT = Path(__file__).resolve().parents[2]
XRDS = {path.name: yaml.safe_load(path.read_text()) for path in sorted((ROOT / "apis").glob("*.yaml"))}
KEYWORDS = {
    *("type", "description", "properties", "required", "items", "additionalProperties", "enum", "default", "format"),
    *("minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems", "maxProperties", "anyOf"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-validations", "x-kubernetes-int-or-string"),
    "x-kubernetes-preserve-unknown-fields",
}


def schemas(path: str, schema: dict) -> Iterator[tuple[str, dict]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from schemas(f"{path}.{name}", child)
    for keyword, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if keyword in schema:
            yield from schemas(path + mark, schema[keyword])


def every_schema() -> Iterator[tuple[str, dict]]:
    for xrd in XRDS.values():
        root = xrd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        yield from schemas(xrd["spec"]["names"]["kind"], root)


def test_the_kinds_are_there():
    assert {(d.kind, d.group, d.scope.value) for d in definitions().values()} == {
        ("InferenceClass", "modelplane.ai", "Cluster"),
        ("InferenceCluster", "modelplane.ai", "Cluster"),
        ("InferenceGateway", "modelplane.ai", "Cluster"),
        ("MetricMapping", "modelplane.ai", "Cluster"),
        ("TelemetryDestination", "modelplane.ai", "Cluster"),
        ("ModelDeployment", "modelplane.ai", "Namespaced"),
        ("ModelReplica", "modelplane.ai", "Namespaced"),
        ("ModelEndpoint", "modelplane.ai", "Namespaced"),
        ("ModelService", "modelplane.ai", "Namespaced"),
        ("ModelCache", "modelplane.ai", "Namespaced"),
        ("ServingStack", "infrastructure.modelplane.ai", "Namespaced"),
        ("GKECluster", "infrastructure.modelplane.ai", "Namespaced"),
        ("EKSCluster", "infrastructure.modelplane.ai", "Namespaced"),
    }


def test_every_field_is_described_by_keywords_the_api_server_knows():
    undescribed = [path for path, schema in every_schema() if not schema.get("description")]
    unknown = [(path, keyword) for path, schema in every_schema() for keyword in schema.keys() - KEYWORDS]
    assert (undescribed, unknown) == ([], [])


def test_every_default_keeps_the_rules_beside_it():
    """The API server runs them on the default as it is written, before the defaults inside it are filled in."""
    broken = [
        (path, str(problem))
        for path, schema in every_schema()
        if "default" in schema
        for problem in check_rules(schema["default"], schema)
    ]
    assert broken == []


def test_every_list_map_and_string_is_bounded():
    """An unbounded one makes the API server refuse CEL rules for their worst-case cost."""
    bounds = {"array": "maxItems", "string": "maxLength", "object": "maxProperties"}
    unbounded = [
        path
        for path, schema in every_schema()
        if bounds.get(schema.get("type", "")) not in {None, *schema}
        and "enum" not in schema
        and not (schema.get("type") == "object" and "properties" in schema)
    ]
    assert unbounded == []


def test_every_list_says_how_it_is_merged():
    assert [
        path
        for path, schema in every_schema()
        if schema.get("type") == "array" and "x-kubernetes-list-type" not in schema
    ] == []


def test_every_rule_has_a_message():
    rules = [(path, rule) for path, schema in every_schema() for rule in schema.get("x-kubernetes-validations", [])]
    assert len(rules) > 50
    assert [path for path, rule in rules if not rule.get("message")] == []


def test_a_deployment_can_be_scaled():
    scale = definitions()["modelplane.ai/v1alpha1", "ModelDeployment"].scale
    assert scale is not None
    assert (scale.spec_replicas_path, scale.status_replicas_path, scale.label_selector_path) == (
        ".spec.replicas",
        ".status.replicas",
        ".status.selector",
    )


@pytest.mark.parametrize("name", XRDS)
def test_names_do_not_clash_with_columns_crossplane_appends(name):
    columns = {column["name"] for column in XRDS[name]["spec"]["versions"][0]["additionalPrinterColumns"]}
    assert columns & {"SYNCED", "READY", "COMPOSITION", "COMPOSITIONREVISION", "AGE"} == set()


def test_the_pod_template_is_the_same_in_replicas_as_in_deployments():
    """A replica carries what its deployment wrote; a field known to one only would be lost on the way."""

    def fields(kind: str, *path: str) -> set[str]:
        node = dict(every_schema())[kind + "".join(path)]
        return {place.removeprefix("x") for place, _ in schemas("x", node)}

    ours = fields("ModelDeployment", ".spec.workers.template")
    assert fields("ModelReplica", ".spec.engines[].members[].template") == ours


def test_a_definition_becomes_a_custom_resource_definition():
    definition = definitions()["modelplane.ai/v1alpha1", "ModelService"]
    crd = custom_resource_definition(definition)
    assert crd["metadata"] == {"name": "modelservices.modelplane.ai"}
    version = crd["spec"]["versions"][0]
    assert [column["name"] for column in version["additionalPrinterColumns"]] == [
        "MODEL",
        "ADDRESS",
        "ENDPOINTS",
        "SERVING",
        "READY",
        "AGE",
    ]
    assert version["subresources"] == {"status": {}}


@pytest.mark.slow
def test_generated_files_are_up_to_date_and_a_change_is_noticed(tmp_path):
    tool = [sys.executable, str(ROOT / "tools" / "generate_api.py"), "--check"]
    assert subprocess.run(tool, check=False, capture_output=True, text=True).returncode == 0
    copy = tmp_path / "repo"
    for folder in ("apis", "tools", "src/modelplane/api"):
        (copy / folder).mkdir(parents=True)
        for path in (ROOT / folder).glob("*.*"):
            (copy / folder / path.name).write_bytes(path.read_bytes())
    xrd = copy / "apis" / "modelservices.yaml"
    xrd.write_text(xrd.read_text().replace("default: 1,", "default: 2,"))
    changed = subprocess.run(
        [sys.executable, str(copy / "tools" / "generate_api.py"), "--check"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (changed.returncode, changed.stdout.count("is out of date: run make generate")) == (1, 2)
