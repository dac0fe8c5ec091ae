"""Every recipe of the cookbook is valid, and has a place on the classes that its row names."""

import re
from pathlib import Path

import pytest

import modelplane
from modelplane.catalog import inference_class, load_catalog
from modelplane.k8s.admission.references import Severity

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "cookbook.md").read_text()
COOKBOOK = ROOT / "cookbook"
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if "](../cookbook/" in line]
RECIPES = [row for row in ROWS if len(row) == 3]
MODELS = [row for row in ROWS if len(row) == 4]
EXPECTED = ("Secret ",)
"""Secrets are in no file."""
CATALOG = load_catalog()


def target(cell):
    return (ROOT / "docs" / re.search(r"\(([^)]+)\)", cell)[1]).resolve()


def class_documents(names):
    machines = {machine.name: machine for machine in CATALOG.machines}
    found = [ROOT / "catalog" / machines[name].cloud / f"{name}.yaml" for name in names]
    return modelplane.read_documents(list(map(str, found)))


def cluster_of(name):
    text = f"""
apiVersion: modelplane.ai/v1alpha1
kind: InferenceCluster
metadata: {{name: here}}
spec:
  cluster: {{source: Existing, existing: {{secretRef: {{name: here-kubeconfig}}}}}}
  nodePools: [{{name: pool, className: {name}, nodeCount: 1}}]
---
apiVersion: modelplane.ai/v1alpha1
kind: InferenceGateway
metadata: {{name: default}}
spec: {{}}
"""
    return modelplane.parse_documents(text.encode(), source="cluster.yaml")


def unexpected(documents):
    findings = modelplane.validate(documents).findings
    return [
        str(each.problem)
        for each in findings
        if each.severity is Severity.ERROR or not any(part in str(each.problem) for part in EXPECTED)
    ]


def test_the_page_has_every_recipe_and_every_model():
    assert {target(row[0]) for row in RECIPES} == {path for path in COOKBOOK.iterdir() if path.name != "models"}
    assert {target(row[1]) for row in MODELS} == set((COOKBOOK / "models").iterdir())
    assert len(MODELS) >= 10


@pytest.mark.parametrize("row", RECIPES, ids=lambda row: target(row[0]).name)
def test_a_recipe_is_valid_and_every_replica_has_a_place(row):
    classes = re.findall(r"`([^`]+)`", row[2])
    documents = [*class_documents(classes), *modelplane.read_documents([str(target(row[0]))])]
    assert unexpected(documents) == []
    used = {pool["className"] for each in documents for pool in each.value["spec"].get("nodePools", ())}
    assert used == set(classes)
    found = modelplane.plan(modelplane.fleet_from(documents))
    answers = {each.deployment: each.answer.value for each in found.deployments}
    named = {
        f"{each.value['metadata']['namespace']}/{each.value['metadata']['name']}"
        for each in documents
        if each.value["kind"] == "ModelDeployment"
    }
    assert answers == dict.fromkeys(named, "FitsNow")


@pytest.mark.parametrize("row", MODELS, ids=lambda row: target(row[1]).name)
def test_a_model_is_valid_and_fits_a_node_of_its_class(row):
    model, cell, class_cell, devices = row
    name = class_cell.strip("`")
    documents = [*class_documents([name]), *cluster_of(name), *modelplane.read_documents([str(target(cell))])]
    assert unexpected(documents) == []
    (deployment,) = (each.value for each in documents if each.value["kind"] == "ModelDeployment")
    spec = deployment["spec"]
    (request,) = spec["nodeSelector"]["devices"]
    (container,) = spec["workers"]["template"]["spec"]["containers"]
    tensor = spec["workers"].get("topology", {}).get("tensor", 1)
    assert (container["args"][0], request["count"], tensor) == (model, int(devices), int(devices))
    found = modelplane.plan(modelplane.fleet_from(documents))
    assert [(each.answer.value, each.rows[0].cluster) for each in found.deployments] == [("FitsNow", "here")]


@pytest.mark.parametrize("row", MODELS, ids=lambda row: target(row[1]).name)
def test_the_sum_on_top_of_a_model_is_of_its_class(row):
    """`modelplane new` printed it for this class: product and count are those of the catalogue."""
    _, cell, class_cell, devices = row
    name = class_cell.strip("`")
    machine = next(each for each in CATALOG.machines if each.name == name)
    product = inference_class(CATALOG, machine)["spec"]["devices"][0]["attributes"]["productName"]["string"]
    line = next(each for each in target(cell).read_text().splitlines() if each.startswith("#   devices"))
    assert f"{devices} x {product} of " in line
    assert f"(class {name})" in line
