"""What a plugin can be beyond the framework's filter, scorer and picker, which take a `Cycle` and `Endpoint`s.

One object may be several of these. All are pure towards the world: whatever they remember between requests, they
remember in themselves, from what the methods below tell them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from modelplane.epp.scheduling.cycle import Cycle
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.requests import Request
from modelplane.framework import Profile, Reporter


class ResponseUsage(msgspec.Struct, frozen=True):
    """What a response said it used; -1: not told."""

    prompt_tokens: int = -1
    output_tokens: int = -1
    cached_tokens: int = -1


class Served(msgspec.Struct, frozen=True, eq=False, gc=False):
    """How a request that was sent on ended."""

    endpoint: Endpoint
    """The one that served, where the proxy told; else the one picked."""
    status: int
    """The HTTP status of the response; 0: it was not told."""
    started_s: float
    """When it was sent on."""
    first_byte_s: float = -1.0
    ended_s: float = -1.0
    usage: ResponseUsage = ResponseUsage()
    given_up: bool = False
    """The client or the proxy gave the request up before a response was seen."""


@runtime_checkable
class ProfileHandler(Protocol):
    """Exactly one of a picker: says which profiles run, round after round, and what their results mean."""

    @property
    def name(self) -> str: ...

    def profiles(self, cycle: Cycle, profiles: Mapping[str, Profile[Cycle, Endpoint]], /) -> Sequence[str]:
        """The profiles of the next round; none ends the rounds. `cycle.results` holds those that ran."""

    def conclude(self, cycle: Cycle, /) -> Decision:
        """Called once, after the last round."""


@runtime_checkable
class ChecksProfiles(Protocol):
    """A profile handler that knows which profiles it can name. Asked once, when the configuration is read."""

    def objections(self, profiles: Sequence[str], /) -> Sequence[str]:
        """What is wrong with a configuration of these profiles: one that is missing, one that would never run."""


@runtime_checkable
class Decider(Protocol):
    """Says whether a further stage of a request is worth while. A handler refers to it by name."""

    @property
    def name(self) -> str: ...

    def wants(self, cycle: Cycle, primary: Endpoint | None, /) -> bool:
        """`primary` is the endpoint that would serve the request alone; None: not picked yet."""


@runtime_checkable
class HasShadowProfiles(Protocol):
    """A profile handler some of whose profiles only watch: whatever becomes of those changes no decision."""

    @property
    def shadows(self) -> frozenset[str]: ...


@runtime_checkable
class Producer(Protocol):
    """Works something out once a cycle and leaves it in a slot, before any profile runs."""

    @property
    def name(self) -> str: ...

    def produce(self, cycle: Cycle, /) -> None: ...


@runtime_checkable
class Admitter(Protocol):
    """Says whether a request is taken at all. Asked after the producers, before any profile runs."""

    @property
    def name(self) -> str: ...

    def turn_away(self, cycle: Cycle, /) -> str:
        """Why the client has to come back later, in one sentence; empty: it is taken."""


@runtime_checkable
class PickListener(Protocol):
    """Hears of each request that is sent on, before it is; may add headers to the request."""

    @property
    def name(self) -> str: ...

    def sent(self, cycle: Cycle, decision: Decision, /) -> Sequence[tuple[str, str]]: ...


@runtime_checkable
class ClientTeller(Protocol):
    """Has something to tell the client of each request that is sent on: headers of its response."""

    @property
    def name(self) -> str: ...

    def tell(self, cycle: Cycle, decision: Decision, /) -> Sequence[tuple[str, str]]: ...


@runtime_checkable
class FirstByteListener(Protocol):
    """Hears when responses begin, where the proxy shows their headers: the prompt is computed by then."""

    @property
    def name(self) -> str: ...

    def began(self, request: Request, decision: Decision, /) -> None: ...


@runtime_checkable
class ResponseListener(Protocol):
    """Hears how requests end. With `reads_bodies` it needs the usage that only bodies tell, if the proxy shows them."""

    @property
    def name(self) -> str: ...

    @property
    def reads_bodies(self) -> bool: ...

    def ended(self, request: Request, decision: Decision, served: Served, /) -> None: ...


@runtime_checkable
class PoolListener(Protocol):
    """Hears when endpoints come and go, so that nothing is remembered of one that is gone."""

    @property
    def name(self) -> str: ...

    def changed(self, endpoints: Sequence[Endpoint], /) -> None: ...


@runtime_checkable
class Remembers(Protocol):
    """Decides by what it remembers. What of that went into one decision can be written down, and given back."""

    @property
    def name(self) -> str: ...

    def remembered(self, cycle: Cycle, /) -> object:
        """What it went by, in values of JSON; None: nothing. Asked after a decision, before anybody hears of it."""

    def remind(self, cycle: Cycle, remembered: object, /) -> None:
        """Go by this for one cycle. A producer is reminded in the place of being asked to produce."""


@runtime_checkable
class Witness(Reporter[Endpoint], Protocol):
    """A reporter that takes down all that a decision was made of, so that it can be made again elsewhere."""

    def attend(self, request: Request, chance: Callable[[], float], /) -> tuple[Request, Callable[[], float]]:
        """The request and the chance to decide by, which tell the witness what is read and drawn of them."""

    def testify(
        self, cycle: Cycle, endpoints: Sequence[Endpoint], decision: Decision, memories: Mapping[str, object], /
    ) -> None:
        """It is decided, and nobody has heard of it. `memories` are those of plugins that remember, by name."""
