"""From a request at the front door to the endpoint that serves it, and what is learned when it ends.

The order: the path and the model name the service (404), the caller is known and allowed (401, 403), its limits hold
(429), the endpoints are scheduled (503, or 403 where residency leaves none), and the request is rewritten for the one
chosen. A retry is a request with a further attempt: it goes to an endpoint that no attempt went to, within the
service's retry budget.

Everything runs on one event loop and nothing blocks. Each routed request counts at its endpoint until it ends.
"""

import uuid
from collections.abc import Callable, Mapping
from typing import Final

from modelplane.compose.caller_document import Caller
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.scheduling.results import picked_of
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.server.parsing import Parsed, ParseError, parse
from modelplane.router.addressing import FrontPath, read_path
from modelplane.router.callers import Callers
from modelplane.router.catalog import Member, NamedModel, RoutedService, ServiceCatalog
from modelplane.router.decisions import Attempt, AttemptSteps, DecisionRing, Record
from modelplane.router.endpoint_metrics import RouterEndpointMetrics
from modelplane.router.front_values import EndpointReach, FrontRequest, FrontResponse, Rewritten, RoutedTo, RouterAnswer
from modelplane.router.headers import (
    ATTEMPT,
    CALLER,
    ENDPOINT,
    INTERNAL,
    KEYS,
    REQUEST_ID,
    RESIDENCY,
    SERVED_BY,
    SESSION,
    TIMEOUT,
)
from modelplane.router.models_list import models_list
from modelplane.router.refusals import FrontOutcome, FrontRefusal
from modelplane.router.residency import Residency, ResidencyError, read_residency
from modelplane.router.retries import RetryTokens
from modelplane.router.rewriting import upstream_request
from modelplane.router.routed_request import RoutedRequest
from modelplane.router.translation.values import TranslationError
from modelplane.router.usage import UsageLog, cost_of
from modelplane.router.usage_record import UsageRecord

MOST_ATTEMPTS: Final = 4
RETRY_AFTER_S: Final = 1
_SERVER_ERRORS: Final = 500
_TOO_MANY: Final = 429
_GONE: Final = frozenset((Outcome.NO_ENDPOINTS, Outcome.EXCLUDED, Outcome.SATURATED))
_PARSED: Final = frozenset(InferenceApi) - {InferenceApi.OTHER}
_NOT_FORWARDED: Final = tuple(name for name in (*INTERNAL, RESIDENCY) if name != ENDPOINT)
_NEVER_FORWARDED: Final = frozenset((*_NOT_FORWARDED, *KEYS))
_PICKED: Final = Outcome.PICKED
_OTHER: Final = InferenceApi.OTHER
_ROUTED: Final = FrontOutcome.ROUTED.title
_SOMEBODY: Final = EndpointReach.SOMEBODY


class RouteRefused(Exception):  # noqa: N818  not an error of the program
    """Ends a decision with a refusal."""

    def __init__(self, outcome: FrontOutcome, why: str, retry_after_s: int = 0) -> None:
        super().__init__(why)
        self.refusal = FrontRefusal(outcome, why, retry_after_s)
        self.steps: AttemptSteps | None = None
        """Those of the scheduling cycle, if there was one."""


