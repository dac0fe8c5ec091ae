import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.sim.cluster.container_faults import CREATING, ContainerFault
from modelplane.sim.cluster.pod_status import (
    Exit,
    PodStage,
    PodView,
    engine_container,
    go_duration,
    pod_status,
    restart_count,
)

EPOCH = 1_750_000_000.0
NOW = "2025-06-15T15:06:40Z"
POD = {
    "metadata": {"name": "p", "namespace": "team", "uid": "u-1"},
    "spec": {
        "containers": [
            {"name": "engine", "image": "vllm/vllm-openai:v1"},
            {"name": "side", "image": "llm-d/llm-d-routing-sidecar:v1"},
        ]
    },
    "status": {
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": NOW}],
        "resourceClaimStatuses": [{"name": "devices", "resourceClaimName": "x"}],
    },
}
NOT_READY = {
    "status": "False",
    "reason": "ContainersNotReady",
    "message": "containers with unready status: [engine side]",
    "lastTransitionTime": NOW,
}


def view(stage, **more):
    return PodView(stage=stage, ip="10.128.0.2", admitted_s=EPOCH, running_since_s=EPOCH, **more)


def test_an_init_container_that_cannot_be_created_waits_and_the_others_for_it():
    made = {**POD, "spec": {**POD["spec"], "initContainers": [{"name": "tune", "image": "nosuch/tune:1"}]}}
    fault = ContainerFault("", "ErrImagePull", "not found", "nosuch/tune:1", init="tune")
    status = pod_status(made, view(PodStage.BLOCKED, blocked=(fault,)), EPOCH)
    assert [each["state"] for each in status["initContainerStatuses"]] == [
        {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    ]
    assert [each["state"] for each in status["containerStatuses"]] == [{"waiting": {"reason": "PodInitializing"}}] * 2
    assert (status["phase"], status["conditions"][1]["message"]) == (
        "Pending", "containers with incomplete status: [tune]",
    )  # fmt: skip


def test_the_whole_status_of_a_pod_that_serves():
    running = {"ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": NOW}}}
    assert pod_status(POD, view(PodStage.SERVING), EPOCH) == {
        "phase": "Running",
        "startTime": NOW,
        "podIP": "10.128.0.2",
        "podIPs": [{"ip": "10.128.0.2"}],
        "resourceClaimStatuses": [{"name": "devices", "resourceClaimName": "x"}],
        "containerStatuses": [
            {"name": "engine", "image": "vllm/vllm-openai:v1", **running},
            {"name": "side", "image": "llm-d/llm-d-routing-sidecar:v1", **running},
        ],
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": NOW},
            {"type": "Initialized", "status": "True", "lastTransitionTime": NOW},
            {"type": "Ready", "status": "True", "lastTransitionTime": NOW},
            {"type": "ContainersReady", "status": "True", "lastTransitionTime": NOW},
        ],
    }


@pytest.mark.parametrize(
    ("stage", "phase", "started", "state"),
    [
        (PodStage.PULLING, "Pending", False, {"waiting": {"reason": "ContainerCreating"}}),
        (PodStage.LOADING, "Running", True, {"running": {"startedAt": NOW}}),
        (PodStage.STARTING, "Running", True, {"running": {"startedAt": NOW}}),
        (PodStage.DRAINING, "Running", True, {"running": {"startedAt": NOW}}),
        (PodStage.STOPPING, "Running", True, {"running": {"startedAt": NOW}}),
        (
            PodStage.BACKOFF,
            "Running",
            False,
            {
                "waiting": {
                    "reason": "CrashLoopBackOff",
                    "message": "back-off 1m20s restarting failed container=engine pod=p_team(u-1)",
                }
            },
        ),
    ],
)
def test_a_pod_that_does_not_serve_is_not_ready(stage, phase, started, state):
    found = pod_status(POD, view(stage, restarts=2, backoff_s=80), EPOCH)
    container = {
        "name": "engine",
        "image": "vllm/vllm-openai:v1",
        "ready": False,
        "started": started,
        "restartCount": 2,
        "state": state,
    }
    assert found["phase"] == phase
    assert found["containerStatuses"][0] == container
    assert found["conditions"][2:] == [{"type": "Ready", **NOT_READY}, {"type": "ContainersReady", **NOT_READY}]


