"""The state of a pool as a document: endpoints with their metrics, at a moment.

A state is a document of its own, so that a decision can be explained and repeated elsewhere. The server writes one with
`encode`; people write them by hand. `sent` is for hands only: requests that went to an endpoint before, oldest first,
which plugins record. A dump of the server holds none, since it would hold prompts.

    kind: PickerState
    now: 12.5
    endpoints:
    - name: default/vllm-0
      address: 10.0.0.1:8000
      labels: {llm-d.ai/role: decode}
      load: {waiting: 2, running: 4, kvUse: 0.35, age: 0.05, requestsThen: 3}
      requestsInFlight: 4
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TypeVar

import msgspec

from modelplane.epp.config.positions import ConfigError, ConfigProblem, ConfigProblems
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import Adapters, EndpointMetrics
from modelplane.epp.scheduling.requests import InferenceApi, Request
from modelplane.framework.registry import Parameters
from modelplane.k8s.admission.documents import parse_documents

KIND = "PickerState"

_F = TypeVar("_F", bound=msgspec.Struct)


class AdaptersState(Parameters, frozen=True):
    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    most: int = 0


_NO_ADAPTERS = AdaptersState()


class LoadState(Parameters, frozen=True, omit_defaults=True):
    waiting: float = 0.0
    running: float = 0.0
    kv_use: float = 0.0
    block_size: int = 0
    blocks: int = 0
    adapters: AdaptersState = _NO_ADAPTERS
    models: tuple[str, ...] = ()
    age: float | None = 0.0
    """Seconds since the scrape; null: never scraped."""
    seen: float | None = None
    """The time of the scrape, by the clock of `now`, in place of `age`: a difference of two times may round."""
    requests_then: int | None = None
    """Requests of `requestsInFlight` that were in flight at the scrape; omitted: all."""
    tokens_then: int | None = None
    refused_scrapes: int = 0


class EndpointState(Parameters, frozen=True, omit_defaults=True):
    name: str
    address: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    attributes: dict[str, float] = msgspec.field(default_factory=dict)
    load: LoadState = LoadState()
    requests_in_flight: int = 0
    tokens_in_flight: int = 0
    failures: int = 0


class RequestState(Parameters, frozen=True, omit_defaults=True):
    """A request, with its prompts as text."""

    id: str = "explained"
    model: str = ""
    api: InferenceApi = InferenceApi.CHAT
    prompts: tuple[str, ...] = ()
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    priority: int = 0
    tenant: str = ""
    max_output_tokens: int = 0
    streaming: bool = False
    salt: str = ""
    has_media: bool = False
    subset: tuple[str, ...] | None = None
    ttft_goal: float = 0.0
    tpot_goal: float = 0.0


class SentState(Parameters, frozen=True):
    endpoint: str
    request: RequestState


class StateFields(Parameters, frozen=True, omit_defaults=True):
    kind: str = KIND
    now: float = 0.0
    endpoints: tuple[EndpointState, ...] = ()
    sent: tuple[SentState, ...] = ()


class PoolState(msgspec.Struct, frozen=True, eq=False):
    """A state that was read."""

    now_s: float
    endpoints: tuple[Endpoint, ...]
    sent: tuple[tuple[Request, Endpoint], ...] = ()


def encode(endpoints: Sequence[Endpoint], now_s: float) -> Mapping[str, object]:
    """The state as plain values, for YAML or JSON; `decode` reads it back."""
    fields = StateFields(now=now_s, endpoints=tuple(_written(endpoint, now_s) for endpoint in endpoints))
    plain: Mapping[str, object] = {"kind": KIND, **msgspec.to_builtins(fields)}
    return plain


def decode(text: str | bytes, source: str = "state") -> PoolState:
    """The state in a text; ConfigError with the file, line and field where it is none."""
    fields = _read(text, source, StateFields)
    if fields.kind != KIND:
        raise ConfigError((ConfigProblem(source, 1, "kind", f"is {fields.kind}; it must be {KIND}"),))
    endpoints = {each.name: read_endpoint(each, fields.now) for each in fields.endpoints}
    if len(endpoints) < len(fields.endpoints):
        raise ConfigError((ConfigProblem(source, 0, "endpoints", "two endpoints have one name"),))
    for each in fields.sent:
        if each.endpoint not in endpoints:
            raise ConfigError((ConfigProblem(source, 0, "sent", f"no endpoint is named {each.endpoint}"),))
    sent = tuple((_request(each.request), endpoints[each.endpoint]) for each in fields.sent)
    return PoolState(fields.now, tuple(endpoints.values()), sent)


def decode_request(text: str | bytes, source: str = "request") -> Request:
    return _request(_read(text, source, RequestState))


def _read(text: str | bytes, source: str, wanted: type[_F]) -> _F:
    documents = parse_documents(text.encode() if isinstance(text, str) else text, source=source)
    if len(documents) != 1:
        raise ConfigError((ConfigProblem(source, 0, "", f"has {len(documents)} documents; there must be one"),))
    try:
        return msgspec.convert(documents[0].value, wanted)
    except msgspec.ValidationError as error:
        raise ConfigError((ConfigProblems(documents[0], source).decode_error((), error),)) from error


def write_exactly(endpoint: Endpoint) -> EndpointState:
    """An endpoint with the exact time of its scrape: `read_endpoint` reads it back to the last bit."""
    found, scraped_s = _written(endpoint, 0.0), endpoint.metrics.scraped_s
    if scraped_s < 0.0:
        return found
    return msgspec.structs.replace(found, load=msgspec.structs.replace(found.load, age=0.0, seen=scraped_s))


def _written(endpoint: Endpoint, now_s: float) -> EndpointState:
    metrics = endpoint.metrics
    adapters = AdaptersState(
        running=tuple(sorted(metrics.adapters.running)),
        waiting=tuple(sorted(metrics.adapters.waiting)),
        most=metrics.adapters.most,
    )
    return EndpointState(
        name=endpoint.name,
        address=endpoint.address,
        labels=dict(endpoint.labels),
        attributes={name: value for name, value in endpoint.attributes.items() if isfinite(value)},
        load=LoadState(
            waiting=metrics.waiting,
            running=metrics.running,
            kv_use=metrics.kv_cache_usage,
            block_size=metrics.block_size,
            blocks=metrics.blocks,
            adapters=_NO_ADAPTERS if adapters == _NO_ADAPTERS else adapters,
            models=tuple(sorted(metrics.models)),
            age=None if metrics.scraped_s < 0.0 else now_s - metrics.scraped_s,
            requests_then=_unless(metrics.requests_at_scrape, endpoint.requests_in_flight),
            tokens_then=_unless(metrics.tokens_at_scrape, endpoint.tokens_in_flight),
            refused_scrapes=metrics.refused_scrapes,
        ),
        requests_in_flight=endpoint.requests_in_flight,
        tokens_in_flight=endpoint.tokens_in_flight,
        failures=endpoint.failures,
    )


def _unless(count: int, usual: int) -> int | None:
    return None if count == usual else count


def read_endpoint(state: EndpointState, now_s: float) -> Endpoint:
    load = state.load
    scraped_s = load.seen if load.seen is not None else -1.0 if load.age is None else now_s - load.age
    adapters = Adapters(frozenset(load.adapters.running), frozenset(load.adapters.waiting), load.adapters.most)
    return Endpoint(
        state.name,
        state.address,
        state.labels,
        state.attributes,
        EndpointMetrics(
            load.waiting, load.running, load.kv_use, load.block_size, load.blocks, adapters, frozenset(load.models),
            scraped_s,
            state.requests_in_flight if load.requests_then is None else load.requests_then,
            state.tokens_in_flight if load.tokens_then is None else load.tokens_then,
            load.refused_scrapes,
        ),
        state.requests_in_flight,
        state.tokens_in_flight,
        state.failures,
    )  # fmt: skip


def _request(state: RequestState) -> Request:
    prompts = tuple(prompt.encode() for prompt in state.prompts)
    return Request(
        state.id,
        state.model,
        state.api,
        prompts,
        {name.lower(): value for name, value in state.headers.items()},
        state.priority,
        state.tenant,
        size=sum(map(len, prompts)),
        max_output_tokens=state.max_output_tokens,
        streaming=state.streaming,
        salt=state.salt,
        has_media=state.has_media,
        subset=state.subset,
        ttft_goal_s=state.ttft_goal,
        tpot_goal_s=state.tpot_goal,
    )
