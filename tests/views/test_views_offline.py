"""Placement and rendering from documents alone."""

import json
from collections import Counter
from pathlib import Path

import pytest

from modelplane.api.errors import InputError
from modelplane.cli.manifests import read_documents
from modelplane.k8s.admission.documents import parse_documents
from modelplane.views.offline import compose_document, fleet_from, render, schedule

QUICKSTART = read_documents([Path(__file__).resolve().parents[2] / "examples" / "quickstart"])


def changed(**changes):
    """The quickstart, with objects changed by their kind."""
    values = json.loads(json.dumps([document.value for document in QUICKSTART]))
    for value in values:
        changes.get(value["kind"], lambda _value: None)(value)
    return parse_documents(json.dumps({"kind": "List", "items": values}).encode(), source="changed")


def test_replicas_are_placed_and_rendered_on_their_clusters():
    fleet = fleet_from(QUICKSTART)
    placed = schedule(fleet, "qwen3-8b")
    found = render(fleet)
    assert (len(placed.placements), placed.pending) == (2, 0)
    assert Counter(item.cluster for item in found if item.manifest["kind"] == "Deployment") == {"east": 1, "west": 1}


def test_a_deployment_is_rendered_on_what_those_before_it_leave():
    def small(cluster):
        cluster["spec"]["nodePools"][0]["nodeCount"] = 1

    def whole_node(deployment):
        deployment["spec"]["replicas"] = 1
        deployment["spec"]["nodeSelector"]["devices"][0]["count"] = 8

    def renamed(deployment):
        whole_node(deployment)
        deployment["metadata"]["name"] = "second"

    first = changed(InferenceCluster=small, ModelDeployment=whole_node)
    second = changed(InferenceCluster=small, ModelDeployment=renamed)
    found = render(fleet_from([*first, *second]))
    assert Counter(item.cluster for item in found if item.manifest["kind"] == "Deployment") == {"east": 1, "west": 1}


def test_a_deployment_that_no_cluster_can_run_is_refused_with_the_field():
    def misspell(cluster):
        cluster["spec"]["scheduling"] = {"type": "Kueue", "queue": "not a label", "version": "0.18"}

    with pytest.raises(InputError, match=r"ModelDeployment default/qwen3-8b: .*spec.scheduling.queue"):
        render(fleet_from(changed(InferenceCluster=misspell)))


def test_a_composer_gets_what_it_requires():
    documents = {document.value["kind"]: document for document in QUICKSTART}
    result = compose_document(documents["InferenceCluster"], QUICKSTART)
    assert result.status.gpu_pools[0].class_name == "h200-8x"
    alone = compose_document(documents["InferenceCluster"])
    assert not alone.status.gpu_pools


def test_a_kind_without_a_composer_is_refused():
    (document,) = parse_documents(b"{apiVersion: v1, kind: Pod}", source="pod.yaml")
    with pytest.raises(InputError, match="Pod is not composed; use one of InferenceClass, "):
        compose_document(document)
