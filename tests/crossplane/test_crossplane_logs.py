"""Lines of the function server's log."""

import json
import logging

import pytest

from modelplane.crossplane.logs import JsonLines, TextLines, fields


def record(message="call refused", exception=None, **values):
    made = logging.getLogger("modelplane").makeRecord(
        "modelplane", logging.WARNING, __file__, 1, message, (), exception, extra=fields(**values)
    )
    made.created = 1_700_000_000.1234
    return made


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {}),
        ({"kind": "ModelReplica", "work_ms": 1.5}, {"kind": "ModelReplica", "work_ms": 1.5}),
        ({"error": ValueError("no")}, {"error": "no"}),
    ],
)
def test_a_json_line_has_level_message_time_and_the_fields(values, expected):
    line = JsonLines().format(record(**values))
    assert json.loads(line) == {"level": "warning", "msg": "call refused", "ts": 1_700_000_000.123, **expected}


def test_a_json_line_stays_one_line_with_a_traceback():
    failure = ValueError("two\nlines")
    line = JsonLines().format(record(exception=(ValueError, failure, None)))
    assert "\n" not in line
    assert "ValueError: two\nlines" in json.loads(line)["exception"]


def test_a_line_for_people_ends_with_its_fields():
    assert (
        TextLines()
        .format(record(kind="ModelReplica", name="a"))
        .endswith("WARNING call refused kind=ModelReplica name=a")
    )


def test_a_library_s_own_line_has_the_same_form():
    made = logging.getLogger("x").makeRecord("x", logging.INFO, __file__, 1, "%s listed", ("pods",), None)
    assert json.loads(JsonLines().format(made)).items() >= {"level": "info", "msg": "pods listed"}.items()
