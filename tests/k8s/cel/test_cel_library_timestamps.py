import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library.timestamps import (
    add_times,
    checked_duration,
    checked_timestamp,
    parse_duration,
    parse_timestamp,
    subtract_times,
    timestamp_text,
)
from modelplane.k8s.cel.values import MAX_INT, MIN_INT, CelDuration, Timestamp

SECOND = 10**9
MOMENTS = st.integers(-62135596800 * SECOND, 253402300799 * SECOND).map(Timestamp)


@given(MOMENTS)
def test_a_moment_survives_its_text(moment):
    assert parse_timestamp(timestamp_text(moment)) == moment


@given(st.datetimes(min_value=dt.datetime(1, 1, 2), max_value=dt.datetime(9999, 12, 30)))  # noqa: DTZ001  UTC is added
def test_moments_are_those_of_the_calendar(moment):
    aware = moment.replace(tzinfo=dt.UTC)
    since = aware - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert parse_timestamp(aware.isoformat()).nanos == since // dt.timedelta(microseconds=1) * 1_000


@given(MOMENTS, st.integers(-(10**17), 10**17))
def test_what_was_added_can_be_taken_away(moment, nanos):
    try:
        later = add_times(moment, CelDuration(nanos))
    except EvaluationError:
        return
    assert subtract_times(later, moment) == CelDuration(nanos)
    assert subtract_times(later, CelDuration(nanos)) == moment


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("-0", 0),
        ("1h30m", 5400 * SECOND),
        ("-1.5s", -1_500_000_000),
        ("+1us", 1_000),
        ("1µs2ns", 1_002),
        (".5m", 30 * SECOND),
        ("1.h", 3600 * SECOND),
        ("9223372036854775807ns", MAX_INT),
        ("-9223372036854775808ns", MIN_INT),
    ],
)
def test_durations(text, nanos):
    assert parse_duration(text) == CelDuration(nanos)


@pytest.mark.parametrize("text", ["", "-", "1", "1d", ".s", "1h 2m", "9223372036854775808ns", "h", "1hh", "--1s"])
def test_texts_that_are_no_duration(text):
    with pytest.raises(EvaluationError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "2020-01-01", "2020-13-01T00:00:00Z", "2021-02-29T00:00:00Z", "2020-01-01T24:00:00Z"),
        *("2020-01-01T00:00:60Z", "2020-01-01T00:00:00", "2020-01-01 00:00:00Z", "0000-01-01T00:00:00Z"),
    ],
)
def test_texts_that_are_no_moment(text):
    with pytest.raises(EvaluationError):
        parse_timestamp(text)


@pytest.mark.parametrize("nanos", [-62135596801 * SECOND, 253402300800 * SECOND])
def test_moments_outside_the_calendar(nanos):
    with pytest.raises(EvaluationError, match="overflow"):
        checked_timestamp(nanos)


@pytest.mark.parametrize("nanos", [MIN_INT - 1, MAX_INT + 1])
def test_durations_beyond_int64(nanos):
    with pytest.raises(EvaluationError, match="overflow"):
        checked_duration(nanos)
