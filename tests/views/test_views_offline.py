"""Placement and rendering from documents alone."""

import json
from collections import Counter
from pathlib import Path

import pytest

from modelplane.api.errors import InputError
from modelplane.cli.manifests import read_documents
from modelplane.k8s.admission.documents import parse_documents
from modelplane.views.offline import compose_document, fleet_from, render, render_change, schedule

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


def kinds(rendered):
    return Counter((item.cluster, item.manifest["kind"]) for item in rendered)


def test_objects_that_replicas_share_are_rendered_once():
    def four(deployment):
        deployment["spec"]["replicas"] = 4

    found = kinds(render(fleet_from(changed(ModelDeployment=four))))
    assert (found["east", "Deployment"], found["east", "Namespace"]) == (2, 1)


def second(deployment):
    deployment["metadata"]["name"] = "second"
    deployment["spec"]["replicas"] = 1


def test_beside_a_fleet_what_was_edited_is_rendered():
    before = fleet_from(QUICKSTART)
    after = fleet_from([*QUICKSTART, *changed(ModelDeployment=second)])
    found = render_change(before, after, {("default", "second")})
    assert {item.manifest["kind"] for item in found} == {item.manifest["kind"] for item in render(before)}
    assert Counter(item.manifest["kind"] for item in found)["Deployment"] == 1
    assert all("qwen3-8b" not in item.manifest["metadata"]["name"] for item in found)
    assert render_change(before, before, ()) == ()
    assert render_change(before, before, {("default", "qwen3-8b")}) == render(before)


def test_a_change_of_a_cluster_is_what_it_changes_of_others():
    def queued(cluster):
        if cluster["metadata"]["name"] == "east":
            cluster["spec"]["scheduling"] = {"type": "Kueue", "queue": "team", "version": "0.18"}

    before, after = fleet_from(QUICKSTART), fleet_from(changed(InferenceCluster=queued))
    assert kinds(render_change(before, after, ())) == {("east", "Deployment"): 1, ("east", "LocalQueue"): 1}


def test_a_deployment_of_the_fleet_that_cannot_run_is_no_reason_to_refuse_another():
    def misspell(cluster):
        if cluster["metadata"]["name"] == "east":
            cluster["spec"]["scheduling"] = {"type": "Kueue", "queue": "not a label", "version": "0.18"}

    def on_east(deployment):
        deployment["spec"]["clusterSelector"] = {"matchLabels": {"region": "us-east"}}

    broken = changed(InferenceCluster=misspell, ModelDeployment=on_east)
    added = changed(InferenceCluster=misspell, ModelDeployment=second)
    found = render_change(fleet_from(broken), fleet_from([*broken, *added]), {("default", "second")})
    assert kinds(found)["west", "Deployment"] == 1


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
