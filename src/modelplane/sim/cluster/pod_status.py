"""What a pod's status says while its containers are started, run, crash and stop."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from modelplane.api.labels import CACHE_CHECK_CONTAINER, ENGINE_CONTAINER, WARM_UP_CONTAINER
from modelplane.api.objects import Json, Manifest, items_at, labels_of, mapping_at, name_of, namespace_of, uid_of
from modelplane.api.timestamps import timestamp
from modelplane.sim.cluster.container_faults import CREATING, ContainerFault
from modelplane.sim.cluster.lws_pods import is_worker
from modelplane.sim.cluster.objects import merged_conditions

INITIALIZING = "PodInitializing"
KSERVE_CONTAINER = "main"
KSERVE_PART = "kserve.io/component"
KSERVE_SERVICE = "workload"


class PodStage(Enum):
    """Where a pod's containers are. All of them go through it together; only the engine's server is real."""

    PULLING = auto()
    BLOCKED = auto()
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


_NOT_CREATED = frozenset({PodStage.PULLING, PodStage.BLOCKED})


@dataclass(frozen=True, slots=True)
class Exit:
    """How the containers last ended: that of the name, or all of them where there is none.

    The message is the end of the log, as terminationMessagePolicy FallbackToLogsOnError has it.
    """

    code: int
    reason: str
    message: str
    at_s: float
    container: str = ""

    def covers(self, container: object) -> bool:
        return self.container in {"", container}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """What the kubelet knows of a pod."""

    stage: PodStage
    ip: str
    admitted_s: float
    running_since_s: float
    restarts: int = 0
    last_exit: Exit | None = None
    blocked: tuple[ContainerFault, ...] = ()
    backoff_s: float = 0.0
    warming: bool = False

    @property
    def fails_to_initialize(self) -> bool:
        """Whether the init container that looks at caches ended, and is started again after a back-off."""
        return self.stage is PodStage.BACKOFF and self.last_exit is not None and is_initial(self.last_exit)


def is_initial(ended: Exit) -> bool:
    return ended.container == CACHE_CHECK_CONTAINER


def warm_up_words(pod: Manifest) -> list[str] | None:
    """The arguments of the warm-up container; None where the pod has none."""
    found = (entry for entry in items_at(pod, "spec", "containers") if entry.get("name") == WARM_UP_CONTAINER)
    container = next(found, None)
    words = container.get("args") if container is not None else None
    return None if container is None else [str(word) for word in words] if isinstance(words, list | tuple) else []


def engine_container(pod: Manifest) -> Mapping[str, object] | None:
    """The container that serves, or None: in a group of pods only the leader's does."""
    if is_worker(pod):
        return None
    name = KSERVE_CONTAINER if labels_of(pod).get(KSERVE_PART) == KSERVE_SERVICE else ENGINE_CONTAINER
    return next((entry for entry in items_at(pod, "spec", "containers") if entry.get("name") == name), None)


