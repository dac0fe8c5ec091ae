"""What a fuzzer's process came to is read from how it ended and what it printed."""

import pytest

from tests.fuzz.every_target import Fuzzed, judged, summary

DONE = "#9 DONE cov: 4\nstat::number_of_executed_units: 1200\nstat::peak_rss_mb: 78\n"
RAISED = " === Uncaught Python exception: ===\nKeyError: 'a'\nTraceback (most recent call last):\n"
SLOW = "==9== ERROR: libFuzzer: timeout after 11 seconds\n"


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        pytest.param(0, DONE, Fuzzed("cel", 1200), id="until the end"),
        pytest.param(77, RAISED + DONE, Fuzzed("cel", 1200, finding="KeyError: 'a'"), id="it raised"),
        pytest.param(70, SLOW, Fuzzed("cel", finding="timeout after 11 seconds"), id="it was too slow"),
        pytest.param(1, "atheris is not installed", Fuzzed("cel", finding="exit 1"), id="it did not start"),
        pytest.param(0, "", Fuzzed("cel", finding="exit 0"), id="it did nothing"),
    ],
)
def test_a_process_that_ended(code, text, expected):
    assert judged("cel", code, text) == expected


def test_the_summary_counts_what_was_found():
    fuzzed = [Fuzzed("cel", 1000, 90.0), Fuzzed("url", 234, 30.0, "ValueError")]
    assert summary(fuzzed) == "2 targets, 1234 inputs, 2.0 minutes of processor, 1 findings"
