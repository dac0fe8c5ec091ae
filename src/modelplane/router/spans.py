"""Spans of the fleet router: one for each attempt of a request whose caller is traced."""

from collections.abc import Mapping
from typing import Final

from modelplane.epp.server.observe.request_spans import RequestSpan, RequestSpans, spans_of
from modelplane.router.front_values import FrontRequest, RoutedTo, RouterAnswer

SERVICE_NAME: Final = "modelplane-router"
NAME: Final = "router.request"
_OK: Final = 200


class RouterSpans:
    def __init__(self, spans: RequestSpans) -> None:
        self._spans = spans

    def routed(self, routed: RoutedTo, status: int) -> None:
        """A request that was sent on has ended. It had no response where the status is 0."""
        request = routed.request
        attributes: dict[str, str | int] = {
            "gen_ai.request.id": request.id,
            "gen_ai.request.model": request.model,
            "modelplane.service": request.service.key,
            "modelplane.endpoint": routed.member.plan.key,
            "modelplane.outcome": routed.attempt.outcome,
            "modelplane.attempt": routed.attempt.number,
        }
        self._spans.record(request.headers, RequestSpan(NAME, routed.attempt.at_s, attributes, status))

    def answered(self, request: FrontRequest, answer: RouterAnswer, began_s: float) -> None:
        """The router answered itself."""
        refusal = answer.refusal
        status = _OK if refusal is None else refusal.outcome.status
        outcome = "answered" if refusal is None else refusal.outcome.title
        self._spans.record(request.headers, RequestSpan(NAME, began_s, {"modelplane.outcome": outcome}, status))

    def close(self) -> None:
        self._spans.close()


def router_spans(environment: Mapping[str, str]) -> RouterSpans | None:
    """None where OpenTelemetry's variables name no endpoint."""
    spans = spans_of(SERVICE_NAME, environment)
    return RouterSpans(spans) if spans is not None else None
