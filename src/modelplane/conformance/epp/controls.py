"""What the kit may change of a picker under test: the members of its pool, and whether its process runs."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol


class PodState(Enum):
    READY = "ready"
    UNREADY = "unready"
    TERMINATING = "terminating"


class KitEndpoint(NamedTuple):
    """An endpoint of the pool. Endpoints of one pod have one state and one role."""

    address: str
    state: PodState = PodState.READY
    role: str = ""
    """The value of the label `llm-d.ai/role`; empty: there is no label."""

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0].strip("[]")


class PoolControl(Protocol):
    """Changes the pool of the picker under test."""

    @property
    def has_pods(self) -> bool:
        """Whether the pool knows states other than ready."""

    def replace(self, members: Sequence[KitEndpoint], /) -> None:
        """The pool has these of the kit's servers, and no others."""


class ProcessControl(Protocol):
    """Stops the picker under test, and starts it again at the same address."""

    async def stop(self) -> None:
        """Stop it as Kubernetes does, by SIGTERM. Returns once it has ended."""

    async def start(self) -> None:
        """Returns once it serves."""


class PickerUnderTest(NamedTuple):
    """The picker under test, the pool that it was given, and its process."""

    address: str
    tls: bool
    pool: PoolControl | None = None
    """None: the pool cannot be changed."""
    process: ProcessControl | None = None
    """None: the kit did not start it."""
