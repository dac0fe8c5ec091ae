import pytest

from modelplane.compose.durations import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"), [("300s", 300), ("0s", 0), ("1h30m", 5400), ("500ms", 0.5), ("1m2s3ms", 62.003)]
)
def test_durations_of_the_gateway_api(text, seconds):
    assert seconds_of(text) == pytest.approx(seconds)
