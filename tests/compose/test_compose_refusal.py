"""What is accepted and not acted on, in the words of the review of manifests."""

import json

import pytest

from modelplane.api.codec import decode
from modelplane.compose import unsupported
from modelplane.compose.contract import ComposeRequest, Local, Observed, keep
from modelplane.compose.refusal import STORED_ONLY
from modelplane.compose.registry import COMPOSERS
from modelplane.k8s.admission.documents import parse_documents
from modelplane.views.manifest_review import validate


def test_the_kinds_that_are_only_stored_are_those_that_nobody_composes():
    stored = {kind for kind, entry in COMPOSERS.items() if entry.compose is unsupported.compose}
    assert stored == STORED_ONLY


def test_an_object_that_is_only_stored_says_so_and_keeps_what_is_there():
    entry = COMPOSERS["ServingStack"]
    seen = Observed(Local({"metadata": {"name": "there"}}), ready=True)
    resource = decode(entry.resource, {"metadata": {"name": "s"}, "spec": {"clusterName": "east", "secrets": []}})
    result = entry.compose(ComposeRequest(resource, {"thing": seen}))
    (condition,) = result.conditions
    assert (condition.type, condition.status.value, condition.reason) == ("Accepted", "False", "NotSupported")
    assert condition.message.startswith("this build stores objects of this kind and does not reconcile them")
    assert (result.desired, result.ready.status.value) == ({"thing": keep(seen)}, "False")


POOL = {
    "name": "p",
    "className": "h200",
    "capacityBlock": {"capacityReservationId": "cr-0a1b"},
    "capacityReservation": {"name": "r"},
    "minNodeCount": 1,
    "maxNodeCount": 2,
}
EXISTING = {"source": "Existing", "existing": {"secretRef": {"name": "east"}}}
ENDPOINT = {"url": "https://a.example", "auth": {"secretRef": {"name": "k", "key": "a"}}, "rewritePath": "/x"}
GROUP = {"selector": {"matchLabels": {"app": "a"}}, "overflow": {"inFlightPerEndpoint": 8}}


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        (
            "InferenceCluster",
            {"cluster": EXISTING, "nodePools": [POOL]},
            [
                f"spec.nodePools[0].{field}: has no effect on a cluster that exists already; leave it out"
                for field in ("capacityBlock", "capacityReservation", "minNodeCount")
            ],
        ),
        (
            "ModelEndpoint",
            ENDPOINT,
            [
                "spec.auth: is the earlier form; write credential: {method: APIKey, apiKey: {secretRef: {name, key}}}",
                "spec.rewritePath: is the earlier form; write api: {prefix: PATH/v1}",
            ],
        ),
        (
            "ModelService",
            {"endpoints": [GROUP]},
            ["spec.endpoints[0].overflow: has no effect without the fleet router; run the router"],
        ),
        (
            "InferenceGateway",
            {"tls": {"secretRef": {"name": "front"}}, "clusterName": "east"},
            ["spec.tls.secretRef: is the earlier form; write certificateRefs: [{name: NAME}]"],
        ),
    ],
)
def test_the_review_of_a_manifest_says_what_has_no_effect_and_what_to_write(kind, spec, expected):
    item = {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    findings = validate(parse_documents(json.dumps(item).encode(), source="f")).findings
    told = [str(each.problem) for each in findings]
    assert [each for each in told if "of this set" not in each and "in this set" not in each] == expected
