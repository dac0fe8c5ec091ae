"""A request on its way through the router's plugins: the picker's request, with its service and its rules."""

from collections.abc import Mapping
from typing import Final

from modelplane.epp.scheduling.parsed import Parsed
from modelplane.epp.scheduling.requests import InferenceApi, Request
from modelplane.router.catalog import RoutedService
from modelplane.router.residency import Residency


class RoutedRequest(Request):
    """What the router's own plugins read besides what the picker's do."""

    __slots__ = ("adapter", "attempts_left", "residency", "service", "tried")

    def __init__(  # noqa: PLR0913, PLR0917  a record
        self,
        identity: str,
        api: InferenceApi,
        headers: Mapping[str, str],
        size: int,
        parsed: Parsed,
        received_s: float,
        service: RoutedService,
        residency: Residency | None = None,
        tried: frozenset[str] = frozenset(),
        attempts_left: int = 0,
        adapter: str = "",
    ) -> None:
        super().__init__(
            identity,
            parsed.model,
            api,
            parsed.prompts,
            headers,
            size=size,
            max_output_tokens=parsed.max_output_tokens,
            streaming=parsed.streaming,
            salt=parsed.salt,
            has_media=parsed.has_media,
            received_s=received_s,
        )
        self.service: Final = service
        self.residency: Final = residency
        self.tried: Final = tried
        """Endpoints that earlier attempts of this request went to."""
        self.attempts_left: Final = attempts_left
        """How many may follow this one."""
        self.adapter: Final = adapter
        """The adapter that the request asks for."""
