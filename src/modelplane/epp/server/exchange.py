"""One HTTP exchange of ext_proc: messages in, replies out, without IO.

                      what Envoy waits for                         when the picker decides
    NONE, STREAMED    a reply to the headers                       at the headers; the body is not sent or not buffered
    BUFFERED          a reply to the headers, one to the body      at the body, whose reply sets headers too
    FULL_DUPLEX       nothing, until we send headers and the body  at the end of the body

A request that ends with its headers is decided by them in every mode. A step has a `pick_request` once; `decided` takes
the decision, at once or much later, and messages of Envoy in between are held. An old Envoy does not send its mode;
gateways of this protocol then use full duplex.

The response passes unchanged, but for headers that a decision has for the client and where a model's name has to be put
back. Envoy sends what its filter is configured for: where it sends bodies, their token usage is read on the way.
To learn when an exchange ends without seeing its body, let it send response trailers (`response_trailer_mode: SEND`).
Envoy 1.40 then keeps the stream open to the end of the exchange even where no trailers come, and without that resets it
as soon as the last configured message is answered.

Envoy decides whether a request continues when this server is unavailable or fails (`failure_mode_allow`): here a
failure is a status of the call, and a decision not to serve is an immediate response to the client.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Final

from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.headers import DESTINATION_SERVED, DESTINATION_SUBSET
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.epp.scheduling.response_usage import NO_USAGE, ResponseUsage
from modelplane.epp.scheduling.results import destinations_of
from modelplane.epp.scheduling.subsets import parse as parse_subset
from modelplane.epp.server import messages
from modelplane.epp.server.immediate_response import immediate_response
from modelplane.epp.server.messages import UNCHANGED
from modelplane.epp.server.messages_fast import read_whole
from modelplane.epp.server.processing_request import BodyMode, ProcessingPhase, ProcessingRequest
from modelplane.epp.server.sse import ModelRenamer, UsageReader
from modelplane.epp.server.steps import NOTHING, ExchangeStep, PickRequest, Rename

_LARGEST_PIECE: Final = 62_000
"""Envoy takes pieces below 64 kB."""
_TEST_SELECTION: Final = "test-epp-endpoint-selection"
_TEST_SERVED: Final = "x-conformance-test-served-endpoint"
_OK: Final = 200
_DUPLEX: Final = frozenset((BodyMode.FULL_DUPLEX, BodyMode.GRPC))
_UNSEEN: Final = frozenset((BodyMode.NONE, BodyMode.STREAMED))
_WHOLE_MODES: Final = frozenset((-1, int(BodyMode.FULL_DUPLEX)))
_MOST_AT_ONCE: Final = 3
_HELD: Final = frozenset((BodyMode.STREAMED, BodyMode.BUFFERED_PARTIAL))
"""Modes in which body chunks may come after the decision, and wait for a reply."""


class ExchangeStage(Enum):
    """How far an exchange is."""

    BEGINNING = auto()
    READING = auto()
    PICKING = auto()
    ROUTED = auto()
    REFUSED = auto()


_BEGINNING: Final = ExchangeStage.BEGINNING
_OTHER: Final = InferenceApi.OTHER
_PICKING: Final = ExchangeStage.PICKING
_ROUTED: Final = ExchangeStage.ROUTED
_PICKED: Final = Outcome.PICKED
_REQUEST_HEADERS: Final = ProcessingPhase.REQUEST_HEADERS
_REQUEST_BODY: Final = ProcessingPhase.REQUEST_BODY
_FULL_DUPLEX: Final = int(BodyMode.FULL_DUPLEX)
_NO_HEADERS: Final[Mapping[str, str]] = {}


class Budget:
    """Bytes of request bodies that all exchanges together may hold: slow clients must not fill memory."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0


