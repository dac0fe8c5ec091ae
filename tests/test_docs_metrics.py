"""The page of metrics lists exactly those of the code."""

import re
from pathlib import Path

import pytest

from tests.support import metric_table
from tests.support.metric_table import MetricRow

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "metrics.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
TABLES = {
    "The fleet": metric_table.fleet,
    "The embedded plane": metric_table.plane,
    "The function server": metric_table.function_server,
    "The fleet router": metric_table.router,
    "The picker": metric_table.picker,
}


def documented(section):
    cells = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| `")
    ]
    return [
        MetricRow(name.strip("`"), kind, tuple(labels.split(", ")) if labels != "-" else (), meaning)
        for name, kind, labels, meaning in cells
    ]


@pytest.mark.parametrize("title", TABLES)
def test_a_table_is_that_of_the_code(title):
    rows = documented(SECTIONS[title])
    assert all(row.meaning for row in rows)
    expected = TABLES[title]()
    said = {row.name: row.meaning for row in rows}
    assert rows == [row if row.meaning else row._replace(meaning=said.get(row.name, "")) for row in expected]


def test_no_metric_is_there_twice():
    names = [row.name for row in metric_table.all_rows()]
    assert len(names) == len(set(names)) > 80
