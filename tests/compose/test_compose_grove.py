import pytest
from msgspec.structs import replace

from modelplane.api.models import Spread
from modelplane.compose.readiness import is_ready
from modelplane.compose.workload_status import progress, rolled_out
from tests.compose.conftest import make_scene


def rendered(made):
    return made.compose().desired["workload-main-grove"].target


def env(clique) -> dict[str, object]:
    (engine,) = (each for each in clique["spec"]["podSpec"]["containers"] if each["name"] == "engine")
    return {entry["name"]: entry.get("value") or entry["valueFrom"] for entry in engine["env"]}


def test_every_node_is_a_clique_that_knows_its_rank_and_its_leader():
    item = rendered(make_scene("pipeline-4", "grove", "kai")).manifest
    cliques = item["spec"]["template"]["cliques"]
    assert [clique["name"] for clique in cliques] == ["leader", "w1", "w2", "w3"]
    ranks = [(env(clique)["MODELPLANE_RANK"], env(clique)["MODELPLANE_GROUP_SIZE"]) for clique in cliques]
    assert ranks == [("0", "4"), ("1", "4"), ("2", "4"), ("3", "4")]
    name, namespace = item["metadata"]["name"], item["metadata"]["namespace"]
    copy = f"{name}-$(MODELPLANE_COPY)"
    assert {env(clique)["MODELPLANE_LEADER_ADDRESS"] for clique in cliques} == {f"{copy}-leader-0.{copy}.{namespace}"}
    label = {"fieldRef": {"fieldPath": "metadata.labels['grove.io/podcliqueset-replica-index']"}}
    assert {str(env(clique)["MODELPLANE_COPY"]) for clique in cliques} == {str(label)}


def test_names_leave_room_for_those_that_grove_makes():
    """Its webhook allows a set and a clique 45 characters together."""
    item = rendered(make_scene("pipeline-4", "grove", "kai")).manifest
    longest = max(len(clique["name"]) for clique in item["spec"]["template"]["cliques"])
    assert len(item["metadata"]["name"]) + longest <= 45


def test_only_leaders_serve_and_all_are_placed_by_kai():
    cliques = rendered(make_scene("pipeline-4", "grove", "kai")).manifest["spec"]["template"]["cliques"]
    assert [clique["name"] for clique in cliques if "modelplane.ai/serving" in clique["labels"]] == ["leader"]
    assert {clique["spec"]["podSpec"]["schedulerName"] for clique in cliques} == {"kai-scheduler"}
    assert {clique["labels"]["kai.scheduler/queue"] for clique in cliques} == {"serving"}


def test_an_engine_of_one_node_stays_a_deployment():
    assert "workload-main-deployment" in make_scene("tensor-8", "grove", "kai").compose().desired


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        pytest.param({}, False, id="no status"),
        pytest.param({"availableReplicas": 0, "observedGeneration": 2}, False, id="no copy"),
        pytest.param({"availableReplicas": 1, "observedGeneration": 2}, True, id="every copy"),
        pytest.param({"availableReplicas": 1, "observedGeneration": 1}, False, id="of an older generation"),
    ],
)
def test_it_is_ready_when_every_copy_is_counted(status, ready):
    target = rendered(make_scene("sglang-2", "grove", "kai"))
    metadata = {**target.manifest["metadata"], "generation": 2}
    assert is_ready({**target.manifest, "metadata": metadata, "status": status}, target.ready_when) is ready


def test_a_rollout_ends_when_every_copy_is_updated():
    item = rendered(make_scene("sglang-2", "grove", "kai")).manifest
    halfway = {**item, "status": {"replicas": 1, "availableReplicas": 1}}
    assert not rolled_out(item)
    assert not rolled_out(halfway)
    assert rolled_out({**item, "status": {"replicas": 1, "availableReplicas": 1, "updatedReplicas": 1}})
    assert progress(halfway).endswith("1 of 1 ready")


@pytest.mark.parametrize(
    ("backend", "scheduler", "message"),
    [
        ("grove", "none", "spec.stack: Dynamo needs spec.scheduling.type: KAI, which places the gangs of Grove"),
        ("kserve", "kai", "spec.stack: Dynamo is for spec.backend.type Native, not KServe"),
        ("racks", "kai", "spec.stack: Dynamo cannot keep an engine in one domain of a fabric"),
    ],
)
def test_what_the_stack_cannot_do_is_said(backend, scheduler, message):
    made = make_scene("pipeline-4", backend, scheduler)
    made.required["cluster"][0]["spec"]["stack"] = "Dynamo"
    refused = made.compose().conditions[0]
    told = f"cluster east: {message}; running pods stay"
    assert (refused.status, refused.reason, refused.message) == ("False", "NotSupported", told)


@pytest.mark.parametrize("index", [0, 1], ids=["of the leader", "of the workers"])
def test_a_spread_that_grove_refuses_is_refused_here(index):
    spread = (Spread(topology_key="zone"),)
    made = make_scene("v03-gang", "grove", "kai")
    (engine,) = made.replica.spec.engines
    members = list(engine.members)
    pod = replace(members[index].template.spec, topology_spread_constraints=spread)
    members[index] = replace(members[index], template=replace(members[index].template, spec=pod))
    spec = replace(made.replica.spec, engines=(replace(engine, members=tuple(members)),))
    made.replica = replace(made.replica, spec=spec)
    refused = made.compose().conditions[0]
    assert "engine serve: Grove refuses topologySpreadConstraints; the stack Standard takes them" in refused.message
