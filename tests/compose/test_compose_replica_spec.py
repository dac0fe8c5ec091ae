"""A ModelReplica as placement writes it."""

import msgspec
import pytest

from modelplane.api.codec import decode
from modelplane.api.models import GpuPool, MatchAttribute
from modelplane.compose.device_roots import PCIE_ROOT
from modelplane.compose.lowering import lower
from modelplane.compose.pool_hardware import pool_of
from modelplane.compose.replica_spec import make_replica
from modelplane.placement.values import MemberAssignment, PoolAssignment
from modelplane.testing.fleets import assignment, claim, cluster, replica
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


def device(name):
    drawn = {"claim": "DRA", "driver": f"{name}.example", "deviceClassName": f"{name}.example", "count": 8}
    return {"name": name, "devicesPerValue": {PCIE_ROOT: 2}, **drawn}


@pytest.mark.parametrize(
    ("shape", "names"),
    [("single-gpu", ()), ("pipeline-2", ("gpu", "nic")), ("prefill-decode", ("gpu", "nic"))],
    ids=["a pod by itself", "a group", "a phase"],
)
def test_a_pod_that_talks_to_others_has_its_gpu_and_its_card_on_one_root(shape, names):
    pool = pool_of(decode(GpuPool, {"name": "h200", "nodes": 2, "devices": [device("gpu"), device("nic")]}), None)
    claims = (claim(1, device_class="gpu.example"), claim(1, name="nic", device_class="nic.example"))
    deployment = load_deployment(shape)
    lowered = lower(deployment.spec)
    members = tuple(
        PoolAssignment(each.name, pool.name, tuple(MemberAssignment(1, claims) for _ in each.members))
        for each in lowered.engines
    )
    made = make_replica(deployment, lowered, replica("east", 0, *members), cluster=cluster("east", pool))
    assert {each.root_requests for engine in made.spec.engines for each in engine.members} == {names}


def test_an_engine_without_a_place_is_left_out():
    """A replica that was placed before an engine was added holds nothing for it."""
    deployment = load_deployment("prefill-decode")
    lowered = lower(deployment.spec)
    made = make_replica(deployment, lowered, replica("east", 0, assignment("h200", engine_name="prefill")))
    assert ([each.name for each in lowered.engines], [each.name for each in made.spec.engines]) == (
        ["decode", "prefill"],
        ["prefill"],
    )