def pod_status(pod: Manifest, view: PodView, now_s: float) -> Json:
    """The whole status: what the scheduler and others wrote into it stays."""
    known = mapping_at(pod, "status")
    return {
        **known,
        "phase": "Pending" if view.stage in _NOT_CREATED or view.fails_to_initialize else "Running",
        "startTime": timestamp(view.admitted_s),
        "podIP": view.ip,
        "podIPs": [{"ip": view.ip}],
        **_initial(pod, view),
        "containerStatuses": [_container(pod, entry, view) for entry in items_at(pod, "spec", "containers")],
        "conditions": merged_conditions(items_at(pod, "status", "conditions"), _conditions(pod, view), now_s),
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
    counts = [
        int(str(entry.get("restartCount", 0)))
        for entry in items_at(pod, "status", "containerStatuses")
        if entry.get("started") is True or entry.get("restartCount")
    ]
    return max(counts, default=None)


def pod_id(pod: Manifest) -> str:
    """As the kubelet names a pod in its messages."""
    return f"{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})"


def go_duration(seconds: float) -> str:
    """Whole seconds as Go prints them: 10s, 1m20s, 5m0s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _conditions(pod: Manifest, view: PodView) -> list[Json]:
    if view.stage is PodStage.SERVING:
        return [{"type": kind, "status": "True"} for kind in ("Initialized", "Ready", "ContainersReady")]
    containers = (entry.get("name") for entry in items_at(pod, "spec", "containers"))
    names = " ".join(str(name) for name in containers if not _runs_on(view, name))
    waiting = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{names}]"}
    unmade = [fault.init for fault in view.blocked if fault.init] if view.stage is PodStage.BLOCKED else []
    initial = f"containers with incomplete status: [{' '.join(unmade) or CACHE_CHECK_CONTAINER}]"
    failed = {"status": "False", "reason": "ContainersNotInitialized", "message": initial}
    return [
        {"type": "Initialized", **(failed if view.fails_to_initialize or unmade else {"status": "True"})},
        {"type": "Ready", "status": "False", **waiting},
        {"type": "ContainersReady", "status": "False", **waiting},
    ]


def _runs_on(view: PodView, container: object) -> bool:
    """Whether a container is ready although others of its pod are not."""
    if view.warming and view.stage is PodStage.STARTING:
        return container != WARM_UP_CONTAINER
    if view.stage is PodStage.BACKOFF and view.last_exit is not None and not is_initial(view.last_exit):
        return not view.last_exit.covers(container)
    return view.stage is PodStage.BLOCKED and not any(fault.covers(container) for fault in view.blocked)


def _initial(pod: Manifest, view: PodView) -> Json:
    """The statuses of init containers, where there are such. One that is restarted always is a sidecar."""
    statuses = [_init_container(pod, entry, view) for entry in items_at(pod, "spec", "initContainers")]
    return {"initContainerStatuses": statuses} if statuses else {}


def _init_container(pod: Manifest, container: Mapping[str, object], view: PodView) -> Json:
    name = container.get("name")
    failed = view.last_exit if view.last_exit is not None and view.last_exit.covers(name) else None
    created = view.stage not in _NOT_CREATED and not view.fails_to_initialize
    sidecar = created and container.get("restartPolicy") == "Always"
    at = timestamp(view.running_since_s)
    state: Json = {"waiting": {"reason": INITIALIZING}}
    blocking = next((fault for fault in view.blocked if fault.init == name), None)
    if view.stage is PodStage.BLOCKED and blocking is not None:
        state = {"waiting": _waiting(blocking)}
    elif view.fails_to_initialize and failed is not None:
        state = {"waiting": _back_off(pod, name, view)}
    elif sidecar:
        state = {"running": {"startedAt": at}}
    elif created:
        state = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}}
    return {
        "name": name,
        "image": container.get("image"),
        "ready": created,
        "started": sidecar,
        "restartCount": view.restarts if failed is not None else 0,
        "state": state,
        **({"lastState": {"terminated": _terminated(failed)}} if failed is not None else {}),
    }


def _container(pod: Manifest, container: Mapping[str, object], view: PodView) -> Json:
    name = container.get("name")
    runs_on = _runs_on(view, name)
    status: Json = {
        "name": name,
        "image": container.get("image"),
        "ready": view.stage is PodStage.SERVING or runs_on,
        "started": view.stage in RUNNING or runs_on,
        "restartCount": view.restarts if view.last_exit is None or view.last_exit.covers(name) else 0,
        "state": _state(pod, name, view),
    }
    if view.last_exit is not None and view.last_exit.covers(name):
        status["lastState"] = {"terminated": _terminated(view.last_exit)}
    return status


def _state(pod: Manifest, name: object, view: PodView) -> Json:
    if view.stage in RUNNING or _runs_on(view, name):
        return {"running": {"startedAt": timestamp(view.running_since_s)}}
    if view.stage is PodStage.PULLING:
        return {"waiting": {"reason": CREATING}}
    if view.stage is PodStage.BLOCKED:
        fault = next(fault for fault in view.blocked if fault.covers(name))
        return {"waiting": {"reason": INITIALIZING} if fault.init else _waiting(fault)}
    return {"waiting": {"reason": INITIALIZING} if view.fails_to_initialize else _back_off(pod, name, view)}


def _back_off(pod: Manifest, name: object, view: PodView) -> Json:
    message = f"back-off {go_duration(view.backoff_s)} restarting failed container={name} pod={pod_id(pod)}"
    return {"reason": "CrashLoopBackOff", "message": message}


def _waiting(fault: ContainerFault) -> Json:
    """A volume that cannot be mounted is in an Event only."""
    return {"reason": fault.reason} if fault.reason == CREATING else {"reason": fault.reason, "message": fault.message}


def _terminated(ended: Exit) -> Json:
    found: Json = {"exitCode": ended.code, "reason": ended.reason, "finishedAt": timestamp(ended.at_s)}
    return {**found, "message": ended.message} if ended.message else found