class RouterDirector:
    """Decides for one front door."""

    def __init__(
        self,
        catalog: ServiceCatalog,
        scheduler: Scheduler,
        *,
        clock: Callable[[], float],
        wall_clock: Callable[[], str],
        chance: Callable[[], float],
        write_usage: Callable[[bytes], object] | None = None,
    ) -> None:
        """`wall_clock` is the time of day in ISO 8601. `write_usage` gets a line a request."""
        self.catalog = catalog
        self.callers = Callers()
        self.usage = UsageLog(write_usage)
        self.endpoint_metrics = RouterEndpointMetrics()
        self.ring = DecisionRing()
        self.stopping = False
        self._scheduler = scheduler
        self._clock = clock
        self._wall_clock = wall_clock
        self._chance = chance
        self.on_refused: Callable[[], object] = lambda: None
        """Hears that an endpoint could not be reached."""
        catalog.on_change = scheduler.endpoints_changed

    def decide(self, front: FrontRequest) -> RoutedTo | RouterAnswer:
        now_s = self._clock()
        headers = front.headers
        number = _attempt(headers)
        identity = headers.get(REQUEST_ID) or uuid.uuid4().hex
        tried = self.ring.tried(identity) if number > 1 else frozenset()
        record = self.ring.open(identity, again=number > 1)
        path = read_path(headers.get(":path", ""))
        record.path = headers.get(":path", "").partition("?")[0][:256]
        api = _OTHER if path is None else path.api
        try:
            return self._decide(front, path, record, number, tried, now_s)
        except RouteRefused as refused:
            attempt = Attempt(number, now_s, refused.refusal.outcome.title, refused.refusal.why, refused.steps)
            attempt.status = status = refused.refusal.outcome.status
            attempt.ended_s = now_s
            record.attempts.append(attempt)
            self.usage.add_refused(self._wall_clock(), record.id, record.caller, record.service, status, number)
            return RouterAnswer(api, refused.refusal)

    def _decide(
        self,
        front: FrontRequest,
        path: FrontPath | None,
        record: Record,
        number: int,
        tried: frozenset[str],
        now_s: float,
    ) -> RoutedTo | RouterAnswer:
        if self.stopping:
            raise RouteRefused(FrontOutcome.STOPPING, "the router is stopping", RETRY_AFTER_S)
        if front.problem:
            raise RouteRefused(FrontOutcome.TOO_LARGE, front.problem)
        if path is None:
            raise RouteRefused(FrontOutcome.UNKNOWN_PATH, f"nothing is served at {record.path}")
        caller = self.callers.identify(front.headers)
        if isinstance(caller, FrontRefusal):
            raise RouteRefused(caller.outcome, caller.why)
        record.caller = caller.name
        if front.headers.get(":method") == "GET" and path.lists_models:
            return self._list(path, caller)
        parsed = _parse(path, front)
        named = self._service(path, parsed)
        service = named.service
        record.service, record.model = service.key, parsed.model[:256]
        if number == 1:
            refusal = self.callers.admit(caller, service.key, self._month(), now_s)
            if refusal is not None:
                raise RouteRefused(refusal.outcome, refusal.why, refusal.retry_after_s)
        residency = _residency(front.headers)
        record.residency = "" if residency is None else residency.text
        record.session = SESSION in front.headers
        request = _request(front, path, parsed, named, residency, record.id, tried, number, now_s)
        steps = AttemptSteps()
        decision = self._scheduler.schedule(request, service.candidates, now_s, self._chance, steps)
        if decision.outcome is not _PICKED:
            refused = _unserved(decision, service, residency)
            refused.steps = steps
            raise refused
        attempt = Attempt(number, now_s, _ROUTED, "", steps)
        return self._send(front, path, named, request, decision, attempt, caller, record, now_s)

    def _send(  # noqa: PLR0913, PLR0917  one call, from one place
        self,
        front: FrontRequest,
        path: FrontPath,
        named: NamedModel,
        request: RoutedRequest,
        decision: Decision,
        attempt: Attempt,
        caller: Caller,
        record: Record,
        now_s: float,
    ) -> RoutedTo:
        service, member = named.service, named.service.members[picked_of(decision)]
        model = named.adapter or _model_at(member, request.model, named)
        try:
            counts, name = self.callers.are_limited, request.model or service.key
            upstream = upstream_request(path, member.plan, name, model, front.body, counts_tokens=counts)
        except (TranslationError, ParseError) as error:
            raise RouteRefused(FrontOutcome.MALFORMED, str(error)) from error
        timeout = () if attempt.number == 1 else _time_left(service, now_s - record.began_s(now_s))
        record.attempts.append(attempt)
        overflows = member.priority > service.first_priority
        _count(service, member, 1, overflows=overflows)
        if attempt.number == 1:
            service.retries.request()
        member.endpoint.health.sent()
        rewritten = Rewritten(
            (
                (ENDPOINT, member.key),
                (":path", f"{member.path}{upstream.path}"),
                (CALLER, caller.name),
                *timeout,
                *upstream.set_headers,
            ),
            _removed(front.headers, upstream.set_headers),
            upstream.body,
            upstream.translator,
            counts_tokens=counts,
            response_headers=((SERVED_BY, member.key),),
            # Without its number there is no hop before this one that would try again.
            retries=_retries(service, request, member, attempt.number) if ATTEMPT in front.headers else None,
        )
        return RoutedTo(request, decision, member, rewritten, attempt, caller, overflows, now_s)

    def ended(self, routed: RoutedTo, response: FrontResponse) -> None:
        """A request that was sent on has ended."""
        now_s = self._clock()
        service, member = routed.request.service, routed.member
        _count(service, member, -1, overflows=routed.overflows)
        self._judge(routed, response, now_s)
        routed.attempt.status, routed.attempt.ended_s = response.status, now_s
        served = EndpointResponse(
            member.endpoint.candidate, response.status, routed.sent_s, response.first_byte_s, now_s, response.usage,
            response.cancelled and not response.status,
        )  # fmt: skip
        self._scheduler.response_complete(routed.request, routed.decision, served)
        if not response.unserved and not response.retried:
            self._record(routed, response, now_s)

    def _judge(self, routed: RoutedTo, response: FrontResponse, now_s: float) -> None:
        """What the response says of the endpoint's health, and of what clients get from it."""
        health, status, key = routed.member.endpoint.health, response.status, routed.member.key
        if status and status < _SERVER_ERRORS and not response.unserved:
            health.succeeded(now_s)
            sent_s = routed.sent_s
            self.endpoint_metrics.succeeded(key, response.first_byte_s - sent_s, now_s - sent_s)
        elif not status and not response.unserved and response.cancelled and not _is_stalled(routed, now_s):
            health.abandoned()
        else:
            why, refused = _failure(routed, response, now_s), _is_refused(response)
            health.failed(now_s, why, refused=refused)
            self.endpoint_metrics.failed(key)
            if response.reached is EndpointReach.NOBODY:
                self.catalog.refused(routed.member.plan, now_s, why)
            if refused:
                self.on_refused()

    def _record(self, routed: RoutedTo, response: FrontResponse, now_s: float) -> None:
        usage, service, plan = response.usage, routed.request.service, routed.member.plan
        cost = cost_of(usage, service.plan, plan)
        tokens = max(0, usage.prompt_tokens) + max(0, usage.output_tokens)
        time = self._wall_clock()
        self.callers.used(routed.caller, tokens, cost, time[:7], now_s)
        self.usage.add(
            UsageRecord(
                time, routed.request.id, routed.caller.name, service.key, plan.key, response.status or 499,
                round((now_s - routed.sent_s) * 1000.0, 3), usage.prompt_tokens, usage.output_tokens,
                usage.cached_tokens, cost, routed.attempt.number,
            )
        )  # fmt: skip

    def _list(self, path: FrontPath, caller: Caller) -> RouterAnswer:
        if path.service and path.service not in self.catalog.services:
            raise RouteRefused(FrontOutcome.UNKNOWN_MODEL, f"no service {path.service} is declared")
        return RouterAnswer(path.api, body=models_list(self.catalog, caller, path.service))

    def _service(self, path: FrontPath, parsed: Parsed) -> NamedModel:
        if path.service:
            found = self.catalog.services.get(path.service)
            if found is None:
                raise RouteRefused(FrontOutcome.UNKNOWN_MODEL, f"no service {path.service} is declared")
            named = self.catalog.named(parsed.model)
            if named is not None and named.service is found:
                return named
            # A name that some endpoints list leads to one of those.
            return NamedModel(found, parsed.model if found.lists(parsed.model) else "")
        if path.api is _OTHER:
            raise RouteRefused(FrontOutcome.UNKNOWN_PATH, f"nothing is served at {path.rest.partition('?')[0]}")
        named = self.catalog.named(parsed.model)
        if named is None:
            raise RouteRefused(FrontOutcome.UNKNOWN_MODEL, f"no service declares the model {parsed.model[:256]!r}")
        return named

    def _month(self) -> str:
        return self._wall_clock()[:7]