def test_how_it_last_ended_is_told():
    found = pod_status(POD, view(PodStage.LOADING, restarts=1, last_exit=Exit(137, "Error", "gone", EPOCH)), EPOCH)
    ended = {"exitCode": 137, "reason": "Error", "message": "gone", "finishedAt": NOW}
    assert found["containerStatuses"][0]["lastState"] == {"terminated": ended}


def test_restarts_are_read_back():
    assert restart_count(POD) is None
    assert restart_count({"status": pod_status(POD, view(PodStage.PULLING), EPOCH)}) is None
    assert restart_count({"status": pod_status(POD, view(PodStage.LOADING), EPOCH)}) == 0
    assert restart_count({"status": pod_status(POD, view(PodStage.BACKOFF, restarts=3), EPOCH)}) == 3


def test_the_engine_is_a_container_of_that_name():
    assert engine_container(POD) == {"name": "engine", "image": "vllm/vllm-openai:v1"}
    assert engine_container({"spec": {"containers": [{"name": "web"}]}}) is None


def states(found):
    return [
        (entry["name"], entry["ready"], entry["restartCount"], entry["state"]) for entry in found["containerStatuses"]
    ]


def test_a_container_that_crashes_leaves_the_others_running():
    ended = Exit(2, "Error", "vllm: error: no", EPOCH, container="engine")
    found = pod_status(POD, view(PodStage.BACKOFF, restarts=3, last_exit=ended, backoff_s=20), EPOCH)
    message = "back-off 20s restarting failed container=engine pod=p_team(u-1)"
    assert states(found) == [
        ("engine", False, 3, {"waiting": {"reason": "CrashLoopBackOff", "message": message}}),
        ("side", True, 0, {"running": {"startedAt": NOW}}),
    ]
    assert "lastState" not in found["containerStatuses"][1]
    assert found["conditions"][2]["message"] == "containers with unready status: [engine]"


def test_a_container_that_cannot_be_created_says_why():
    fault = ContainerFault("side", "CreateContainerConfigError", 'secret "x" not found')
    found = pod_status(POD, view(PodStage.BLOCKED, blocked=(fault,)), EPOCH)
    assert found["phase"] == "Pending"
    assert states(found) == [
        ("engine", True, 0, {"running": {"startedAt": NOW}}),
        (
            "side",
            False,
            0,
            {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "x" not found'}},
        ),
    ]


def test_a_volume_that_cannot_be_mounted_keeps_all_containers_waiting():
    fault = ContainerFault("", CREATING, "MountVolume.SetUp failed")
    found = pod_status(POD, view(PodStage.BLOCKED, blocked=(fault,)), EPOCH)
    assert [entry["state"] for entry in found["containerStatuses"]] == [{"waiting": {"reason": CREATING}}] * 2


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (10, "10s"), (60, "1m0s"), (80, "1m20s"), (160, "2m40s"), (300, "5m0s")]
)
def test_durations_are_printed_as_go_prints_them(seconds, text):
    assert go_duration(seconds) == text


_FAULTS = st.builds(
    ContainerFault,
    st.sampled_from(["", "engine", "side"]),
    st.sampled_from([CREATING, "ErrImagePull", "CreateContainerConfigError"]),
    st.just("why"),
)
_MESSAGES, _CONTAINERS = st.sampled_from(["", "log"]), st.sampled_from(["", "side"])
_EXITS = st.none() | st.builds(Exit, st.integers(0, 255), st.just("Error"), _MESSAGES, st.just(EPOCH), _CONTAINERS)


@given(st.sampled_from(PodStage), st.lists(_FAULTS, min_size=1, max_size=3), _EXITS, st.integers(0, 3))
def test_every_container_is_in_one_state_and_ready_pods_have_only_ready_ones(stage, faults, ended, restarts):
    found = pod_status(POD, view(stage, blocked=tuple(faults), last_exit=ended, restarts=restarts), EPOCH)
    containers = found["containerStatuses"]
    assert all(len(entry["state"]) == 1 for entry in containers)
    assert all(("running" in entry["state"]) == entry["started"] for entry in containers)
    ready = next(entry["status"] for entry in found["conditions"] if entry["type"] == "Ready")
    assert (ready == "True") == (stage is PodStage.SERVING)
    assert ready == "False" or all(entry["ready"] for entry in containers)
    assert (found["phase"] == "Pending") == (stage in {PodStage.PULLING, PodStage.BLOCKED})
