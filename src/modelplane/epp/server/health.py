"""The health service of gRPC (`grpc.health.v1`): whether the picker is alive, and whether it is ready to pick.

Kubernetes probes `liveness` and `readiness`; the names of the service and of the ecosystem's conformance suite mean
readiness too, and so does no name at all.
"""

from collections.abc import Callable
from typing import Final

from modelplane.epp.transport.calls import GrpcStatus, Methods, ServerCall
from modelplane.epp.transport.wire import WireError, fields, whole

CHECK: Final = "/grpc.health.v1.Health/Check"
WATCH: Final = "/grpc.health.v1.Health/Watch"
LIVENESS: Final = "liveness"
READY_NAMES: Final = frozenset(("", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor", "inference-extension"))
_SERVING: Final = 1
_NOT_SERVING: Final = 2
_UNKNOWN: Final = 3


class HealthService:
    """Answers probes. `ready` is called at each probe."""

    def __init__(self, ready: Callable[[], bool]) -> None:
        self._ready = ready
        self._watchers: set[_Watch] = set()

    @property
    def methods(self) -> Methods:
        return {CHECK: lambda call: _Check(call, self), WATCH: lambda call: _Watch(call, self)}

    def state(self, service: str) -> int:
        """By name; SERVICE_UNKNOWN for others."""
        if service == LIVENESS:
            return _SERVING
        if service not in READY_NAMES:
            return _UNKNOWN
        return _SERVING if self._ready() else _NOT_SERVING

    def refresh(self) -> None:
        """Something may have changed: notify the watchers."""
        for watcher in list(self._watchers):
            watcher.refresh()

    def close(self) -> None:
        """End every watch, so that the server can stop."""
        for watcher in list(self._watchers):
            watcher.refresh()
            watcher.end()

    def joined(self, watcher: "_Watch") -> None:
        self._watchers.add(watcher)

    def left(self, watcher: "_Watch") -> None:
        self._watchers.discard(watcher)


def _service(message: bytes) -> str:
    names = [value for field, value in fields(message) if field == 1 and isinstance(value, bytes)]
    return names[-1].decode("utf-8", "replace") if names else ""


class _Check:
    """One question (`Handler`)."""

    def __init__(self, call: ServerCall, health: HealthService) -> None:
        self._call = call
        self._health = health

    def message(self, message: bytes) -> None:
        try:
            state = self._health.state(_service(message))
        except WireError as error:
            self._call.finish(GrpcStatus.INVALID_ARGUMENT, str(error))
            return
        if state == _UNKNOWN:
            self._call.finish(GrpcStatus.NOT_FOUND, "no service of this name")
            return
        self._call.send(whole(1, state))
        self._call.finish()

    def closed(self) -> None:
        self._call.finish(GrpcStatus.INVALID_ARGUMENT, "no request was sent")

    def cancelled(self) -> None:
        """Nothing is held."""


class _Watch:
    """A watch: responds whenever the status changes (`Handler`)."""

    def __init__(self, call: ServerCall, health: HealthService) -> None:
        self._call = call
        self._health = health
        self._service: str | None = None
        self._sent = 0

    def message(self, message: bytes) -> None:
        try:
            self._service = _service(message)
        except WireError as error:
            self._call.finish(GrpcStatus.INVALID_ARGUMENT, str(error))
            return
        self._health.joined(self)
        self.refresh()

    def refresh(self) -> None:
        if self._service is None:
            return
        state = self._health.state(self._service)
        if state != self._sent:
            self._sent = state
            self._call.send(whole(1, state))

    def end(self) -> None:
        self._health.left(self)
        self._call.finish(GrpcStatus.UNAVAILABLE, "stopping")

    def closed(self) -> None:
        """Watch takes one request; responses continue."""

    def cancelled(self) -> None:
        self._health.left(self)
