"""The kubelet's state of a pod, and the pod addresses of its nodes."""

import asyncio
import ipaddress
from dataclasses import dataclass, field

from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.container_faults import ContainerFault
from modelplane.sim.cluster.engine_exit import EngineExit
from modelplane.sim.cluster.phases import Running
from modelplane.sim.cluster.pod_status import Exit, PodStage, PodView


@dataclass(slots=True)
class PodRun:
    """A pod on its node.

    due: when its stage ends, in monotonic seconds.
    restarts: the restart count of its status. failures: consecutive failures, for the back-off; restarts because this
        process restarted do not count.
    died: the restart count at which its engine exited. faults: the faults that its engine simulates.
    progress: the last line of a loader. ended: how it ended.
    blocked: why containers cannot be created. pull_failures: consecutive failed pulls. backoff_s: the last back-off.
    warming: whether its engine is healthy and answers warm-up requests. initialized: its init containers completed.
    """

    ref: ObjectRef
    uid: str
    ip: str
    stage: PodStage
    due: float
    admitted_s: float
    restarts: int = 0
    failures: int = 0
    died: int | None = None
    crash_annotation: str = ""
    faults: str = ""
    running_since_s: float = 0.0
    engine: Running | None = None
    starting: asyncio.Task[None] | None = None
    stopping: asyncio.Task[None] | None = None
    last_exit: Exit | None = None
    engine_exit: EngineExit | None = None
    blocked: tuple[ContainerFault, ...] = ()
    pull_failures: int = 0
    backoff_s: float = 0.0
    warming: bool = False
    initialized: bool = False
    progress: str = ""
    ended: Exit | None = None

    def view(self) -> PodView:
        return PodView(
            stage=self.stage,
            ip=self.ip,
            admitted_s=self.admitted_s,
            running_since_s=self.running_since_s,
            restarts=self.restarts,
            last_exit=self.last_exit,
            blocked=self.blocked,
            backoff_s=self.backoff_s,
            warming=self.warming,
        )


@dataclass(slots=True)
class Addresses:
    """Pod addresses in use: each node has its own block, lowest address first."""

    taken: dict[str, ObjectRef] = field(default_factory=dict)

    def assign(self, block: str, ref: ObjectRef) -> str:
        hosts = ipaddress.ip_network(block).hosts()
        next(hosts)  # the first is the node's own end of the network
        found = next(str(host) for host in hosts if str(host) not in self.taken)
        self.taken[found] = ref
        return found

    def release(self, address: str) -> None:
        self.taken.pop(address, None)
