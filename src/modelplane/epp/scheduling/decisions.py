"""What was decided for a request, and what the proxy gets.

A plain class where others are structs: the request path reads it some twenty times, which compiled code does without a
lookup (design/0005-compiled-picker.md). Nothing changes one that was made.
"""

from typing import Any, Final

from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import Outcome

_FIELDS: Final = (
    "outcome", "groups", "profile", "others", "set_headers", "remove_headers", "response_headers", "addresses",
    "shadows", "why", "cached_tokens",
)  # fmt: skip


class Decision:
    """The decision for one request."""

    __slots__ = _FIELDS

    def __init__(  # noqa: PLR0913, PLR0917  a record, written with names where it is long
        self,
        outcome: Outcome,
        groups: tuple[tuple[Endpoint, ...], ...] = (),
        profile: str = "",
        others: tuple[tuple[str, tuple[Endpoint, ...]], ...] = (),
        set_headers: tuple[tuple[str, str], ...] = (),
        remove_headers: tuple[str, ...] = (),
        response_headers: tuple[tuple[str, str], ...] = (),
        addresses: tuple[str, ...] = (),
        shadows: tuple[tuple[str, tuple[Endpoint, ...]], ...] = (),
        why: str = "",
        cached_tokens: int = 0,
    ) -> None:
        self.outcome: Final = outcome
        self.groups: Final = groups
        """Best group first; endpoints of a group are equal, in the picker's order. The proxy gets them all in this
        order, and falls back along it.
        """
        self.profile: Final = profile
        """The primary profile."""
        self.others: Final = others
        """Picks of the further profiles, by profile: `prefill`, `encode`, …"""
        self.set_headers: Final = set_headers
        self.remove_headers: Final = remove_headers
        self.response_headers: Final = response_headers
        """For the client, with the response."""
        self.addresses: Final = addresses
        """The addresses for the proxy, if they are not those of the endpoints."""
        self.shadows: Final = shadows
        """The picks of shadow profiles; empty if one picked nothing."""
        self.why: Final = why
        """One sentence for the client and the log where nothing was picked."""
        self.cached_tokens: Final = cached_tokens
        """Prompt tokens that the first choice has cached; set when the request is sent."""

    def changed(self, **fields: Any) -> "Decision":  # noqa: ANN401  of the types that they have above
        """The same but for these fields."""
        return Decision(**{name: getattr(self, name) for name in _FIELDS} | fields)

    def sent(self, cached_tokens: int) -> "Decision":
        """The same, with what is cached where it is sent to: nearly every request has that."""
        return Decision(
            self.outcome, self.groups, self.profile, self.others, self.set_headers, self.remove_headers,
            self.response_headers, self.addresses, self.shadows, self.why, cached_tokens,
        )  # fmt: skip

    @property
    def picked(self) -> Endpoint:
        """The first choice. Only where the outcome is PICKED."""
        return self.groups[0][0]

    @property
    def destinations(self) -> str:
        """The value of the destination header and metadata."""
        if self.addresses:
            return ",".join(self.addresses)
        return ",".join([endpoint.address for group in self.groups for endpoint in group])

    def __repr__(self) -> str:
        return f"Decision({', '.join(f'{name}={getattr(self, name)!r}' for name in _FIELDS)})"
