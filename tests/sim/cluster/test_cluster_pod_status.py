import pytest

from modelplane.sim.cluster.pod_status import Exit, PodStage, PodView, engine_container, pod_status, restart_count

EPOCH = 1_750_000_000.0
NOW = "2025-06-15T15:06:40Z"
POD = {
    "spec": {"containers": [{"name": "engine", "image": "e:1"}, {"name": "side", "image": "s:1"}]},
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


def test_the_whole_status_of_a_pod_that_serves():
    running = {"ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": NOW}}}
    assert pod_status(POD, view(PodStage.SERVING), EPOCH) == {
        "phase": "Running",
        "startTime": NOW,
        "podIP": "10.128.0.2",
        "podIPs": [{"ip": "10.128.0.2"}],
        "resourceClaimStatuses": [{"name": "devices", "resourceClaimName": "x"}],
        "containerStatuses": [
            {"name": "engine", "image": "e:1", **running},
            {"name": "side", "image": "s:1", **running},
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
            {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}},
        ),
    ],
)
def test_a_pod_that_does_not_serve_is_not_ready(stage, phase, started, state):
    found = pod_status(POD, view(stage, restarts=2), EPOCH)
    container = {
        "name": "engine",
        "image": "e:1",
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
    assert engine_container(POD) == {"name": "engine", "image": "e:1"}
    assert engine_container({"spec": {"containers": [{"name": "web"}]}}) is None
