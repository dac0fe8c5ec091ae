"""What a request asks for: from the headers and the body that the proxy shows to a `Request`.

The model and the priority follow the rules of the pool, and headers may ask for another model, a tenant and goals.
"""

import uuid
from collections.abc import Callable, Mapping
from typing import Final

from modelplane.epp.scheduling.requests import InferenceApi, Request
from modelplane.epp.server.interfaces import PoolPolicies, RequestObserver
from modelplane.epp.server.parsing import Parsed, ParseError, PathParsers, find_api, parse, rename
from modelplane.epp.server.steps import PickRequest, Rename

_OBJECTIVE: Final = ("x-llm-d-inference-objective", "x-gateway-inference-objective")
_FAIRNESS: Final = ("x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id")
_TTFT: Final = ("x-llm-d-slo-ttft-ms", "x-slo-ttft-ms")
_TPOT: Final = ("x-llm-d-slo-tpot-ms", "x-slo-tpot-ms")
_REWRITE: Final = ("x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite")
_PICKER_HEADERS: Final = frozenset((*_OBJECTIVE, *_FAIRNESS, *_TTFT, *_TPOT, *_REWRITE))
DEFAULT_TENANT: Final = "default-flow"
_MALFORMED_API: Final = Parsed()


class RequestReader:
    """Of one pool. `rules` may be set before the first request; `apis` and `parsers` change with the configuration."""

    def __init__(self, chance: Callable[[], float]) -> None:
        self.apis: frozenset[InferenceApi] | None = None
        """APIs whose bodies are parsed; None: all. With OTHER, bodies of other APIs are forwarded unparsed."""
        self.parsers: PathParsers | None = None
        """Parsers of other packages; they come before the picker's own."""
        self.rules: PoolPolicies | None = None
        self._chance = chance

    def read(
        self, pick_request: PickRequest, now_s: float, observer: RequestObserver | None = None
    ) -> tuple[Request, Rename | None]:
        """Raises ParseError for what no parser reads."""
        headers, body = pick_request.headers, pick_request.body
        api = _api(headers)
        parsed = None
        if self.parsers is not None and pick_request.whole and body:
            parsed = self.parsers.parse(_path(headers), body)
        if parsed is None:
            if body and self.apis is not None:
                api = self._readable(api)
            parsed = parse(api, body) if pick_request.whole and body else _unparsed(api, pick_request)
        if self.rules is None and _PICKER_HEADERS.isdisjoint(headers):
            return _plain_request(headers, len(body), pick_request.subset, api, parsed, now_s), None
        wanted = self._target_model(parsed.model, headers, observer)
        renamed = None
        if wanted != parsed.model and body and pick_request.whole and parsed.model:
            renamed = Rename(rename(body, wanted), parsed.model, wanted)
        return self._request_for(wanted, pick_request, api, parsed, now_s), renamed

    def _target_model(self, model: str, headers: Mapping[str, str], observer: RequestObserver | None) -> str:
        """The model to request: a rewrite rule takes precedence over a header, a header over the body."""
        rewritten = None if self.rules is None else self.rules.rewrite(model, self._chance())
        if rewritten is None:
            return _first_header(headers, _REWRITE) or model
        if observer is not None:
            observer.rewrote(rewritten.name, model, rewritten.model, exact=rewritten.exact)
        return rewritten.model

    def _request_for(
        self, model: str, pick_request: PickRequest, api: InferenceApi, parsed: Parsed, now_s: float
    ) -> Request:
        headers = pick_request.headers
        return Request(
            _identity(headers),
            model,
            api,
            parsed.prompts,
            headers,
            0 if self.rules is None else self.rules.priorities.get(_first_header(headers, _OBJECTIVE), 0),
            _first_header(headers, _FAIRNESS) or DEFAULT_TENANT,
            len(pick_request.body),
            parsed.max_output_tokens,
            parsed.streaming,
            parsed.salt,
            parsed.has_media,
            pick_request.subset,
            _seconds(_first_header(headers, _TTFT)),
            _seconds(_first_header(headers, _TPOT)),
            now_s,
        )

    def _readable(self, api: InferenceApi) -> InferenceApi:
        if self.apis is None or api in self.apis:
            return api
        if InferenceApi.OTHER in self.apis:
            return InferenceApi.OTHER
        raise ParseError("no parser is configured for this path")


def _plain_request(
    headers: Mapping[str, str],
    size: int,
    subset: tuple[str, ...] | None,
    api: InferenceApi,
    parsed: Parsed,
    now_s: float,
) -> Request:
    """A request without headers for the picker, as most are."""
    return Request(
        _identity(headers),
        parsed.model,
        api,
        parsed.prompts,
        headers,
        fairness_id=DEFAULT_TENANT,
        size=size,
        max_output_tokens=parsed.max_output_tokens,
        streaming=parsed.streaming,
        salt=parsed.salt,
        has_media=parsed.has_media,
        subset=subset,
        received_s=now_s,
    )


def _unparsed(api: InferenceApi, pick_request: PickRequest) -> Parsed:
    """A request whose body the proxy keeps, or that has none."""
    if pick_request.whole and pick_request.headers.get(":method") == "POST":
        return parse(api, pick_request.body)
    return _MALFORMED_API


def unread_request(pick_request: PickRequest, now_s: float) -> Request:
    """A request whose body was not parsed."""
    fairness_id = _first_header(pick_request.headers, _FAIRNESS) or DEFAULT_TENANT
    return Request(
        _identity(pick_request.headers),
        api=_api(pick_request.headers),
        fairness_id=fairness_id,
        size=len(pick_request.body),
        received_s=now_s,
    )


def _api(headers: Mapping[str, str]) -> InferenceApi:
    return find_api(_path(headers))


def _path(headers: Mapping[str, str]) -> str:
    return headers.get("x-original-path") or headers.get(":path", "")


def _identity(headers: Mapping[str, str]) -> str:
    return headers.get("x-request-id") or uuid.uuid4().hex


def _first_header(headers: Mapping[str, str], names: tuple[str, str]) -> str:
    return headers.get(names[0]) or headers.get(names[1], "")


def _seconds(text: str) -> float:
    """From milliseconds; None if it is not a number."""
    if not text:
        return 0.0
    try:
        value = float(text) / 1000.0
    except ValueError:
        return 0.0
    return value if 0.0 < value < float("inf") else 0.0
