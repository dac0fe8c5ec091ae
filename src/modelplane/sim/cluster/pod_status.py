"""What a pod's status says while its containers are started, run, crash and stop."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from modelplane.api.labels import ENGINE_CONTAINER
from modelplane.api.objects import Json, Manifest, items_at, labels_of, mapping_at
from modelplane.api.timestamps import timestamp
from modelplane.sim.cluster.lws_pods import is_worker
from modelplane.sim.cluster.objects import merged_conditions

KSERVE_CONTAINER = "main"
KSERVE_PART = "kserve.io/component"
KSERVE_SERVICE = "workload"


class PodStage(Enum):
    """Where a pod's containers are. All of them go through it together; only the engine's server is real."""

    PULLING = auto()
    LOADING = auto()
    WAITING = auto()
    STARTING = auto()
    SERVING = auto()
    BACKOFF = auto()
    DRAINING = auto()
    STOPPING = auto()


RUNNING = frozenset(
    {PodStage.LOADING, PodStage.WAITING, PodStage.STARTING, PodStage.SERVING, PodStage.DRAINING, PodStage.STOPPING}
)


@dataclass(frozen=True, slots=True)
class Exit:
    """How the containers last ended."""

    code: int
    reason: str
    message: str
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """What the kubelet knows of a pod."""

    stage: PodStage
    ip: str
    admitted_s: float
    running_since_s: float
    restarts: int = 0
    last_exit: Exit | None = None


def engine_container(pod: Manifest) -> Mapping[str, object] | None:
    """The container that serves, or None: in a group of pods only the leader's does."""
    if is_worker(pod):
        return None
    name = KSERVE_CONTAINER if labels_of(pod).get(KSERVE_PART) == KSERVE_SERVICE else ENGINE_CONTAINER
    return next((entry for entry in items_at(pod, "spec", "containers") if entry.get("name") == name), None)


def pod_status(pod: Manifest, view: PodView, now_s: float) -> Json:
    """The whole status: what the scheduler and others wrote into it stays."""
    ready = view.stage is PodStage.SERVING
    known = mapping_at(pod, "status")
    return {
        **known,
        "phase": "Pending" if view.stage is PodStage.PULLING else "Running",
        "startTime": timestamp(view.admitted_s),
        "podIP": view.ip,
        "podIPs": [{"ip": view.ip}],
        "containerStatuses": [_container(entry, view) for entry in items_at(pod, "spec", "containers")],
        "conditions": merged_conditions(items_at(pod, "status", "conditions"), _conditions(pod, ready=ready), now_s),
    }


def ended_status(pod: Manifest, view: PodView, ended: Exit) -> Json:
    """The status of a pod whose containers have ended for good."""
    phase = "Failed" if ended.code else "Succeeded"
    reason = "PodFailed" if ended.code else "PodCompleted"
    conditions = [{"type": kind, "status": "False", "reason": reason} for kind in ("Ready", "ContainersReady")]
    containers = [
        {
            "name": container.get("name"),
            "image": container.get("image"),
            "ready": False,
            "started": False,
            "restartCount": view.restarts,
            "state": {"terminated": _terminated(ended)},
        }
        for container in items_at(pod, "spec", "containers")
    ]
    known = items_at(pod, "status", "conditions")
    return {
        **mapping_at(pod, "status"),
        "phase": phase,
        "containerStatuses": containers,
        "conditions": merged_conditions(known, conditions, ended.at_s),
    }


def restart_count(pod: Manifest) -> int | None:
    """How often the containers had restarted when the status was written; None when they had never run."""
    for entry in items_at(pod, "status", "containerStatuses"):
        if entry.get("started") is True or entry.get("restartCount"):
            return int(str(entry.get("restartCount", 0)))
    return None


def _conditions(pod: Manifest, *, ready: bool) -> list[Json]:
    if ready:
        return [{"type": kind, "status": "True"} for kind in ("Initialized", "Ready", "ContainersReady")]
    names = " ".join(str(entry.get("name")) for entry in items_at(pod, "spec", "containers"))
    waiting = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{names}]"}
    return [
        {"type": "Initialized", "status": "True"},
        {"type": "Ready", "status": "False", **waiting},
        {"type": "ContainersReady", "status": "False", **waiting},
    ]


def _container(container: Mapping[str, object], view: PodView) -> Json:
    ready = view.stage is PodStage.SERVING
    status: Json = {
        "name": container.get("name"),
        "image": container.get("image"),
        "ready": ready,
        "started": view.stage in RUNNING,
        "restartCount": view.restarts,
        "state": _state(view),
    }
    if view.last_exit is not None:
        status["lastState"] = {"terminated": _terminated(view.last_exit)}
    return status


def _state(view: PodView) -> Json:
    if view.stage in RUNNING:
        return {"running": {"startedAt": timestamp(view.running_since_s)}}
    if view.stage is PodStage.PULLING:
        return {"waiting": {"reason": "ContainerCreating"}}
    return {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}


def _terminated(ended: Exit) -> Json:
    return {
        "exitCode": ended.code,
        "reason": ended.reason,
        "message": ended.message,
        "finishedAt": timestamp(ended.at_s),
    }