class Exchange:
    """The state of one."""

    # Most exchanges see a request come whole and nothing of its response: what else there is is set where it is met.
    stage = _BEGINNING
    status = 0
    first_byte_s = -1.0
    served = ""
    """The address that served, where Envoy reports it."""
    _held = 0
    _api: InferenceApi = _OTHER
    _for_client: tuple[tuple[str, str], ...] = ()
    _mode: int = _FULL_DUPLEX
    _response_mode: int = _FULL_DUPLEX
    _headers: Mapping[str, str] = _NO_HEADERS
    _body: bytes = b""
    """The body while the request is decided."""
    _pieces: list[bytes] | None = None
    """Chunks of the body while it is received."""
    _size = 0
    _by_trailers = False
    _subset: tuple[str, ...] | None = None
    _reader: UsageReader | None = None
    _renamer: ModelRenamer | None = None

    def __init__(self, body_limit: int, *, budget: Budget | None = None) -> None:
        self._limit = body_limit
        self._budget = budget or Budget(body_limit)

    def take_whole(self, received: Sequence[bytes]) -> PickRequest | None:
        """The question of a request that came whole at once, in full duplex: its headers, its body, maybe its end.

        None, and nothing has happened: the messages have to be fed one by one.
        """
        if self.stage is not _BEGINNING or not 1 < len(received) <= _MOST_AT_ONCE:
            return None
        found = read_whole(received)
        if found is None or found[2].request_mode not in _WHOLE_MODES:
            return None
        headers, body, parsed = messages.read_headers(found[0]), found[1], found[2]
        size, budget = len(body), self._budget
        length = headers.get("content-length", "")
        if size > self._limit or budget.used + size > budget.limit:
            return None
        if length != str(size) and length.isdecimal() and int(length[:19]) > self._limit:
            return None
        budget.used += size
        self._held = size
        if parsed.request_mode >= 0:
            self._response_mode = parsed.response_mode
        if parsed.metadata:
            self._subset = _subset_of(parsed.metadata)
        self.stage = _PICKING
        self._headers = headers
        self._body = body
        return PickRequest(headers, body, True, self._subset)

    def feed(self, incoming: ProcessingRequest, now_s: float) -> ExchangeStep:
        """A message from Envoy."""
        if incoming.observed or self.stage is ExchangeStage.REFUSED:
            return NOTHING
        match incoming.phase:
            case ProcessingPhase.REQUEST_HEADERS:
                return self._request_headers(incoming)
            case ProcessingPhase.REQUEST_BODY:
                return self._request_body(incoming)
            case ProcessingPhase.REQUEST_TRAILERS:
                return self._request_trailers()
            case ProcessingPhase.RESPONSE_HEADERS:
                return self._response_headers(incoming, now_s)
            case ProcessingPhase.RESPONSE_BODY:
                return self._response_body(incoming)
            case ProcessingPhase.RESPONSE_TRAILERS:
                return self._response_trailers()
            case _:
                # A message of a later version: whether it waits for a reply is unknown.
                return NOTHING

    def decided(
        self, decision: Decision, api: InferenceApi = InferenceApi.OTHER, rename: Rename | None = None
    ) -> ExchangeStep:
        """The result of the pick request."""
        if self.stage is not _PICKING:
            return NOTHING
        body, self._body = self._body, b""
        self._budget.used -= self._held
        self._held = 0
        if decision.outcome is not _PICKED:
            return self._refuse(decision, api)
        self.stage = _ROUTED
        self._api = api
        self._for_client = decision.response_headers
        if rename is not None:
            self._renamer = ModelRenamer(rename.served, rename.requested)
            body = rename.body
        if self._mode != _FULL_DUPLEX or self._by_trailers or len(body) > _LARGEST_PIECE:
            return ExchangeStep(tuple(self._send_on(decision, body, changed=rename is not None)))
        head = messages.mutate_request(
            _REQUEST_HEADERS, destinations_of(decision), decision.set_headers, decision.remove_headers
        )
        return ExchangeStep((head, messages.stream_body(_REQUEST_BODY, body, ends=True)))

    def evict(self) -> ExchangeStep:
        """Evict a routed request: its client gets a response with Retry-After."""
        if self.stage is not ExchangeStage.ROUTED:
            return NOTHING
        decision = Decision(Outcome.EVICTED, why="the request had to make room for a more urgent one")
        self.status = Outcome.EVICTED.status
        return self._refuse(decision, self._api)

    @property
    def is_idle(self) -> bool:
        """Whether Envoy waits for nothing more of the request, and shows of the response its headers at most."""
        return self.stage is _ROUTED and not self._response_mode and self._mode not in _HELD

    def abort(self, broken: str) -> PickRequest | None:
        """The call is over. Returns the end of a request that was never decided; None: there is none.

        `broken` is the error in Envoy's messages; without it the client disconnected before its request was complete.
        """
        if self.stage is ExchangeStage.READING and not broken:
            return self._end(Outcome.ABANDONED, "the client disconnected before its request was complete")
        if self.stage in {ExchangeStage.BEGINNING, ExchangeStage.READING} and broken:
            return self._end(Outcome.MALFORMED, broken)
        return None

    def release(self) -> None:
        """Nothing of the request's body is held any more."""
        self._budget.used -= self._held
        self._held = 0

    def _hold(self, size: int) -> bool:
        if self._budget.used + size > self._budget.limit:
            return False
        self._budget.used += size
        self._held += size
        return True

    @property
    def usage(self) -> ResponseUsage:
        return NO_USAGE if self._reader is None else self._reader.end()

    # The request.

    def _request_headers(self, incoming: ProcessingRequest) -> ExchangeStep:
        if self.stage is not ExchangeStage.BEGINNING:
            return ExchangeStep(broken="request headers came twice")
        headers = self._headers = incoming.headers
        if incoming.request_mode >= 0:
            self._mode, self._response_mode = incoming.request_mode, incoming.response_mode
        self.stage = ExchangeStage.READING
        if incoming.metadata:
            self._subset = _subset_of(incoming.metadata)
        if incoming.ends or self._mode in _UNSEEN:
            if incoming.ends:
                self._mode = BodyMode.NONE
            return self._pick(whole=incoming.ends)
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length[:19]) > self._limit:
            return self._too_large(length)
        return NOTHING if self._mode in _DUPLEX else ExchangeStep((UNCHANGED[ProcessingPhase.REQUEST_HEADERS],))

    def _request_body(self, incoming: ProcessingRequest) -> ExchangeStep:
        if self.stage is not ExchangeStage.READING:
            return self._stray_body()
        self._size += len(incoming.body)
        if self._size > self._limit:
            return self._too_large(f"more than {self._limit}")
        if not self._hold(len(incoming.body)):
            return ExchangeStep(pick_request=self._end(Outcome.SATURATED, "too many request bodies are being held"))
        if self._pieces is None:
            self._pieces = []
        self._pieces.append(incoming.body)
        buffered = self._mode not in _DUPLEX
        if incoming.ends or buffered:
            return self._pick(whole=incoming.ends or self._mode == BodyMode.BUFFERED)
        return NOTHING

    def _stray_body(self) -> ExchangeStep:
        """A body that is not needed: streamed after a decision by headers."""
        if self.stage is ExchangeStage.BEGINNING:
            return ExchangeStep(broken="a request body came before its headers")
        return ExchangeStep((UNCHANGED[ProcessingPhase.REQUEST_BODY],)) if self._mode not in _DUPLEX else NOTHING

    def _request_trailers(self) -> ExchangeStep:
        if self.stage is ExchangeStage.BEGINNING:
            return ExchangeStep(broken="request trailers came before headers")
        if self._mode in _DUPLEX:
            if self.stage is ExchangeStage.READING:
                self._by_trailers = True
                return self._pick(whole=True)
            return NOTHING
        return ExchangeStep((UNCHANGED[ProcessingPhase.REQUEST_TRAILERS],))

    def _pick(self, *, whole: bool) -> ExchangeStep:
        self.stage = ExchangeStage.PICKING
        pieces, self._pieces = self._pieces or (), None
        body = self._body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return ExchangeStep(pick_request=PickRequest(self._headers, body, whole, self._subset))

    def _too_large(self, size: str) -> ExchangeStep:
        return ExchangeStep(
            pick_request=self._end(Outcome.TOO_LARGE, f"the body has {size} bytes; {self._limit} are accepted")
        )

    def _end(self, outcome: Outcome, sentence: str) -> PickRequest:
        self.stage = ExchangeStage.PICKING
        return PickRequest(
            self._headers, b"", whole=False, subset=self._subset, refused=Decision(outcome, why=sentence)
        )

    def _refuse(self, decision: Decision, api: InferenceApi) -> ExchangeStep:
        self.stage = ExchangeStage.REFUSED
        self.release()
        if decision.outcome is Outcome.ABANDONED:
            return ExchangeStep(over=True)
        return ExchangeStep((immediate_response(decision, api),), over=True)

    def _send_on(self, decision: Decision, body: bytes, *, changed: bool) -> list[bytes]:
        where = (destinations_of(decision), decision.set_headers, decision.remove_headers)
        if self._mode in _UNSEEN:
            return [messages.mutate_request(ProcessingPhase.REQUEST_HEADERS, *where)]
        if self._mode not in _DUPLEX:
            return [
                messages.mutate_request_and_body(*where, body)
                if changed
                else messages.mutate_request(ProcessingPhase.REQUEST_BODY, *where)
            ]
        # Envoy drops the content-length of what it streams; one that is set here does not get through.
        replies = [messages.mutate_request(ProcessingPhase.REQUEST_HEADERS, *where)]
        replies.extend(_cut(ProcessingPhase.REQUEST_BODY, body, ends=not self._by_trailers))
        if self._by_trailers:
            replies.append(UNCHANGED[ProcessingPhase.REQUEST_TRAILERS])
        return replies

    # The response.

    def _response_headers(self, incoming: ProcessingRequest, now_s: float) -> ExchangeStep:
        headers = incoming.headers
        status = headers.get(":status", "")
        self.status = int(status) if status.isdecimal() else 0
        self.first_byte_s = now_s
        if incoming.metadata:
            self._read_served(incoming.metadata)
        if self.status == _OK and self._response_mode != BodyMode.NONE:
            streaming = headers.get("content-type", "").startswith("text/event-stream")
            self._reader = UsageReader(streaming=streaming)
        set_headers = self._for_client
        if self.served and _TEST_SELECTION in self._headers:
            set_headers = (*set_headers, (_TEST_SERVED, self.served))
        remove_headers = ("content-length",) if self._renamer is not None else ()
        if set_headers or remove_headers:
            return ExchangeStep((messages.mutate_response(set_headers, remove_headers),))
        return ExchangeStep((UNCHANGED[ProcessingPhase.RESPONSE_HEADERS],))

    def _read_served(self, metadata: bytes) -> None:
        served = messages.read_metadata(metadata, messages.LB_NAMESPACE, DESTINATION_SERVED.encode())
        if isinstance(served, str):
            self.served = served

    def _response_body(self, incoming: ProcessingRequest) -> ExchangeStep:
        body = incoming.body
        if incoming.metadata:
            self._read_served(incoming.metadata)
        if self._reader is not None:
            self._reader.feed(body)
        if self._renamer is not None:
            body = self._renamer.feed(body, ends=incoming.ends)
        if self._response_mode in _DUPLEX:
            return ExchangeStep(tuple(_cut(ProcessingPhase.RESPONSE_BODY, body, ends=incoming.ends)))
        if self._renamer is not None:
            return ExchangeStep((messages.replace_body(ProcessingPhase.RESPONSE_BODY, body),))
        return ExchangeStep((UNCHANGED[ProcessingPhase.RESPONSE_BODY],))

    def _response_trailers(self) -> ExchangeStep:
        return ExchangeStep((*self._rest_of_response(), UNCHANGED[ProcessingPhase.RESPONSE_TRAILERS]))

    def _rest_of_response(self) -> tuple[bytes, ...]:
        """The held rest of a body that ends with trailers."""
        rest = b"" if self._renamer is None else self._renamer.feed(b"", ends=True)
        if not rest or self._response_mode not in _DUPLEX:
            return ()
        return (messages.stream_body(ProcessingPhase.RESPONSE_BODY, rest, ends=False),)


def _subset_of(metadata: bytes) -> tuple[str, ...] | None:
    return parse_subset(messages.read_metadata(metadata, messages.SUBSET_NAMESPACE, DESTINATION_SUBSET.encode()))


def _cut(phase: ProcessingPhase, body: bytes, *, ends: bool) -> list[bytes]:
    if len(body) <= _LARGEST_PIECE:
        return [messages.stream_body(phase, body, ends=ends)]
    last = len(body) - 1
    return [
        messages.stream_body(phase, body[place : place + _LARGEST_PIECE], ends=ends and place + _LARGEST_PIECE > last)
        for place in range(0, len(body), _LARGEST_PIECE)
    ]
