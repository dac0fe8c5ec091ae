"""Timestamps and durations: arithmetic, texts and getters.

A timestamp lies between the years 1 and 9999 and a duration within 2**63 nanoseconds; leaving either range is an
error. Getters answer in UTC unless a zone is named; the zones known are those of the machine's time zone database.
"""

import datetime as dt
import re
from collections.abc import Callable
from functools import lru_cache
from zoneinfo import ZoneInfo

from modelplane.k8s.cel.declarations import Overload, overload
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.values import MAX_INT, MIN_INT, CelDuration, Timestamp, no_overload

_SECOND = 10**9
_MIN_SECONDS, _MAX_SECONDS = -62135596800, 253402300799
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_DURATION_PART = re.compile(r"([0-9]*)(?:(\.)([0-9]*))?([^0-9.]+)")
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(Z|([+-])([0-9]{2}):([0-9]{2}))",
    re.ASCII,
)
_MAX_PART = 2**63
_MAX_ZONES = 128
_LONGEST_ZONE = 255


def parse_duration(text: str) -> CelDuration:
    """A duration such as `1h30m` or `-1.5s`."""
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return CelDuration(0)
    total, position = 0, 0
    while position < len(rest):
        match = _DURATION_PART.match(rest, position)
        if match is None:
            raise _bad("duration", text)
        total += _duration_part(match, text)
        if total > _MAX_PART:
            raise _bad("duration", text)
        position = match.end()
    nanos = -total if text[:1] == "-" else total
    if not rest or nanos > MAX_INT:
        raise _bad("duration", text)
    return CelDuration(nanos)


def _duration_part(match: re.Match[str], text: str) -> int:
    whole, _, fraction, unit_name = match.groups()
    unit = _UNITS.get(unit_name)
    if unit is None or not (whole or fraction) or len(whole.lstrip("0")) > len(str(_MAX_PART)):
        raise _bad("duration", text)
    value = int(whole or "0")
    if value > _MAX_PART // unit:
        raise _bad("duration", text)
    value *= unit
    digits = (fraction or "")[:19]
    if digits.strip("0"):
        # Upstream rounds fractions through a double; so must we.
        value += int(float(int(digits)) * (float(unit) / float(10 ** len(digits))))
    return value


def _bad(kind: str, text: str) -> EvaluationError:
    return EvaluationError(f"{text[:64]!r} is not a {kind}")


def parse_timestamp(text: str) -> Timestamp:
    """A timestamp in RFC 3339."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise _bad("timestamp", text)
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    offset = _offset(match)
    try:
        time = dt.datetime(max(year, 1), month, day, hour, minute, second, tzinfo=dt.UTC)
    except ValueError:
        raise _bad("timestamp", text) from None
    if offset is None or year == 0:
        raise _bad("timestamp", text)
    fraction = int((match.group(7) or "0")[:9].ljust(9, "0"))
    return checked_timestamp((_whole_seconds(time) - offset) * _SECOND + fraction, offset)


def _offset(match: re.Match[str]) -> int | None:
    if match.group(8) == "Z":
        return 0
    hours, minutes = int(match.group(10)), int(match.group(11))
    if hours > 24 or minutes > 60:  # noqa: PLR2004  upstream's own, generous bounds
        return None
    return (hours * 60 + minutes) * (-60 if match.group(9) == "-" else 60)


def _whole_seconds(time: dt.datetime) -> int:
    span = time - _EPOCH
    return span.days * 86400 + span.seconds


def checked_timestamp(nanos: int, offset: int = 0) -> Timestamp:
    """A timestamp in the range, or the overflow error."""
    if _MIN_SECONDS <= nanos // _SECOND <= _MAX_SECONDS:
        return Timestamp(nanos, offset)
    raise EvaluationError("timestamp overflow")


def checked_duration(nanos: int) -> CelDuration:
    """A duration in the range, or the overflow error."""
    if MIN_INT <= nanos <= MAX_INT:
        return CelDuration(nanos)
    raise EvaluationError("integer overflow")


def add_times(left: object, right: object) -> object:
    """The sum of durations, or of a timestamp and a duration."""
    if isinstance(left, CelDuration) and isinstance(right, CelDuration):
        return checked_duration(left.nanos + right.nanos)
    if isinstance(left, CelDuration):
        left, right = right, left
    if isinstance(left, Timestamp) and isinstance(right, CelDuration):
        return checked_timestamp(left.nanos + right.nanos, left.offset)
    raise no_overload("_+_", left, right)


def subtract_times(left: object, right: object) -> object:
    """The difference of durations or of timestamps, or a timestamp before another."""
    if isinstance(left, CelDuration) and isinstance(right, CelDuration):
        return checked_duration(left.nanos - right.nanos)
    if isinstance(left, Timestamp) and isinstance(right, Timestamp):
        # Upstream scales the whole seconds first, so the range is a little narrower than the result's.
        checked_duration((left.nanos // _SECOND - right.nanos // _SECOND) * _SECOND)
        return checked_duration(left.nanos - right.nanos)
    if isinstance(left, Timestamp) and isinstance(right, CelDuration):
        return checked_timestamp(left.nanos - checked_duration(-right.nanos).nanos * -1, left.offset)
    raise no_overload("_-_", left, right)


def duration_text(duration: CelDuration) -> str:
    """The seconds in the shortest decimal form, such as `1.5s`."""
    seconds = _go_seconds(duration.nanos)
    text = repr(seconds)
    if "e" in text:
        text = f"{seconds:.20f}".rstrip("0")
    return text.removesuffix(".0").rstrip(".") + "s"


def _go_seconds(nanos: int) -> float:
    whole, rest = divmod(abs(nanos), _SECOND)
    seconds = float(whole) + float(rest) / 1e9
    return -seconds if nanos < 0 else seconds


def timestamp_text(time: Timestamp) -> str:
    """RFC 3339 in the offset the timestamp was written with, fractions without trailing zeros."""
    seconds, nanos = divmod(time.nanos, _SECOND)
    civil = _EPOCH + dt.timedelta(seconds=seconds + time.offset)
    text = f"{civil.year:04d}-{civil.month:02d}-{civil.day:02d}T{civil.hour:02d}:{civil.minute:02d}:{civil.second:02d}"
    if nanos:
        text += f".{nanos:09d}".rstrip("0")
    if time.offset == 0:
        return text + "Z"
    minutes = abs(time.offset) // 60
    return f"{text}{'-' if time.offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def _civil(time: Timestamp, zone: str | None) -> dt.datetime:
    seconds = time.nanos // _SECOND
    if zone is None or zone in {"", "UTC"}:
        return _EPOCH + dt.timedelta(seconds=seconds)
    hours, colon, minutes = zone.partition(":")
    if colon:
        return _shifted(seconds, _fixed_offset(zone, hours, minutes))
    try:
        return (_EPOCH + dt.timedelta(seconds=seconds)).astimezone(_zone(zone))
    except (KeyError, OverflowError):
        raise EvaluationError(f"unknown time zone {zone[:64]!r}") from None


@lru_cache(maxsize=_MAX_ZONES)
def _known_zone(name: str) -> ZoneInfo | None:
    """The zone of that name, or None; the lookup of an unknown name reads directories."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def _zone(name: str) -> ZoneInfo:
    zone = _known_zone(name) if len(name) <= _LONGEST_ZONE else None
    if zone is None:
        raise KeyError(name)
    return zone


