"""Rows by words, state and page."""

import pytest

from modelplane.web.paging import ViewQuery, count_states, select
from modelplane.web.shapes import HealthCounts, RowPage

ROWS = (("east", "Ready"), ("west", "NotReady"), ("north", "Unknown"), ("south", "Deleting"), ("Eastern", "NotReady"))
ALL = HealthCounts(total=5, ready=1, not_ready=2, unknown=1, deleting=1)
CASES = [
    ("the worst first", {}, ["west", "Eastern", "north", "south", "east"], 5, ALL),
    ("a page", {"limit": 2}, ["west", "Eastern"], 5, ALL),
    ("the next", {"limit": 2, "offset": 2}, ["north", "south"], 5, ALL),
    ("behind the last", {"offset": 5}, [], 5, ALL),
    ("a state; counts are of all states", {"state": "NotReady"}, ["west", "Eastern"], 2, ALL),
    ("words, in any case", {"q": "EAST"}, ["Eastern", "east"], 2, HealthCounts(total=2, ready=1, not_ready=1)),
    ("all words", {"q": "east rn"}, ["Eastern"], 1, HealthCounts(total=1, not_ready=1)),
    ("nothing", {"q": "x"}, [], 0, HealthCounts()),
]


@pytest.mark.parametrize(
    ("query", "names", "total", "states"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_rows_that_a_query_selects(query, names, total, states):
    given = ViewQuery(**query)
    found = select(ROWS, given, words=lambda row: row[0], state=lambda row: row[1], show=lambda row: row)
    rows = tuple(next(row for row in ROWS if row[0] == name) for name in names)
    assert found == RowPage(rows=rows, offset=given.offset, limit=given.limit, total=total, states=states)


def test_a_state_that_is_not_known_counts_in_the_total():
    assert count_states(["Ready", "Odd"]) == HealthCounts(total=2, ready=1)
