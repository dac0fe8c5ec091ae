"""What a cluster's scheduler needs to know of a replica, and what it wants to see on its objects."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from modelplane.api.models import Scheduling
from modelplane.api.queues import queue_template
from modelplane.api.reasons import Reason
from modelplane.compose.context import Context, RenderError, group_size, head_member, is_gang
from modelplane.compose.contract import Remote
from modelplane.compose.fabric_domains import topology_key
from modelplane.compose.placeholders import expand, is_label_value, placeholder_values
from modelplane.compose.pod_defaults import version_before, version_known_from

LOCAL_QUEUE = "queue"
"""The key of the queue that a scheduler wants in the tenant's namespace, among the objects of a replica."""
EXCLUSIVE_TOPOLOGY = "leaderworkerset.sigs.k8s.io/exclusive-topology"


class Cohesion(Enum):
    """Which pods are useless without each other."""

    APART = auto()
    """None: each pod serves by itself."""
    GROUPS = auto()
    """The pods of one LeaderWorkerSet group, as schedulers that know LeaderWorkerSets see for themselves."""
    WHOLE = auto()
    """All of them: phases that need each other, or groups that a scheduler cannot see."""


@dataclass(frozen=True, slots=True)
class GangRequest:
    """The pods of a replica, for its scheduler."""

    context: Context
    cohesion: Cohesion

    @property
    def pods(self) -> int:
        """How many pods the engines have together."""
        return sum(engine.copies * group_size(engine) for engine in self.context.replica.spec.engines)

    @property
    def queue(self) -> str | None:
        """The queue of the replica's pods, its tokens replaced."""
        template = queue_template(self.context.scheduling)
        if template is None:
            return None
        queue = expand(template, placeholder_values(self.context, self.context.replica.spec.engines[0].members[0]))
        if queue != template and not is_label_value(queue):
            where = self.context.replica.spec.cluster_name
            raise RenderError(Reason.INVALID, f"cluster {where}: its queue becomes {queue!r}, which is no label value")
        return queue

    @property
    def domains(self) -> dict[str, str]:
        """Engines each copy of which stays in one domain of a fabric: the node label whose value names the domain."""
        spanning = (engine for engine in self.context.replica.spec.engines if is_gang(engine))
        keys = {each.name: topology_key(self.context.cluster, head_member(each).node_pool_name) for each in spanning}
        return {name: key for name, key in keys.items() if key is not None}

    def version_before(self, minor: int) -> bool:
        return version_before(self.context.scheduling, minor)

    def version_known_from(self, minor: int) -> bool:
        return version_known_from(self.context.scheduling, minor)


@dataclass(frozen=True, slots=True)
class GangMetadata:
    """On every pod, and on the object that makes the pods."""

    pod_labels: Mapping[str, str] = field(default_factory=dict)
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    workload_labels: Mapping[str, str] = field(default_factory=dict)
    workload_annotations: Mapping[str, str] = field(default_factory=dict)
    scheduler_name: str | None = None
    gate: str | None = None
    least: Mapping[str, str] = field(default_factory=dict)
    """Requests of a pod whose containers request neither CPU nor memory."""


def exclusive_topology(key: str) -> dict[str, str]:
    """The group of a leader takes the leader's domain for itself, and the workers follow it there.

    Workers are made once the leader is bound, so a scheduler that waits for all of a gang would wait for ever.
    """
    return {EXCLUSIVE_TOPOLOGY: key}


@dataclass(frozen=True, slots=True)
class GangScheduler:
    """An in-cluster scheduler that we render for."""

    gang_metadata: Callable[[GangRequest], GangMetadata]
    objects: Callable[[GangRequest], dict[str, Remote]]
    companion: Callable[[GangRequest], GangMetadata]
    """Of pods that run beside the engines and claim no device."""
    queue_is_label: bool = False
    """Whether the queue's name is written as the value of a label."""
    admission: Callable[[Scheduling], tuple[str, str] | None] = lambda _scheduling: None
    """apiVersion and kind of the objects by which it admits gated pods; None where it has none."""
    domain_annotations: Callable[[str], Mapping[str, str]] = exclusive_topology
    """Of a LeaderWorkerSet whose groups each stay in one domain, by the node label whose value names the domain."""
    domain_fault: Callable[[Scheduling], str | None] = lambda _scheduling: None
    """Why it cannot keep a group in one domain, as a sentence that names the field; None where it can."""


def companion_metadata(scheduler: GangScheduler, context: Context) -> GangMetadata:
    return scheduler.companion(GangRequest(context, Cohesion.APART))


def gang_of(context: Context, *, opaque: bool = False) -> GangRequest:
    """`opaque` says that the scheduler cannot see the groups, because something else makes them."""
    grouped = any(is_gang(engine) for engine in context.replica.spec.engines)
    if context.disaggregated or (grouped and opaque):
        return GangRequest(context, Cohesion.WHOLE)
    return GangRequest(context, Cohesion.GROUPS if grouped else Cohesion.APART)
