"""Every figure of the page on sizing is in the source that its row names."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "sizing.md").read_text()
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.startswith("| ")]
FIGURES = [row for row in ROWS if row[2] != "source"]
MEASURED = {row["id"]: row for row in json.loads((ROOT / "bench" / "results.json").read_text())["rows"]}


def test_there_are_figures_of_both_sorts():
    kinds = {source.startswith("results.json") for _, _, source in FIGURES}
    assert (kinds, len(FIGURES) > 25) == ({True, False}, True)


@pytest.mark.parametrize("row", FIGURES, ids=lambda row: row[0])
def test_a_figure_is_in_its_source(row):
    _, value, source = row
    if source.startswith("results.json"):
        found = MEASURED[re.search(r"`([^`]+)`", source)[1]]
        number, _, unit = value.partition(" ")
        assert (float(number), found["unit"].startswith(unit)) == (found["value"], True)
    else:
        page = ROOT / "docs" / re.search(r"\(([^)]+)\)", source)[1]
        assert value in page.read_text()
