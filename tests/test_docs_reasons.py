"""Every reason is explained in the documentation, in the words of the code."""

from pathlib import Path

from modelplane.api.reasons import Reason

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reasons.md"


def test_the_page_lists_exactly_the_reasons_of_the_code():
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    documented = {row[1].strip().strip("`"): row[2].strip() for row in rows}
    assert documented == {reason.value: reason.meaning for reason in Reason}
