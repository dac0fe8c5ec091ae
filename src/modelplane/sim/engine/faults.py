"""Injected faults of an engine.

Faults come from the configuration, from `POST /sim/faults` while it runs, and from the header `x-sim-fault` of one
request. Whether a request is hit by a rate is a function of the seed, the pod and the number of the request, so a run
with the same seed and the same order of requests fails in the same places.

The header is a list of `name` or `name=value`:

    error=503     respond with this status instead (400 to 599)
    delay=1.5     wait so many seconds before anything else
    drip=0.2      send one token every so many seconds, however fast the engine is
    cut=5         send five tokens of a stream, then drop the connection; a full response is dropped unsent
    hang          accept the request and never respond
    crash         drop every connection and stop listening, as a process that was killed
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated

import msgspec
from msgspec import Meta

from modelplane.sim.engine import errors

HEADER = "x-sim-fault"

_Rate = Annotated[float, Meta(ge=0, le=1)]
_Seconds = Annotated[float, Meta(ge=0, le=3600)]
_Status = Annotated[int, Meta(ge=400, le=599)]


class Faults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Faults of an engine: rates are shares of requests from 0 to 1.

    `crash_after` ends the engine with that request, counted from its start; `stalled` freezes its steps: requests are
    accepted and health is fine, but no token comes, as when a GPU hangs.
    """

    error_rate: _Rate = 0.0
    error_status: _Status = 503
    delay_rate: _Rate = 0.0
    delay_s: _Seconds = 1.0
    cut_rate: _Rate = 0.0
    cut_after: Annotated[int, Meta(ge=0)] = 3
    hang_rate: _Rate = 0.0
    crash_rate: _Rate = 0.0
    crash_after: Annotated[int, Meta(ge=1)] | None = None
    stalled: bool = False


NO_FAULTS = Faults()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFault:
    """The fault of one request."""

    error: int | None = None
    delay_s: float = 0.0
    drip_s: float = 0.0
    cut_after: int | None = None
    hang: bool = False
    crash: bool = False


NO_FAULT = RequestFault()


def draw(faults: Faults, *, identity: str, number: int) -> RequestFault:
    """The fault of request `number` on this engine."""
    if faults is NO_FAULTS:
        return NO_FAULT

    def hit(name: str, rate: float) -> bool:
        return rate > 0 and _unit(f"{identity}/{number}/{name}") < rate

    return RequestFault(
        error=faults.error_status if hit("error", faults.error_rate) else None,
        delay_s=faults.delay_s if hit("delay", faults.delay_rate) else 0.0,
        cut_after=faults.cut_after if hit("cut", faults.cut_rate) else None,
        hang=hit("hang", faults.hang_rate),
        crash=number == faults.crash_after or hit("crash", faults.crash_rate),
    )


def read_header(text: str) -> RequestFault:
    """The fault in the header of a request."""
    given: dict[str, object] = {}
    for entry in text.split(","):
        name, _, value = entry.strip().partition("=")
        reader = _READERS.get(name)
        if reader is None:
            raise errors.invalid_header(HEADER, f"{name!r} is not one of {', '.join(sorted(_READERS))}")
        field, read = reader
        try:
            given[field] = read(value)
        except (ValueError, msgspec.ValidationError):
            raise errors.invalid_header(HEADER, f"{name}: {value!r} is not a valid value") from None
    return RequestFault(**given)  # type: ignore[arg-type]  # each reader returns the type of its field


def read_faults(body: bytes) -> Faults:
    """A whole set of faults from JSON; what is not named does not happen."""
    try:
        return msgspec.json.decode(body or b"{}", type=Faults)
    except msgspec.ValidationError as error:
        raise errors.invalid_field(None, str(error)) from None
    except msgspec.DecodeError as error:
        raise errors.malformed(str(error)) from None


def read_list(text: str) -> Faults:
    """Faults as `name=value,...`, the format of annotations and command lines; a bare name is true.

    Raises ValueError with a sentence.
    """
    entries = (entry.strip().partition("=") for entry in text.split(",") if entry.strip())
    given = {name.strip(): value.strip() if equals else "true" for name, equals, value in entries}
    try:
        return msgspec.convert(given, Faults, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"{text!r} is not a list of faults: {error}") from None


def _flag(value: str) -> bool:
    if value:
        raise ValueError(value)
    return True


def _seconds(value: str) -> float:
    return msgspec.convert(float(value), _Seconds)


_READERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "error": ("error", lambda value: msgspec.convert(int(value), _Status)),
    "delay": ("delay_s", _seconds),
    "drip": ("drip_s", _seconds),
    "cut": ("cut_after", lambda value: msgspec.convert(int(value), Annotated[int, Meta(ge=0)])),
    "hang": ("hang", _flag),
    "crash": ("crash", _flag),
}


def _unit(material: str) -> float:
    """A deterministic pseudo-random number from 0 to 1."""
    return int.from_bytes(blake2b(material.encode(), digest_size=8).digest(), "big") / 2**64
