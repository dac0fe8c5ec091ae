"""A ModelReplica as placement writes it."""

import msgspec
import pytest

from modelplane.api.models import MatchAttribute
from modelplane.compose.lowering import lower
from modelplane.compose.replica_spec import make_replica
from modelplane.testing.fleets import assignment, claim, replica
from tests.compose.conftest import load_deployment

MATCH = MatchAttribute(attribute="resource.kubernetes.io/pcieRoot", requests=())
FACT = claim(1, name="nvlink", device_class=None)


@pytest.mark.parametrize(
    ("claims", "requested", "matches"),
    [
        ([claim(8)], ["gpu"], (MATCH,)),
        ([claim(8), FACT], ["gpu"], (MATCH,)),
        ([FACT], [], ()),
    ],
)
def test_a_fact_of_a_node_is_not_requested_and_a_claim_without_devices_has_no_constraints(claims, requested, matches):
    deployment = load_deployment("single-gpu")
    selector = msgspec.structs.replace(deployment.spec.node_selector, match_attributes=(MATCH,))
    lowered = lower(msgspec.structs.replace(deployment.spec, node_selector=selector))
    made = make_replica(deployment, lowered, replica("east", 0, assignment("h200", *claims)))
    (member,) = made.spec.engines[0].members
    assert ([each.name for each in member.device_requests], member.match_attributes) == (requested, matches)
