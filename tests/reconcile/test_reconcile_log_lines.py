"""Log lines as programs read them."""

import json
import logging
import subprocess
import sys

import pytest

from modelplane.epp.server.observe.json_lines import PickerJsonLines
from modelplane.reconcile.log_lines import JsonLines, about, fields


def line(form, *args, **more):
    record = logging.getLogger("x").makeRecord("x", logging.ERROR, "f.py", 1, "%s is lost", args, None, **more)
    return json.loads(form.format(record))


@pytest.mark.parametrize("form", [JsonLines(), PickerJsonLines()])
def test_a_line_about_an_object_names_it_and_the_reason(form):
    found = line(form, "east", extra=about("InferenceCluster east", "ClusterLost"))
    assert (found["level"], found["msg"]) == ("error", "east is lost")
    assert (found["object"], found["reason"]) == ("InferenceCluster east", "ClusterLost")


@pytest.mark.parametrize("form", [JsonLines(), PickerJsonLines()])
def test_what_json_does_not_know_is_written_as_text(form):
    assert line(form, "east", extra=fields(error=ValueError("no")))["error"] == "no"


PROGRAM = """
import logging
from modelplane.reconcile.log_lines import about, log_to_stderr
log_to_stderr({form!r}, logging.INFO)
logging.getLogger("a").warning("gone", extra=about("Pod a/b", "Gone"))
logging.getLogger("a").debug("not written")
"""


@pytest.mark.parametrize(("form", "is_json"), [(None, True), ("json", True), ("text", False)])
def test_where_nobody_watches_a_terminal_lines_are_json(form, is_json):
    ran = subprocess.run([sys.executable, "-c", PROGRAM.format(form=form)], capture_output=True, text=True, check=True)
    (written,) = ran.stderr.splitlines()
    if is_json:
        assert json.loads(written).items() >= {"msg": "gone", "object": "Pod a/b", "reason": "Gone"}.items()
    else:
        assert written.endswith("WARNING a gone")
