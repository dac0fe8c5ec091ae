import pytest

from modelplane.api.errors import InputError
from modelplane.epp.server.line_log import open_line_log


def test_lines_are_added_and_there_at_once(tmp_path):
    path = tmp_path / "log"
    path.write_text("before\n")
    open_line_log("--usage-log", str(path))(b"after\n")
    assert path.read_text() == "before\nafter\n"


def test_a_file_that_cannot_be_opened_names_its_flag(tmp_path):
    with pytest.raises(InputError, match=r"^--usage-log .*: Is a directory$"):
        open_line_log("--usage-log", str(tmp_path))
