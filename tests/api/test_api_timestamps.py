import pytest

from modelplane.api.timestamps import epoch_s, timestamp


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T00:00:10+00:00", 10.0),
        ("1970-01-01T00:00:10", 10.0),
        ("1970-01-01T01:00:10+01:00", 10.0),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_a_time_is_read_in_seconds_since_the_epoch(text, expected):
    assert epoch_s(text) == expected


def test_a_timestamp_has_whole_seconds_and_is_read_back():
    assert timestamp(1_700_000_000.9) == "2023-11-14T22:13:20Z"
    assert epoch_s(timestamp(1_700_000_000.9)) == 1_700_000_000.0
