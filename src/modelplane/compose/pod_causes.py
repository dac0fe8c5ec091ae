"""Why pods do not serve, from their statuses as kubelets and schedulers write them.

A pod that is ready has no cause. Otherwise the first of these that applies has it: the scheduler, an init container,
the containers, the pod's own conditions. Pods that ended count only where no other pod is there: controllers replace
them and leave them behind.

A cause does not change while a container goes through its back-off, so equal causes requeue nobody.
"""

import re
from collections.abc import Iterable, Iterator

from modelplane.api.labels import CACHE_CHECK_CONTAINER, ENGINE, REPLICA, WARM_UP_CONTAINER
from modelplane.api.loader_exits import EXIT_INCOMPLETE
from modelplane.api.meta import Timestamp
from modelplane.api.objects import Manifest, int_at, is_deleting, items_at, mapping_at, text_at, value_at
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import epoch_s
from modelplane.compose.causes import Cause, in_words, last_line, worst

_IMAGE = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_PULL_BACK_OFF = re.compile(r'Back-off pulling image "[^"]*": (\w+): (.*)', re.DOTALL)
"""What a kubelet writes between two pulls: the error of the last one, with its name."""
_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
_BACK_OFF = "CrashLoopBackOff"
_CACHE_CHECK = f"init container {CACHE_CHECK_CONTAINER}"
_LOOPS_AFTER = 2
"""Restarts after which a container that runs and was never ready counts as crashing: its next exit is minutes away."""
_SCHEDULER_WORDS = (
    (re.compile(r"(?i)queue\b.*\b(does ?n[o']t exist|not found|is closed|is inactive)"), Reason.QUEUE_MISSING),
    (re.compile(r"(?i)queue\b.*\b(quota|limit)\b|exceeded quota|insufficient unused quota"), Reason.QUOTA_EXCEEDED),
    (re.compile(r"(?i)persistentvolumeclaim|volume node affinity|persistent volume"), Reason.VOLUME_PENDING),
    (
        re.compile(r"(?i)resource ?claim|allocate all (devices|claims)|cannot allocate|allocate devices"),
        Reason.CLAIM_PENDING,
    ),
)
_CONFIG_WORDS = (
    (re.compile(r"(?i)\bsecret\b"), Reason.SECRET_MISSING),
    (re.compile(r"(?i)\bconfig ?map\b"), Reason.CONFIG_MAP_MISSING),
)


def pods_cause(pods: Iterable[Manifest]) -> Cause | None:
    """The worst cause of several pods, with how many have it; None where all of them are ready."""
    counted = _counted(list(pods))
    causes = [cause for pod in counted if (cause := pod_cause(pod)) is not None]
    found = worst(causes)
    if found is None:
        return None
    alike = [cause for cause in causes if cause.reason == found.reason]
    since = min((cause.since for cause in alike if cause.since), default=None)
    message = f"{len(alike)} of {len(counted)} {'pod' if len(counted) == 1 else 'pods'}: {found.message}"
    return Cause(found.reason, message, since)


def by_engine(pods: Iterable[Manifest]) -> tuple[list[Manifest], list[Manifest]]:
    """The pods of engines, and those beside them, such as the picker's."""
    engines: list[Manifest] = []
    beside: list[Manifest] = []
    for pod in pods:
        (engines if text_at(pod, "metadata", "labels", ENGINE) else beside).append(pod)
    return engines, beside


def _counted(pods: list[Manifest]) -> list[Manifest]:
    """The pods that count: those that run or will, else those that leave, else those that ended."""
    left = [pod for pod in pods if text_at(pod, "status", "phase") not in {"Failed", "Succeeded"}]
    staying = [pod for pod in left if not is_deleting(pod)]
    return staying or left or pods


def pod_cause(pod: Manifest) -> Cause | None:
    """Why a pod does not serve; None where it is ready."""
    if text_at(pod, "status", "phase") in {"Failed", "Succeeded"}:
        return _ended(pod)
    if is_deleting(pod):
        return Cause(
            Reason.TERMINATING, "it is being deleted", _timestamp(text_at(pod, "metadata", "deletionTimestamp"))
        )
    ready = _condition(pod, "Ready")
    if text_at(ready, "status") == "True":
        return None
    return _unscheduled(pod) or _containers(pod, ready)


def _ended(pod: Manifest) -> Cause:
    codes = [text for entry in items_at(pod, "status", "containerStatuses") if (text := _exit(_terminated(entry)))]
    message = [text_at(pod, "status", "reason"), text_at(pod, "status", "message")]
    words = ": ".join(part for part in message if part) or (codes[0] if codes else "it ended")
    return Cause(Reason.POD_FAILED, in_words(words), _since(_condition(pod, "Ready")))