def _time_left(service: RoutedService, passed_s: float) -> tuple[tuple[str, str], ...]:
    """For a further attempt: what is left of its request's time. The first has what its route says."""
    whole_s = service.plan.timeouts.request_s
    if not whole_s:
        return ()
    if passed_s >= whole_s:
        raise RouteRefused(FrontOutcome.STALLED, f"the request was not served within {whole_s:g} s")
    return ((TIMEOUT, str(max(1, round((whole_s - passed_s) * 1000.0)))),)


def _retries(service: RoutedService, request: RoutedRequest, member: Member, attempt: int) -> RetryTokens | None:
    """The service's tokens, where an endpoint is left that no attempt went to."""
    if attempt >= MOST_ATTEMPTS:
        return None
    tried, residency = request.tried, request.residency
    for other in service.serving:
        if other is member or other.key in tried:
            continue
        if residency is None or residency.allows(other.plan):
            return service.retries
    return None


def _failure(routed: RoutedTo, response: FrontResponse, now_s: float) -> str:
    if response.reached is EndpointReach.NOWHERE:
        return "a gateway that has no route to it"
    if _is_refused(response):
        return "a refused connection"
    return f"status {response.status}" if response.status else f"{now_s - routed.sent_s:.1f} s without a response"


def _is_refused(response: FrontResponse) -> bool:
    """Whether no engine received it."""
    return response.unserved or response.reached is not _SOMEBODY


