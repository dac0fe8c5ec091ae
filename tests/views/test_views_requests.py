"""Fleets whose clusters cannot all run everything: the shipped examples together."""

import copy
import json
from pathlib import Path

from modelplane.cli.manifests import read_documents
from modelplane.views.explain import explain
from modelplane.views.inputs import gather, merge
from modelplane.views.plan import plan
from modelplane.views.replay import replay, snapshot_document
from modelplane.views.shapes import FitAnswer

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MIXED = [document.value for name in ("quickstart", "prefill-decode") for document in read_documents([EXAMPLES / name])]
NO_POOLS = "prefill and decode apart need spec.backend.routing: InferencePool, and a gateway that knows such pools"


def without_images(manifests):
    changed = copy.deepcopy(manifests)
    for item in changed:
        if item["kind"] == "InferenceCluster":
            item["spec"].pop("backend", None)
    return changed


def planned(manifests):
    return {found.deployment: found for found in plan(gather(manifests)).deployments}["default/qwen3-32b"]


def refusals(inputs):
    found = explain(inputs, "qwen3-32b").candidates
    return {(one.cluster, one.filter): one.reason for one in found if one.filter == "Backend"}


def test_prefill_and_decode_go_where_they_can_run_without_a_selector():
    found = planned(MIXED)
    assert (found.answer, [row.cluster for row in found.rows]) == (FitAnswer.FITS_NOW, ["north"])
    assert refusals(gather(MIXED)) == {("east", "Backend"): NO_POOLS, ("west", "Backend"): NO_POOLS}


def test_a_plan_says_what_no_cluster_has():
    found = planned(without_images(MIXED))
    assert (found.answer, [row.reason for row in found.rows]) == (FitAnswer.FITS_NOWHERE, [f"3 x Backend: {NO_POOLS}"])


def test_a_snapshot_keeps_what_clusters_refuse_and_not_what_pods_are_told():
    document = json.loads(json.dumps(snapshot_document(gather(MIXED))))
    assert [decision["refused"] for decision in document["decisions"]] == [{"east": NO_POOLS, "west": NO_POOLS}, {}]
    assert all(found.same for found in replay(document))
    assert refusals(gather([document])) == refusals(gather(MIXED))


def test_a_deployment_that_lies_over_a_snapshot_is_judged_anew():
    base = gather([json.loads(json.dumps(snapshot_document(gather(without_images(MIXED)))))])
    edited = [item for item in MIXED if item["kind"] == "ModelDeployment"]
    assert refusals(merge(base, gather(edited))).keys() == {(name, "Backend") for name in ("east", "north", "west")}