def _unscheduled(pod: Manifest) -> Cause | None:
    found = _condition(pod, "PodScheduled")
    gates = [text_at(gate, "name") for gate in items_at(pod, "spec", "schedulingGates")]
    if gates:
        return Cause(Reason.SCHEDULING_GATED, in_words(f"it waits for {', '.join(gates)}"), _since(found))
    if not found and "nodeName" not in mapping_at(pod, "spec") and not mapping_at(pod, "status"):
        return Cause(Reason.WORKLOAD_STARTING, "it is not scheduled yet")
    if text_at(found, "status") != "False":
        return None
    message = text_at(found, "message") or text_at(found, "reason")
    if text_at(found, "reason") == "SchedulingGated":
        return Cause(Reason.SCHEDULING_GATED, in_words(message), _since(found))
    return Cause(scheduling_reason(message), in_words(message), _since(found))


def scheduling_reason(message: str) -> Reason:
    """The reason behind the words of a scheduler or a queue."""
    return next((reason for pattern, reason in _SCHEDULER_WORDS if pattern.search(message)), Reason.UNSCHEDULABLE)


def _containers(pod: Manifest, ready: Manifest) -> Cause:
    initial = worst(_initial(pod, ready))
    if initial is not None:
        return initial
    own = worst(
        cause
        for entry in items_at(pod, "status", "containerStatuses")
        if (cause := _container(entry, ready, "container")) is not None
    )
    if own is not None:
        return own
    if not any(True for _ in items_at(pod, "status", "containerStatuses")):
        return Cause(
            Reason.CONTAINER_CREATING, "its node has not started it yet", _since(_condition(pod, "PodScheduled"))
        )
    return Cause(Reason.UNHEALTHY, in_words(text_at(ready, "message") or "it is not ready"), _since(ready))


def _initial(pod: Manifest, ready: Manifest) -> Iterator[Cause]:
    """Causes of init containers. One that waits for its turn is none."""
    for entry in items_at(pod, "status", "initContainerStatuses"):
        state = mapping_at(entry, "state")
        if value_at(state, "terminated", "exitCode") == 0 or entry.get("started") is True:
            continue
        if "running" in state:
            yield Cause(Reason.CONTAINER_CREATING, f"init container {text_at(entry, 'name')} runs", _since(ready))
        elif "terminated" in state or text_at(state, "waiting", "reason") not in _STARTING:
            cause = _container(entry, ready, "init container")
            yield from () if cause is None else (cause,)


def _container(entry: Manifest, ready: Manifest, noun: str) -> Cause | None:
    if entry.get("ready") is True:
        return None
    state = mapping_at(entry, "state")
    waiting, said = _waiting(state)
    who, since = f"{noun} {text_at(entry, 'name')}", _since(ready)
    if mapping_at(state, "terminated") or waiting == _BACK_OFF:
        return _crash(who, _terminated(entry), since)
    if "running" in state and noun == "container" and text_at(entry, "name") == WARM_UP_CONTAINER:
        return Cause(Reason.WARMING_UP, f"{who}: its requests are not all answered yet", since)
    if "running" in state:
        loops = int_at(entry, "restartCount") >= _LOOPS_AFTER and _failed(_terminated(entry))
        return _crash(who, _terminated(entry), since) if loops else _running(who, state, ready)
    message = in_words(said)
    reason = _waiting_reason(waiting, message)
    words = message or {Reason.CONTAINER_CREATING: "is created"}.get(reason, waiting)
    if reason is Reason.IMAGE_PULL_FAILED and (image := text_at(entry, "image")) and image not in words:
        words = f"image {image}: {words}"
    return Cause(reason, f"{who}: {words}", since)


def _waiting(state: Manifest) -> tuple[str, str]:
    """For what a container waits. Between two pulls of its image it is still the error of the last one."""
    reason, message = text_at(state, "waiting", "reason"), text_at(state, "waiting", "message")
    found = _PULL_BACK_OFF.fullmatch(message)
    return (found[1], found[2]) if found else (reason, message)


def _waiting_reason(waiting: str, message: str) -> Reason:
    if waiting in _IMAGE:
        return Reason.IMAGE_PULL_FAILED
    if waiting in _STARTING:
        return Reason.CONTAINER_CREATING
    if waiting == "CreateContainerConfigError":
        return next(
            (reason for pattern, reason in _CONFIG_WORDS if pattern.search(message)), Reason.CONTAINER_START_FAILED
        )
    return Reason.CONTAINER_START_FAILED


