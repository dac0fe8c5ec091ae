"""The extension points of the picker beyond the framework's filter, scorer and picker.

One object may implement several. None but a data source does IO: what a plugin keeps between requests it learns from
these methods.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from modelplane.epp.scheduling.context import Profiles, SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.parsed import Parsed
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.framework import Reporter


@runtime_checkable
class ProfileHandler(Protocol):
    """Picks the profiles to run, and turns their results into a decision. A picker has exactly one."""

    @property
    def name(self) -> str: ...

    def pick_profiles(self, context: SchedulingContext, profiles: Profiles, /) -> Sequence[str]:
        """The profiles to run next; none: done. `context.results` has the results so far."""

    def process_results(self, context: SchedulingContext, /) -> Decision:
        """Called once, after the last profile ran."""


@runtime_checkable
class ProfilesValidator(Protocol):
    """A profile handler that checks the configured profiles when the configuration is loaded."""

    def validate_profiles(self, profiles: Sequence[str], /) -> Sequence[str]:
        """The problem: a profile is missing or would never run."""


@runtime_checkable
class Decider(Protocol):
    """Decides whether a request is disaggregated. A handler refers to it by name."""

    @property
    def name(self) -> str: ...

    def disaggregate(self, context: SchedulingContext, primary: Endpoint | None, /) -> bool:
        """`primary` is the endpoint that would serve the whole request; None: not picked yet."""


@runtime_checkable
class ShadowProfiles(Protocol):
    """A profile handler with shadow profiles: they run, and never change the decision."""

    @property
    def shadow_profiles(self) -> frozenset[str]: ...


@runtime_checkable
class Producer(Protocol):
    """Produces data of a request, in a slot of the context, before any profile runs."""

    @property
    def name(self) -> str: ...

    def produce(self, context: SchedulingContext, /) -> None: ...


@runtime_checkable
class Admitter(Protocol):
    """Admission: runs after the producers and before any profile."""

    @property
    def name(self) -> str: ...

    def admit(self, context: SchedulingContext, /) -> str:
        """Why the request is rejected, in one sentence; empty: it is admitted."""


@runtime_checkable
class PreRequest(Protocol):
    """Runs after an endpoint is picked and before the request is sent to it; may add request headers."""

    @property
    def name(self) -> str: ...

    def pre_request(self, context: SchedulingContext, decision: Decision, /) -> Sequence[tuple[str, str]]: ...


@runtime_checkable
class ResponseHeaders(Protocol):
    """Adds headers to the response that the client gets."""

    @property
    def name(self) -> str: ...

    def response_headers(self, context: SchedulingContext, decision: Decision, /) -> Sequence[tuple[str, str]]: ...


@runtime_checkable
class ResponseReceived(Protocol):
    """Runs when the headers of a response arrive, if the proxy sends them: prefill is done by then."""

    @property
    def name(self) -> str: ...

    def response_received(self, request: Request, decision: Decision, /) -> None: ...


@runtime_checkable
class ResponseComplete(Protocol):
    """Runs when a response is complete. `reads_bodies`: it needs the token usage, which only response bodies have."""

    @property
    def name(self) -> str: ...

    @property
    def reads_bodies(self) -> bool: ...

    def response_complete(self, request: Request, decision: Decision, served: EndpointResponse, /) -> None: ...


@runtime_checkable
class EndpointsChanged(Protocol):
    """Runs when endpoints are added to the pool or removed from it."""

    @property
    def name(self) -> str: ...

    def endpoints_changed(self, endpoints: Sequence[Endpoint], /) -> None: ...


@runtime_checkable
class Parser(Protocol):
    """Parses the bodies of some paths, for the picker's own parsers do not know them. Its type serves as `parser`."""

    @property
    def name(self) -> str: ...

    @property
    def paths(self) -> Sequence[str]:
        """The ends of its paths, such as `v1/rerank`. The longest that fits a path counts."""

    def parse(self, body: bytes, /) -> Parsed:
        """ValueError with a sentence for the client: the body is not acceptable, which is 400."""


@runtime_checkable
class DataSource(Protocol):
    """Reads numbers about endpoints from elsewhere, while requests are served. Its type serves as `source`."""

    @property
    def name(self) -> str: ...

    @property
    def interval_s(self) -> float:
        """From the end of one call of `collect` to the next."""

    async def collect(self, endpoints: Sequence[Endpoint], /) -> Mapping[Endpoint, Mapping[str, float]]:
        """Numbers for `Endpoint.attributes`; what is left out stays as it was. Runs on the event loop: never block."""


@runtime_checkable
class Replayable(Protocol):
    """A plugin with state of its own. The part that one decision used can be captured, and restored for a replay."""

    @property
    def name(self) -> str: ...

    def capture(self, context: SchedulingContext, /) -> object:
        """The state that the decision used, in JSON values; None: none. Called before `PreRequest`."""

    def restore(self, context: SchedulingContext, captured: object, /) -> None:
        """Use this state for one cycle. Of a producer it is called in place of `produce`."""


@runtime_checkable
class DecisionRecorder(Reporter[Endpoint], Protocol):
    """A reporter that records all inputs of a decision, so that it can be replayed."""

    def begin(self, request: Request, chance: Callable[[], float], /) -> tuple[Request, Callable[[], float]]:
        """Wraps the request and the random source, to record what the decision reads and draws."""

    def record(
        self,
        context: SchedulingContext,
        endpoints: Sequence[Endpoint],
        decision: Decision,
        captured: Mapping[str, object],
        /,
    ) -> None:
        """Called after the decision, before `PreRequest`. `captured` is the state of `Replayable` plugins, by name."""