def _fixed_offset(zone: str, hours: str, minutes: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,6}", hours) or not re.fullmatch(r"[+-]?[0-9]{1,6}", minutes):
        raise EvaluationError(f"unknown time zone {zone[:64]!r}")
    whole = int(hours) * 60
    return (whole - int(minutes) if zone[0] == "-" else whole + int(minutes)) * 60


def _shifted(seconds: int, offset: int) -> dt.datetime:
    try:
        return _EPOCH + dt.timedelta(seconds=seconds + offset)
    except OverflowError:
        raise EvaluationError("the time zone shifts the timestamp out of range") from None


def _getter(read: Callable[[dt.datetime], int]) -> Callable[..., int]:
    def get(time: Timestamp, zone: str | None = None) -> int:
        return read(_civil(time, zone))

    return get


def _milliseconds(time: Timestamp, zone: str | None = None) -> int:
    _civil(time, zone)
    return time.nanos % _SECOND // 10**6


_get_year = _getter(lambda civil: civil.year)
_get_month = _getter(lambda civil: civil.month - 1)
_get_day_of_year = _getter(lambda civil: civil.timetuple().tm_yday - 1)
_get_day_of_month = _getter(lambda civil: civil.day - 1)
_get_date = _getter(lambda civil: civil.day)
_get_day_of_week = _getter(lambda civil: civil.isoweekday() % 7)
_get_hours = _getter(lambda civil: civil.hour)
_get_minutes = _getter(lambda civil: civil.minute)
_get_seconds = _getter(lambda civil: civil.second)


def _in_units(unit: int) -> Callable[[CelDuration], int]:
    def get(duration: CelDuration) -> int:
        whole = abs(duration.nanos) // unit
        return -whole if duration.nanos < 0 else whole

    return get


def _timestamp_getters() -> list[Overload]:
    getters: tuple[tuple[str, str, Callable[..., int]], ...] = (
        ("getFullYear", "year", _get_year),
        ("getMonth", "month", _get_month),
        ("getDayOfYear", "day_of_year", _get_day_of_year),
        ("getDayOfMonth", "day_of_month", _get_day_of_month),
        ("getDate", "day_of_month_1_based", _get_date),
        ("getDayOfWeek", "day_of_week", _get_day_of_week),
        ("getHours", "hours", _get_hours),
        ("getMinutes", "minutes", _get_minutes),
        ("getSeconds", "seconds", _get_seconds),
        ("getMilliseconds", "milliseconds", _milliseconds),
    )
    found: list[Overload] = []
    for name, key, body in getters:
        found += (
            overload(f"timestamp_to_{key}", f"timestamp.{name}() -> int", body),
            overload(f"timestamp_to_{key}_with_tz", f"timestamp.{name}(string) -> int", body),
        )
    return found


FUNCTIONS: tuple[Overload, ...] = (
    *_timestamp_getters(),
    overload("duration_to_hours", "duration.getHours() -> int", _in_units(3600 * _SECOND)),
    overload("duration_to_minutes", "duration.getMinutes() -> int", _in_units(60 * _SECOND)),
    overload("duration_to_seconds", "duration.getSeconds() -> int", _in_units(_SECOND)),
    overload("duration_to_milliseconds", "duration.getMilliseconds() -> int", _in_units(10**6)),
)
