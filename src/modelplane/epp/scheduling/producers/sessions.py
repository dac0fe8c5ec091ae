"""Requests of one session go to one endpoint.

Two strategies. With `session_id` the request names its session in a header, and the picker remembers the session's
endpoint; an unused binding expires, and a session is bound again when its endpoint is gone. With
`encoded_endpoint_header` the response carries a token that names the endpoint, the client sends it with its next
request, and the picker stores nothing.

The filter keeps the bound endpoint alone and otherwise all: it never leaves a request without endpoints.
"""

from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.producers.session_parameters import (
    ID_HEADER,
    TOKEN_HEADER,
    SessionAffinityParameters,
    SessionIdParameters,
    SessionSource,
    SessionStrategy,
)
from modelplane.epp.scheduling.results import picked_of
from modelplane.framework import Refusal, RefusalCode, StateKey, zeros
from modelplane.framework.registry import plugin_type

MOST_SESSIONS = 100_000
SESSION: StateKey[str] = StateKey("session")
"""The request's session, where a producer found it."""
_SOME_SESSION = "some session"


class SessionBindings:
    """Sessions and their endpoints, the one unused for longest first."""

    __slots__ = ("_bound", "_limit", "_ttl_s")

    def __init__(self, ttl_s: float, most: int = MOST_SESSIONS) -> None:
        self._ttl_s = ttl_s
        self._limit = most
        self._bound: OrderedDict[str, tuple[Endpoint, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._bound)

    def find(self, session: str, now_s: float) -> Endpoint | None:
        found = self._bound.get(session)
        return found[0] if found is not None and now_s - found[1] < self._ttl_s else None

    def bind(self, session: str, endpoint: Endpoint, now_s: float) -> None:
        """Binds the session, or keeps its binding alive; drops those that were not used for too long."""
        self._bound[session] = (endpoint, now_s)
        self._bound.move_to_end(session)
        while len(self._bound) > self._limit or now_s - self._longest_unused_s() >= self._ttl_s:
            self._bound.popitem(last=False)

    def _longest_unused_s(self) -> float:
        return next(iter(self._bound.values()))[1]

    def keep(self, endpoints: Sequence[Endpoint]) -> None:
        kept = set(endpoints)
        for session in [session for session, (endpoint, _) in self._bound.items() if endpoint not in kept]:
            del self._bound[session]


class _SessionAffinity:
    """The shared part of scorer and filter: the endpoint that a request is bound to."""

    def __init__(self, name: str, parameters: SessionAffinityParameters | None = None) -> None:
        self.name = name
        given = parameters or SessionAffinityParameters()
        self._by_token = given.strategy is SessionStrategy.TOKEN
        self._profile_name = given.profile_name
        self._header = given.encoded_endpoint_header_config.header.lower() or TOKEN_HEADER
        sources = given.session_id_config.sources or (SessionSource(header=ID_HEADER),)
        self._headers = tuple([source.header.lower() for source in sources])
        """Of each source of session ids; empty: a producer's."""
        self.bindings = SessionBindings(given.session_id_config.eviction_ttl_seconds)
        self._found: StateKey[tuple[Endpoint | None]] = StateKey(f"{name}: bound")

    def bound(self, context: SchedulingContext) -> Endpoint | None:
        """The endpoint of the request's session, if it is in the cycle."""
        found = context.get(self._found)
        if found is None:
            found = (self._find(context),)
            context.put(self._found, found)
        return found[0]

    def capture(self, context: SchedulingContext) -> object:
        """The name of the endpoint that the request is bound to, empty for none; None if it was not read."""
        found = context.get(self._found)
        return None if found is None else found[0].name if found[0] is not None else ""

    def restore(self, context: SchedulingContext, captured: object) -> None:
        context.put(self._found, (next((each for each in context.endpoints if each.name == captured), None),))

    def pre_request(self, context: SchedulingContext, decision: Decision) -> Sequence[tuple[str, str]]:
        if not self._by_token and (session := self._session(context)):
            self.bindings.bind(session, self.bound(context) or self._picked(decision), context.now_s)
        return ()

    def response_headers(self, _context: SchedulingContext, decision: Decision) -> Sequence[tuple[str, str]]:
        if self._by_token:
            return ((self._header, token_of(self._picked(decision))),)
        return ()

    def endpoints_changed(self, endpoints: Sequence[Endpoint]) -> None:
        self.bindings.keep(endpoints)

    def _picked(self, decision: Decision) -> Endpoint:
        for profile, picks in decision.others:
            if profile == self._profile_name and picks:
                return picks[0]
        return picked_of(decision)

    def _find(self, context: SchedulingContext) -> Endpoint | None:
        if self._by_token:
            name = endpoint_of(context.request.headers.get(self._header, ""))
            return next((endpoint for endpoint in context.endpoints if endpoint.name == name), None) if name else None
        session = self._session(context)
        found = self.bindings.find(session, context.now_s) if session else None
        return found if found in context.endpoints else None

    def _session(self, context: SchedulingContext) -> str:
        for header in self._headers:
            found = context.request.headers.get(header, "") if header else context.get(SESSION)
            if found:
                return found
        return ""


class SessionAffinityScorer(_SessionAffinity):
    def score(self, context: SchedulingContext, endpoints: Sequence[Endpoint]) -> Sequence[float]:
        bound = self.bound(context)
        if bound is None:
            return zeros(len(endpoints))
        return [1.0 if endpoint is bound else 0.0 for endpoint in endpoints]


class SessionAffinityFilter(_SessionAffinity):
    def refuse(self, context: SchedulingContext, endpoint: Endpoint) -> Refusal | None:
        bound = self.bound(context)
        if bound is None or endpoint is bound:
            return None
        return Refusal(self.name, RefusalCode.UNSCHEDULABLE, "the session is bound to {}", (bound.name,))


class SessionIdProducer:
    """Finds the session in a header or a cookie."""

    def __init__(self, name: str, parameters: SessionIdParameters) -> None:
        self.name = name
        self._parameters = parameters

    def produce(self, context: SchedulingContext) -> None:
        headers = context.request.headers
        if self._parameters.header_name:
            found = headers.get(self._parameters.header_name.lower(), "")
        else:
            found = _cookies(headers).get(self._parameters.cookie_name, "")
        if found:
            context.put(SESSION, found)

    def capture(self, context: SchedulingContext) -> object:
        """Whether there is a session, not which one: the affinity plugins record the binding."""
        return None if context.get(SESSION) is None else _SOME_SESSION

    def restore(self, context: SchedulingContext, captured: object) -> None:
        context.put(SESSION, str(captured))


def token_of(endpoint: Endpoint) -> str:
    """The session token of the client."""
    return b64encode(endpoint.name.encode()).decode()


def endpoint_of(token: str) -> str:
    """The name in a token; empty where it is none."""
    try:
        return b64decode(token, validate=True).decode()
    except ValueError:
        return ""


def _cookies(headers: Mapping[str, str]) -> dict[str, str]:
    pairs = (part.split("=", 1) for part in headers.get("cookie", "").split(";") if "=" in part)
    return {name.strip(): value.strip().strip('"') for name, value in pairs}


TYPES = (
    plugin_type("session-affinity-scorer", SessionAffinityScorer, SessionAffinityParameters),
    plugin_type("session-affinity-filter", SessionAffinityFilter, SessionAffinityParameters),
    plugin_type("session-id-producer", SessionIdProducer, SessionIdParameters, produces="session"),
)