def _is_stalled(routed: RoutedTo, now_s: float) -> bool:
    """Whether the endpoint was silent for longer than its service allows."""
    idle_s = routed.request.service.plan.timeouts.idle_s
    return idle_s > 0.0 and now_s - routed.sent_s >= idle_s


def _attempt(headers: Mapping[str, str]) -> int:
    text = headers.get(ATTEMPT, "1")
    return min(99, int(text)) if text.isdecimal() and len(text) < 4 else 1  # noqa: PLR2004  digits


def _parse(path: FrontPath, front: FrontRequest) -> Parsed:
    if path.api not in _PARSED or not front.whole or front.headers.get(":method") != "POST":
        return Parsed()
    try:
        return parse(path.api, front.body)
    except ParseError as error:
        raise RouteRefused(FrontOutcome.MALFORMED, str(error)) from error


def _residency(headers: Mapping[str, str]) -> Residency | None:
    try:
        return read_residency(headers.get(RESIDENCY, ""))
    except ResidencyError as error:
        raise RouteRefused(FrontOutcome.MALFORMED, str(error)) from error


def _request(  # noqa: PLR0913, PLR0917  one call, from one place
    front: FrontRequest,
    path: FrontPath,
    parsed: Parsed,
    named: NamedModel,
    residency: Residency | None,
    identity: str,
    tried: frozenset[str],
    number: int,
    now_s: float,
) -> RoutedRequest:
    return RoutedRequest(
        identity,
        path.api,
        front.headers,
        len(front.body),
        parsed,
        now_s,
        named.service,
        residency,
        tried,
        max(0, MOST_ATTEMPTS - number),
        named.adapter,
    )


def _model_at(member: Member, requested: str, named: NamedModel) -> str:
    """The name of the model at an endpoint; empty: the client's stays.

    A name that is neither the service's nor the endpoint's is passed on: an adapter, asked for by the service's path.
    """
    return member.endpoint.model if not requested or requested in named.service.names else ""


def _removed(headers: Mapping[str, str], kept: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """The client's keys never reach an endpoint, nor do routing headers that it made up."""
    if _NEVER_FORWARDED.isdisjoint(headers):
        return ()
    names = {name for name, _ in kept}
    return tuple([name for name in (*_NOT_FORWARDED, *KEYS) if name in headers and name not in names])


def _count(service: RoutedService, member: Member, change: int, *, overflows: bool) -> None:
    member.endpoint.candidate.count(change, 0)
    service.in_flight += change
    service.overflowed += change if overflows else 0


def _unserved(decision: Decision, service: RoutedService, residency: Residency | None) -> RouteRefused:
    if decision.outcome not in _GONE:
        return RouteRefused(FrontOutcome.FAULT, decision.why)
    if residency is not None and not any(residency.allows(member.plan) for member in service.members.values()):
        return RouteRefused(FrontOutcome.RESIDENCY, f"no endpoint of {service.key} is where {residency.text} allows it")
    return RouteRefused(FrontOutcome.NOT_READY, f"no endpoint of {service.key} is ready", RETRY_AFTER_S)
