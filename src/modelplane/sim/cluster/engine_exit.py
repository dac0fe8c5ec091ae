"""How an engine exited."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineExit:
    """How the engine's process ended: its exit code, the kubelet's reason and the last line of its log."""

    code: int
    message: str
    reason: str = "Error"


class EngineExitedError(Exception):
    """The engine's process ended before it served."""

    def __init__(self, ended: EngineExit) -> None:
        super().__init__(ended.message)
        self.ended = ended
