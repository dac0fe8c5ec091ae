"""The nodes, pods and warnings of a simulated cluster, for `modelplane sim show`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from modelplane.api.labels import POOL
from modelplane.api.objects import Manifest, int_at, items_at, labels_of, mapping_at, name_of, namespace_of, text_at
from modelplane.sim.cluster.api import ClusterApi
from modelplane.sim.cluster.objects import condition_is, condition_of

Row = dict[str, str]
_RESOURCES = "resource.k8s.io"
_MOST_WARNINGS = 20


def inventory(api: ClusterApi) -> dict[str, list[Row]]:
    return {
        "nodes": list(_nodes(api)),
        "pods": [_pod(pod) for pod in api.list("", "Pod")],
        "warnings": _warnings(api.list("", "Event")),
    }


def _nodes(api: ClusterApi) -> Iterator[Row]:
    held = _held(api.list(_RESOURCES, "ResourceClaim"))
    published = Counter[str]()
    for piece in api.list(_RESOURCES, "ResourceSlice"):
        published[text_at(piece, "spec", "nodeName")] += len(list(items_at(piece, "spec", "devices")))
    for node in api.list("", "Node"):
        name = name_of(node)
        devices = f"{held[name]} of {published[name]} held" if published[name] else ""
        yield {"name": name, "pool": labels_of(node).get(POOL, ""), "state": _node_state(node), "devices": devices}


def _held(claims: Iterable[Manifest]) -> Counter[str]:
    """Allocated devices by node: drivers publish one pool for each node."""
    return Counter(
        str(result.get("pool"))
        for claim in claims
        for result in items_at(claim, "status", "allocation", "devices", "results")
    )


def _node_state(node: Manifest) -> str:
    spec = node.get("spec")
    cordoned = isinstance(spec, Mapping) and spec.get("unschedulable") is True
    return ", ".join(["Ready" if condition_is(node, "Ready") else "NotReady", *(["cordoned"] if cordoned else [])])


def _pod(pod: Manifest) -> Row:
    restarts = max((int_at(entry, "restartCount") for entry in items_at(pod, "status", "containerStatuses")), default=0)
    return {
        "name": f"{namespace_of(pod)}/{name_of(pod)}",
        "node": text_at(pod, "spec", "nodeName"),
        "state": _phase(pod),
        "restarts": str(restarts),
        "why": _why(pod),
    }


def _phase(pod: Manifest) -> str:
    if text_at(pod, "metadata", "deletionTimestamp"):
        return "Terminating"
    phase = text_at(pod, "status", "phase") or "Pending"
    return "Ready" if phase == "Running" and condition_is(pod, "Ready") else phase


def _why(pod: Manifest) -> str:
    """Why it is not ready: what its containers wait for, or its scheduler."""
    unscheduled = condition_of(pod, "PodScheduled")
    if unscheduled.get("status") == "False":
        return f"{unscheduled.get('reason')}: {unscheduled.get('message')}"
    for container in (*_failing_init_containers(pod), *items_at(pod, "status", "containerStatuses")):
        waiting = text_at(container, "state", "waiting", "reason")
        if waiting:
            message = _ended(container) if waiting == "CrashLoopBackOff" else ""
            message = message or text_at(container, "state", "waiting", "message")
            return f"{waiting}: {message}" if message else waiting
    loads = text_at(pod, "status", "phase") == "Running" and not condition_is(pod, "Ready")
    return "its readiness probe fails" if loads else ""


def _failing_init_containers(pod: Manifest) -> Iterator[Manifest]:
    """One that waits for its turn says nothing."""
    for container in items_at(pod, "status", "initContainerStatuses"):
        if text_at(container, "state", "waiting", "reason") == "CrashLoopBackOff":
            yield container


def _ended(container: Mapping[str, object]) -> str:
    """How the container last ended: the end of its log, or the kubelet's reason."""
    last = mapping_at(container, "lastState", "terminated")
    return text_at(last, "message") or text_at(last, "reason")


def _warnings(events: Iterable[Manifest]) -> list[Row]:
    """The newest, in order of time."""
    latest = sorted(events, key=lambda event: text_at(event, "lastTimestamp"))[-_MOST_WARNINGS:]
    return [
        {
            "about": f"{text_at(event, 'involvedObject', 'kind')} {text_at(event, 'involvedObject', 'name')}",
            "reason": text_at(event, "reason"),
            "times": str(int_at(event, "count")),
            "message": text_at(event, "message"),
        }
        for event in latest
    ]
