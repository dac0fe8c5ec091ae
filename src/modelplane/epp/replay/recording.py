"""The recording of one live decision: its inputs and its outcome, so that it can be replayed.

The inputs are the endpoints with their metrics, the request, the time, the random numbers and the state that plugins
used. They are recorded after the decision and before `PreRequest`, which changes metrics and state.

No prompt text is recorded: only sizes of prompts, and hashes of their first blocks if an index read them. Only the
headers that the decision read and routing headers are recorded; credentials never. A third-party plugin that reads
prompts, or has state and is not `plugins.Replayable`, may replay differently; the replay reports it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from modelplane.epp.config.config import Config
from modelplane.epp.replay.snapshot import EndpointState, write_exactly
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.headers import ROUTING
from modelplane.epp.scheduling.requests import InferenceApi, Request
from modelplane.framework.registry import Parameters

_SECRET: Final = frozenset(("authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"))
_MAX_HEADER_BYTES: Final = 4096
_DIGEST_LENGTH: Final = 16

Totals = Sequence[tuple[Endpoint, float, tuple[tuple[str, float], ...]]]
"""The totals of the endpoints that a profile admitted."""


class RequestFacts(Parameters, frozen=True, omit_defaults=True):
    model: str = ""
    api: InferenceApi = InferenceApi.CHAT
    prompt_bytes: tuple[int, ...] = ()
    prompt_tokens: tuple[int, ...] = ()
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    kept_out: tuple[str, ...] = ()
    """Headers that were read and are not recorded: credentials, and values over 4096 bytes."""
    priority: int = 0
    tenant: str = ""
    size: int = 0
    max_output_tokens: int = 0
    streaming: bool = False
    has_media: bool = False
    subset: tuple[str, ...] | None = None
    ttft_goal: float = 0.0
    tpot_goal: float = 0.0
    received: float = 0.0


class RecordedOutcome(Parameters, frozen=True, omit_defaults=True):
    """The outcome. Totals are in the order of the endpoints; null: not admitted."""

    outcome: str
    why: str = ""
    groups: tuple[tuple[str, ...], ...] = ()
    picks: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """By profile."""
    totals: dict[str, tuple[float | None, ...]] = msgspec.field(default_factory=dict)


class Recording(Parameters, frozen=True, omit_defaults=True):
    now: float
    endpoints: tuple[EndpointState, ...]
    request: RequestFacts
    ending: RecordedOutcome
    chance: tuple[float, ...] = ()
    """The random numbers, in order."""
    memories: dict[str, object] = msgspec.field(default_factory=dict)
    """The captured state of plugins, by name."""


class RecordingBuilder:
    """Records the random numbers and the headers that one decision reads."""

    __slots__ = ("draws", "headers")

    def __init__(self) -> None:
        self.draws: list[float] = []
        self.headers = _ReadHeaders({})

    def begin(self, request: Request, chance: Callable[[], float]) -> tuple[Request, Callable[[], float]]:
        self.headers = _ReadHeaders(request.headers)
        draws = self.draws

        def drawn() -> float:
            draws.append(chance())
            return draws[-1]

        return request.changed(headers=self.headers), drawn

    def build(
        self,
        context: SchedulingContext,
        endpoints: Sequence[Endpoint],
        decision: Decision,
        memories: Mapping[str, object],
        totals: Mapping[str, Totals],
    ) -> Recording:
        return Recording(
            now=context.now_s,
            endpoints=tuple(map(write_exactly, endpoints)),
            request=self._request(context.request),
            chance=tuple(self.draws),
            memories=dict(memories),
            ending=RecordedOutcome(
                outcome=decision.outcome.title,
                why=decision.why,
                groups=tuple(_names(group) for group in decision.groups),
                picks={
                    name: _names([found.candidate for found in result.ranked])
                    for name, result in context.results.items()
                },
                totals={
                    name: _aligned(found, endpoints)
                    for name, found in totals.items()
                    if found and name in context.results
                },
            ),
        )

    def _request(self, request: Request) -> RequestFacts:
        headers, kept_out = self.headers.recorded()
        return RequestFacts(
            model=request.model,
            api=request.api,
            prompt_bytes=tuple(map(len, request.prompts)),
            prompt_tokens=tuple(map(len, request.token_ids)),
            headers=headers,
            kept_out=kept_out,
            priority=request.priority,
            tenant=request.fairness_id,
            size=request.size,
            max_output_tokens=request.max_output_tokens,
            streaming=request.streaming,
            has_media=request.has_media,
            subset=request.subset,
            ttft_goal=request.ttft_goal_s,
            tpot_goal=request.tpot_goal_s,
            received=request.received_s,
        )


class _ReadHeaders(Mapping[str, str]):
    """Headers that record which of them were read."""

    __slots__ = ("_headers", "_read")

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers
        self._read: set[str] = set()

    def __getitem__(self, name: str) -> str:
        value = self._headers[name]
        self._read.add(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._headers)

    def __len__(self) -> int:
        return len(self._headers)

    def recorded(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """The headers that were read and may be recorded, and the names of those that may not."""
        headers = self._headers
        wanted = sorted(self._read.union(ROUTING.intersection(headers)))
        kept_out = tuple(name for name in wanted if name in _SECRET or len(headers[name]) > _MAX_HEADER_BYTES)
        return {name: headers[name] for name in wanted if name not in kept_out}, kept_out


def digest_of(config: Config) -> str:
    """Equal for configurations with the same plugins and parameters, however they are written."""
    entries = [(entry.name, entry.type, entry.parameters) for entry in config.entries]
    whole = (config.handler, config.profiles, entries, dict(config.gates))
    text = msgspec.json.encode(msgspec.to_builtins(whole, enc_hook=repr))
    return sha256(text).hexdigest()[:_DIGEST_LENGTH]


def _names(endpoints: Sequence[Endpoint]) -> tuple[str, ...]:
    return tuple(endpoint.name for endpoint in endpoints)


def _aligned(found: Totals, endpoints: Sequence[Endpoint]) -> tuple[float | None, ...]:
    totals = {endpoint: total for endpoint, total, _ in found}
    return tuple(totals.get(endpoint) for endpoint in endpoints)
