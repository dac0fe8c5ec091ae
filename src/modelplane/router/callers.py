"""Who calls, what they may call, and how much: identities by key, limits by requests and tokens, budgets in money.

Keys are kept as SHA-256 digests only. A document of callers replaces the one before without a restart, and what was
counted for a caller stays with its name. Limits are allowances that hold a minute's worth. Tokens are known when a
response ends, so a caller may go over by what is in flight, and then waits until the bucket is positive again. Each
router counts what passes it.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from modelplane.compose.caller_document import Caller, CallerDocument
from modelplane.router.headers import CALLER, KEYS
from modelplane.router.refusals import FrontOutcome, FrontRefusal

_MINUTE_S: Final = 60.0
_BEARER: Final = "bearer "
_ANYONE: Final = "anonymous"
_EVERY: Final = "*"
_LONGEST_KEY: Final = 4096
_LONGEST_WAIT_S: Final = 3600


class MinuteAllowance:
    """A limit a minute: full at the beginning, refilled all the time, and in debt after more was used than known."""

    __slots__ = ("_at_s", "_left", "_limit")

    def __init__(self, limit: int, now_s: float) -> None:
        self._limit = limit
        self._left = float(limit)
        self._at_s = now_s

    def resize(self, limit: int) -> None:
        self._left += limit - self._limit
        self._limit = limit

    def wait_s(self, now_s: float, wanted: float = 1.0) -> float:
        """How long until there is enough; 0 where there is, and where there is no limit."""
        if not self._limit:
            return 0.0
        self._refill(now_s)
        return max(0.0, (wanted - self._left) / self._limit * _MINUTE_S)

    def use(self, now_s: float, amount: float) -> None:
        self._refill(now_s)
        self._left -= amount

    def _refill(self, now_s: float) -> None:
        elapsed_s, self._at_s = max(0.0, now_s - self._at_s), now_s
        self._left = min(float(self._limit), self._left + elapsed_s / _MINUTE_S * self._limit)


class CallerMeter:
    """What one caller used."""

    __slots__ = ("month", "requests", "spent", "tokens")

    def __init__(self, caller: Caller, now_s: float) -> None:
        self.requests = MinuteAllowance(caller.requests_per_minute, now_s)
        self.tokens = MinuteAllowance(caller.tokens_per_minute, now_s)
        self.month = ""
        self.spent = 0.0
        """Since the month began, or since this router did; `Callers.restore` adds what was spent before."""

    def spend(self, month: str, amount: float) -> None:
        if month != self.month:
            self.month, self.spent = month, 0.0
        self.spent += amount


class Callers:
    """The callers of one gateway and their meters."""

    def __init__(self, document: CallerDocument | None = None) -> None:
        self._checks = False
        self._by_digest: Mapping[str, Caller] = {}
        self._by_name: Mapping[str, Caller] = {}
        self._meters: dict[str, CallerMeter] = {}
        self._spent: dict[tuple[str, str], float] = {}
        """What callers had spent by month when the router started."""
        if document is not None:
            self.replace(document)

    @property
    def are_limited(self) -> bool:
        """Whether tokens have to be counted."""
        return bool(self._by_name)

    def replace(self, document: CallerDocument) -> None:
        self._checks = document.checks_keys
        self._by_name = {caller.name: caller for caller in document.callers}
        self._by_digest = {digest: caller for caller in document.callers for digest in caller.digests}
        self._meters = {name: meter for name, meter in self._meters.items() if name in self._by_name}
        for name, meter in self._meters.items():
            meter.requests.resize(self._by_name[name].requests_per_minute)
            meter.tokens.resize(self._by_name[name].tokens_per_minute)

    def restore(self, spent: Iterable[tuple[str, str, float]]) -> None:
        """What was spent before the router started: names, months and amounts, before the first request."""
        for name, month, amount in spent:
            self._spent[name, month] = self._spent.get((name, month), 0.0) + amount

    def spent(self, caller: Caller, month: str) -> float:
        """What the caller spent in the month."""
        meter = self._meters.get(caller.name)
        counted = meter.spent if meter is not None and meter.month == month else 0.0
        return counted + self._spent.get((caller.name, month), 0.0)

    def identify(self, headers: Mapping[str, str]) -> Caller | FrontRefusal:
        """By the key; where keys are not checked here, by the header of the gateway before this one."""
        if not self._checks:
            name = headers.get(CALLER, "") or _ANYONE
            return self._by_name.get(name) or Caller(name)
        key = key_of(headers)
        if not key:
            return FrontRefusal(FrontOutcome.UNAUTHENTICATED, "the request has no API key")
        found = self._by_digest.get(digest_of(key))
        return found or FrontRefusal(FrontOutcome.UNAUTHENTICATED, "the API key is not known")

    def admit(self, caller: Caller, service: str, month: str, now_s: float) -> FrontRefusal | None:
        """Whether the caller may send this request; one that may is counted."""
        if _EVERY not in caller.services and not caller.may_call(service):
            return FrontRefusal(FrontOutcome.FORBIDDEN, f"{caller.name} may not call {service}")
        if caller.name not in self._by_name:
            return None
        meter = self._meter(caller, now_s)
        if caller.budget and self.spent(caller, month) >= caller.budget:
            return FrontRefusal(
                FrontOutcome.OVER_BUDGET, f"{caller.name} spent its budget of {caller.budget:g} for {month}", 3600
            )
        for bucket, limit, unit in (
            (meter.requests, caller.requests_per_minute, "requests"),
            (meter.tokens, caller.tokens_per_minute, "tokens"),
        ):
            wait_s = bucket.wait_s(now_s)
            if wait_s > 0.0:
                after_s = min(_LONGEST_WAIT_S, int(wait_s) + 1)
                why = f"{caller.name} may use {limit} {unit} a minute"
                return FrontRefusal(FrontOutcome.LIMITED, why, after_s)
        meter.requests.use(now_s, 1.0)
        return None

    def used(self, caller: Caller, tokens: int, cost: float, month: str, now_s: float) -> None:
        """A request of the caller ended."""
        if caller.name in self._by_name:
            meter = self._meter(caller, now_s)
            meter.tokens.use(now_s, max(0, tokens))
            meter.spend(month, cost)

    def _meter(self, caller: Caller, now_s: float) -> CallerMeter:
        found = self._meters.get(caller.name)
        if found is None:
            found = self._meters[caller.name] = CallerMeter(caller, now_s)
        return found


def key_of(headers: Mapping[str, str]) -> str:
    """The key that a client sends as a bearer token or as x-api-key."""
    for name in KEYS:
        value = headers.get(name, "").strip()
        if name == "authorization":
            value = value[len(_BEARER) :].strip() if value[: len(_BEARER)].lower() == _BEARER else ""
        if value and len(value) <= _LONGEST_KEY:
            return value
    return ""


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
