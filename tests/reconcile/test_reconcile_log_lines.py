"""Log lines as programs and people read them."""

import json
import logging
import subprocess
import sys

import pytest

from modelplane.reconcile.log_lines import JsonLines, TextLines, about, because
from modelplane.reconcile.log_reasons import LogReason

LOST = LogReason.NOT_WATCHED


def record(*args, exception=None, **more):
    made = logging.getLogger("x").makeRecord("x", logging.ERROR, "f.py", 1, "%s is lost", args, exception, **more)
    made.created = 1_700_000_000.1234
    return made


@pytest.mark.parametrize(
    ("extra", "fields"),
    [
        (None, {}),
        (because(LOST), {"reason": "NotWatched"}),
        (because(LOST, error=ValueError("no")), {"reason": "NotWatched", "error": "no"}),
        (about(LOST, "InferenceCluster", "east"), {"object": "InferenceCluster/east", "reason": "NotWatched"}),
        (
            about(LOST, "Pod", "a", "team", attempts=2),
            {"object": "Pod/team/a", "reason": "NotWatched", "attempts": 2},
        ),
    ],
)
def test_a_json_line_has_level_time_logger_message_and_the_fields(extra, fields):
    whole = {"level": "error", "ts": 1_700_000_000.123, "logger": "x", "msg": "east is lost"}
    assert json.loads(JsonLines().format(record("east", extra=extra))) == {**whole, **fields}
    assert json.loads(JsonLines(worker=3).format(record("east", extra=extra))) == {**whole, "worker": 3, **fields}


def test_a_json_line_stays_one_line_with_a_traceback():
    failure = ValueError("two\nlines")
    line = JsonLines().format(record("east", exception=(ValueError, failure, None)))
    assert "\n" not in line
    assert "ValueError: two\nlines" in json.loads(line)["stacktrace"]


def test_a_line_for_people_ends_with_its_fields():
    written = TextLines(worker=3).format(record("east", extra=about(LOST, "Pod", "a", "team")))
    assert written.endswith(" ERROR x east is lost worker=3 object=Pod/team/a reason=NotWatched")


def test_each_reason_is_a_word_and_a_sentence():
    words = [reason.value for reason in LogReason]
    assert len(set(words)) == len(words) > 40
    assert [word for word in words if not (word.isalpha() and word[0].isupper())] == []
    assert [reason for reason in LogReason if not reason.meaning.endswith(".")] == []


PROGRAM = """
import logging
from modelplane.reconcile.log_lines import about, log_to_stderr
from modelplane.reconcile.log_reasons import LogReason
log_to_stderr({form!r}, logging.INFO)
logging.getLogger("a").warning("gone", extra=about(LogReason.NOT_WATCHED, "Pod", "b", "a"))
logging.getLogger("a").debug("not written")
logging.getLogger("httpx").info("not written either")
"""


@pytest.mark.parametrize(("form", "is_json"), [(None, True), ("json", True), ("text", False)])
def test_where_nobody_watches_a_terminal_lines_are_json(form, is_json):
    ran = subprocess.run([sys.executable, "-c", PROGRAM.format(form=form)], capture_output=True, text=True, check=True)
    (written,) = ran.stderr.splitlines()
    if is_json:
        fields = {"msg": "gone", "object": "Pod/a/b", "reason": "NotWatched"}
        assert json.loads(written).items() >= fields.items()
    else:
        assert written.endswith("WARNING a gone object=Pod/a/b reason=NotWatched")
