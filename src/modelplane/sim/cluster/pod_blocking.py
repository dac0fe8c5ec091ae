"""What the kubelet does while containers cannot be created: it tries again, and writes Events.

an image that cannot be pulled      ErrImagePull, then ImagePullBackOff until the next try; the wait doubles
any other fault                     tried again every `_RESYNC_S`, and when a Secret or ConfigMap changes
"""

from dataclasses import replace

from modelplane.api.objects import Manifest
from modelplane.sim.cluster.container_faults import (
    CREATING,
    ContainerFault,
    config_faults,
    image_faults,
    missing_pull_secrets,
    mount_faults,
)
from modelplane.sim.cluster.controller import ControllerContext
from modelplane.sim.cluster.images import BACK_OFF, INVALID_NAME, PullFault, back_off_message
from modelplane.sim.cluster.pod_runs import PodRun
from modelplane.sim.cluster.pod_status import PodStage
from modelplane.sim.cluster.pod_timing import backoff_s
from modelplane.sim.cluster.recorder import warn
from modelplane.sim.cluster.sim_settings import SimSettings

_RESYNC_S = 10.0
_ERROR_SHOWN_S = 1.0
"""How long a failed pull shows as ErrImagePull before the back-off is reported."""
_SOURCE = "kubelet"


class ContainerCreation:
    """Blocks the pods whose containers cannot be created."""

    def __init__(self, context: ControllerContext, *, pulls: bool = True) -> None:
        """`pulls`: whether images are pulled at all."""
        self._context = context
        self._pulls = pulls

    def faults(self, pod: Manifest, sim_settings: SimSettings) -> tuple[ContainerFault, ...]:
        """Why containers of the pod cannot be created; none when all can."""
        store = self._context.store
        images = image_faults(pod, store, sim_settings.images) if self._pulls else ()
        return mount_faults(pod, store) or images or config_faults(pod, store)

    def has_changed(self, pod: Manifest, run: PodRun, sim_settings: SimSettings) -> bool:
        """Whether a Secret or ConfigMap that was missing is there: the kubelet watches those, and no registry."""
        if run.stage is not PodStage.BLOCKED or any(fault.image for fault in run.blocked):
            return False
        return self.faults(pod, sim_settings) != run.blocked

    def block(self, pod: Manifest, run: PodRun, faults: tuple[ContainerFault, ...]) -> None:
        run.stage, run.blocked = PodStage.BLOCKED, faults
        pulls = any(fault.is_pull for fault in faults)
        run.due = self._context.clock.monotonic() + (_ERROR_SHOWN_S if pulls else _RESYNC_S)
        for name in missing_pull_secrets(pod, self._context.store):
            self._warn(pod, "FailedToRetrieveImagePullSecret", _UNABLE.format(names=name))
        for fault in faults:
            self._report(pod, fault)

    def back_off(self, pod: Manifest, run: PodRun) -> bool:
        """Turn failed pulls into their back-off. False when none is left to turn."""
        if not any(fault.is_pull for fault in run.blocked):
            return False
        run.pull_failures += 1
        run.blocked = tuple(map(_backed_off, run.blocked))
        wait = backoff_s(run.pull_failures, self._context.settings)
        run.due = self._context.clock.monotonic() + max(0.0, wait - _ERROR_SHOWN_S)
        self._warn(pod, "Failed", f"Error: {BACK_OFF}")
        return True

    def _report(self, pod: Manifest, fault: ContainerFault) -> None:
        if fault.reason == CREATING:
            self._warn(pod, "FailedMount", fault.message)
        elif fault.reason == INVALID_NAME:
            self._warn(pod, "InspectFailed", fault.message)
            self._warn(pod, "Failed", f"Error: {INVALID_NAME}")
        elif fault.is_pull:
            self._warn(pod, "Failed", f'Failed to pull image "{fault.image}": {fault.message}')
            self._warn(pod, "Failed", f"Error: {fault.reason}")
        else:
            self._warn(pod, "Failed", f"Error: {fault.message}")

    def _warn(self, pod: Manifest, reason: str, message: str) -> None:
        warn(self._context, pod, reason, message, source=_SOURCE)


_UNABLE = "Unable to retrieve some image pull secrets ({names}); attempting to pull the image may not succeed."


def _backed_off(fault: ContainerFault) -> ContainerFault:
    if not fault.is_pull:
        return fault
    message = back_off_message(fault.image, PullFault(fault.reason, fault.message))
    return replace(fault, reason=BACK_OFF, message=message)
