"""What a cluster's scheduler needs to know of a replica, and what it wants to see on its objects."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from modelplane.api.models import Scheduling
from modelplane.compose.context import Context, group_size, is_gang
from modelplane.compose.contract import Remote
from modelplane.compose.pod_defaults import version_before, version_known_from


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
    pods: int

    @property
    def queue(self) -> str | None:
        return self.context.scheduling.queue

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


def companion_metadata(scheduler: GangScheduler, context: Context) -> GangMetadata:
    return scheduler.companion(GangRequest(context, Cohesion.APART, pods=1))


def gang_of(context: Context, *, opaque: bool = False) -> GangRequest:
    """`opaque` says that the scheduler cannot see the groups, because something else makes them."""
    engines = context.replica.spec.engines
    pods = sum(engine.copies * group_size(engine) for engine in engines)
    grouped = any(is_gang(engine) for engine in engines)
    if context.disaggregated or (grouped and opaque):
        return GangRequest(context, Cohesion.WHOLE, pods)
    return GangRequest(context, Cohesion.GROUPS if grouped else Cohesion.APART, pods)