def _running(who: str, state: Manifest, ready: Manifest) -> Cause:
    """It runs and is not ready. It was ready before where that changed after it started."""
    started, changed = text_at(state, "running", "startedAt"), text_at(ready, "lastTransitionTime")
    began, turned = epoch_s(started), epoch_s(changed)
    if began is not None and turned is not None and turned > began:
        return Cause(Reason.UNHEALTHY, f"{who} runs and its readiness probe fails", _timestamp(changed))
    return Cause(Reason.LOADING_WEIGHTS, f"{who} runs and does not answer yet", _timestamp(started))


def _crash(who: str, ended: Manifest, since: Timestamp | None) -> Cause:
    reason = Reason.OOM_KILLED if text_at(ended, "reason") == "OOMKilled" else Reason.CRASH_LOOPING
    if ended.get("exitCode") == EXIT_INCOMPLETE and who == _CACHE_CHECK:
        reason = Reason.CACHE_INCOMPLETE
    if text_at(ended, "reason") in {"StartError", "ContainerCannotRun"}:
        reason = Reason.CONTAINER_START_FAILED
    words = _exit(ended) or "it exits again and again"
    line = in_words(last_line(text_at(ended, "message")))
    return Cause(reason, f"{who}: {words}{f': {line}' if line else ''}", since)


def _terminated(entry: Manifest) -> Manifest:
    """How the container last ended."""
    return mapping_at(entry, "state", "terminated") or mapping_at(entry, "lastState", "terminated")


def _failed(ended: Manifest) -> bool:
    return bool(ended) and ended.get("exitCode") != 0


def _exit(ended: Manifest) -> str:
    code = ended.get("exitCode")
    if code is None:
        return ""
    word = text_at(ended, "reason")
    return f"exit code {code} ({word})" if word else f"exit code {code}"


def _condition(pod: Manifest, kind: str) -> Manifest:
    return next((found for found in items_at(pod, "status", "conditions") if found.get("type") == kind), {})


def _since(condition: Manifest) -> Timestamp | None:
    return _timestamp(text_at(condition, "lastTransitionTime"))


def _timestamp(text: str) -> Timestamp | None:
    return Timestamp(text) if text else None


def trimmed(pod: Manifest) -> dict[str, object]:
    """What of a pod its cause depends on: the same while a container goes through its back-off."""
    metadata = mapping_at(pod, "metadata")
    labels = {key: text for key in (REPLICA, ENGINE) if (text := text_at(pod, "metadata", "labels", key))}
    kept = {name: metadata[name] for name in ("name", "namespace", "deletionTimestamp") if name in metadata}
    status = mapping_at(pod, "status")
    message = {name: in_words(text) for name in ("phase", "reason", "message") if (text := text_at(status, name))}
    conditions = [
        _fields(found, ("type", "status", "reason", "message", "lastTransitionTime"))
        for found in items_at(status, "conditions")
        if found.get("type") in {"Ready", "PodScheduled"}
    ]
    lists = {
        name: [_trimmed_container(entry) for entry in items_at(status, name)]
        for name in ("containerStatuses", "initContainerStatuses")
        if name in status
    }
    spec = _fields(mapping_at(pod, "spec"), ("nodeName",))
    gates = [_fields(gate, ("name",)) for gate in items_at(pod, "spec", "schedulingGates")]
    return {
        "metadata": {**kept, "labels": labels},
        "spec": {**spec, **({"schedulingGates": gates} if gates else {})},
        "status": {**message, "conditions": conditions, **lists} if status else {},
    }


def _trimmed_container(entry: Manifest) -> dict[str, object]:
    state = {
        "waiting": _trimmed_waiting(mapping_at(entry, "state")),
        "running": _fields(mapping_at(entry, "state", "running"), ("startedAt",)),
        "terminated": _ending(mapping_at(entry, "state", "terminated")),
    }
    there = {name: value for name, value in state.items() if name in mapping_at(entry, "state")}
    return {
        **_fields(entry, ("name", "image", "ready", "started")),
        "restartCount": min(int_at(entry, "restartCount"), _LOOPS_AFTER),
        "state": there,
        "lastState": {"terminated": _ending(mapping_at(entry, "lastState", "terminated"))},
    }


def _trimmed_waiting(state: Manifest) -> dict[str, object]:
    reason, message = _waiting(state)
    found = {"reason": reason, "message": "" if reason == _BACK_OFF else in_words(message)}
    return {name: text for name, text in found.items() if text}


def _ending(ended: Manifest) -> dict[str, object]:
    line = in_words(last_line(text_at(ended, "message")))
    return {**_fields(ended, ("exitCode", "reason")), **({"message": line} if line else {})}


def _fields(item: Manifest, names: tuple[str, ...]) -> dict[str, object]:
    found = {name: item[name] for name in names if name in item}
    return {name: in_words(value) if isinstance(value, str) else value for name, value in found.items()}
