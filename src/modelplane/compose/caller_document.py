"""What the callers of a gateway may do, as the fleet router reads it: `callers.json` beside the plans.

The gateway checks keys and names the caller to the router, so the document that is made here has no key in it, and
`checksKeys` is false. A router without such a gateway before it gets digests of keys and checks them itself.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from modelplane.api.models import CallerLimits, InferenceGateway

_NO_BUDGET: Final = 0.0
"""One object: a default is left out of a document by its identity."""


class Caller(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """One identity. 0 is no limit."""

    name: str
    digests: tuple[str, ...] = ()
    """SHA-256 of each of its keys, in hexadecimal."""
    services: tuple[str, ...] = ("*",)
    """`NAMESPACE/SERVICE`, `NAMESPACE/*` or `*`."""
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    budget: float = _NO_BUDGET
    """The money it may spend in a calendar month, in the currency of the prices."""

    def may_call(self, service: str) -> bool:
        namespace = service.partition("/")[0]
        return any(allowed in {"*", service, f"{namespace}/*"} for allowed in self.services)


class CallerDocument(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The callers of a gateway. With `checksKeys` a request without a known key is refused."""

    callers: tuple[Caller, ...] = ()
    checks_keys: bool = True

    @property
    def restricts(self) -> bool:
        """Whether some caller may not call every service."""
        return any("*" not in caller.services for caller in self.callers)


def gateway_callers(gateway: InferenceGateway, names: Iterable[str]) -> CallerDocument:
    """The callers of these names, with what the gateway says of them. Without `auth` there are none."""
    auth = gateway.spec.auth
    said = {each.name: each for each in auth.callers} if auth is not None else {}
    known = sorted(set(names)) if auth is not None else ()
    return CallerDocument(tuple(_caller(name, said.get(name)) for name in known), checks_keys=False)


def _caller(name: str, said: CallerLimits | None) -> Caller:
    if said is None:
        return Caller(name)
    return Caller(
        name,
        services=said.services or ("*",),
        requests_per_minute=said.requests_per_minute or 0,
        tokens_per_minute=said.tokens_per_minute or 0,
        budget=float(said.monthly_budget) if said.monthly_budget else _NO_BUDGET,
    )


def write_callers(document: CallerDocument) -> bytes:
    """As the router reads it."""
    return msgspec.json.encode(document, order="deterministic")
