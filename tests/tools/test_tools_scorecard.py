"""The scorecard says what commands printed: it can fail, and it cannot be green by having run nothing."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PASSING = "def test_one():\n    assert True\n"
FAILING = "def test_one():\n    assert True\n\ndef test_two():\n    assert False\n"
PROPERTY = """\
from hypothesis import given, settings, strategies as st

@settings(max_examples=7, database=None)
@given(st.integers())
def test_each(number):
    assert number == number
"""
CHECKS = """\
[evidence.counted]
command = "python -c 'print(\\"3 worlds, 0 failed\\")'"
figures = [
    {{ name = "worlds", pattern = '(\\d+) worlds', least = {least} }},
    {{ name = "failed", pattern = '(\\d+) failed', most = 0 }},
]
[evidence.exits]
command = "python -c 'raise SystemExit(3)'"
[evidence.long]
command = "python -c 'print(1)'"
deep = true
[evidence.tests]
tests = ["{tests}"]
figures = [{{ name = "tests", least = 1 }}]

[[check]]
number = 1
section = "S"
name = "counted"
target = "3"
evidence = ["counted"]
[[check]]
number = 2
section = "S"
name = "with a gap"
target = "3"
evidence = ["counted"]
gap = "more"
[[check]]
number = 3
section = "S"
name = "exits"
target = "0"
evidence = {exits}
[[check]]
number = 4
section = "T"
name = "tests"
target = "all"
evidence = ["tests"]
[[check]]
number = 5
section = "T"
name = "long"
target = "all"
evidence = ["counted", "long"]
[[check]]
number = 6
section = "T"
name = "nothing"
target = "all"
"""


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("scorecard_tool", ROOT / "tools" / "scorecard.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


class Card:
    """A scorecard of its own in a folder."""

    def __init__(self, tool, folder, tests, *, least=3, exits=()):
        self.tool, self.folder = tool, folder
        (folder / "test_it.py").write_text(tests)
        text = CHECKS.format(least=least, tests=folder / "test_it.py", exits=json.dumps(list(exits)))
        (folder / "checks.toml").write_text(text)

    def run(self, *flags):
        files = {"checks": "checks.toml", "results": "results.json", "page": "page.md"}
        where = [word for name, file in files.items() for word in (f"--{name}", str(self.folder / file))]
        return self.tool.main([*where, *flags])

    def verdicts(self):
        lines = [line.split(" | ") for line in (self.folder / "page.md").read_text().splitlines()]
        return {cells[1]: cells[6] for cells in lines if cells[0].removeprefix("| ").isdigit()}

    def figures(self):
        return {name: body["figure"] for name, body in json.loads((self.folder / "results.json").read_text()).items()}


@pytest.mark.submission
@pytest.mark.slow
def test_what_passes_is_green_what_lacks_something_partly_and_what_did_not_run_is_not_tried(tool, tmp_path):
    card = Card(tool, tmp_path, PROPERTY)
    assert card.run("--only", "counted,tests") == 0
    assert card.verdicts() == {
        "counted": "green",
        "with a gap": "partly",
        "exits": "not tried",
        "tests": "green",
        "long": "partly",
        "nothing": "not tried",
    }
    assert card.figures() == {"counted": "3 worlds, 0 failed", "tests": "1 tests, 7 examples"}
    assert card.run("--deep") == 0
    assert card.verdicts()["long"] == "green"


@pytest.mark.slow
def test_what_fails_is_red_and_so_is_the_exit_code(tool, tmp_path):
    card = Card(tool, tmp_path, FAILING, least=4, exits=["exits"])
    assert card.run("--only", "counted,exits,tests") == 1
    assert card.verdicts() == {
        "counted": "red",
        "with a gap": "red",
        "exits": "red",
        "tests": "red",
        "long": "red",
        "nothing": "not tried",
    }
    told = (tmp_path / "page.md").read_text()
    assert "3 worlds, at least 4 are asked for" in told
    assert "exit 3: no output" in told
    assert "1 failed, first " in told


def test_a_command_that_was_edited_has_not_run(tool, tmp_path):
    card = Card(tool, tmp_path, PASSING)
    card.run("--only", "counted")
    assert card.verdicts()["counted"] == "green"
    text = (tmp_path / "checks.toml").read_text()
    (tmp_path / "checks.toml").write_text(text.replace("3 worlds, 0", "3  worlds, 0"))
    card.run("--only", "long")
    assert card.verdicts()["counted"] == "not tried"


def test_no_time_is_no_verdict(tool, tmp_path, capsys):
    card = Card(tool, tmp_path, PASSING)
    assert card.run("--only", "counted", "--seconds", "0") == 0
    assert card.verdicts()["counted"] == "not tried"
    assert "counted: no time is left" in capsys.readouterr().out


def test_a_command_that_is_not_done_in_time_has_no_verdict(tool):
    slow = tool.Evidence("slow", command="python -c 'import time; time.sleep(30)'")
    assert tool._run([slow], tool.time.monotonic() + 0.1) == {}


def test_a_number_that_is_not_printed_is_a_problem(tool):
    figure = tool.Figure("worlds", r"(\d+) worlds", least=1)
    assert tool._value(figure, "none") is None
    assert tool._out_of_bounds([figure], {"worlds": None}) == "the command printed no number of worlds"


@pytest.mark.parametrize("name", ["nonsense", "counted,nonsense"])
def test_an_unknown_name_is_refused(tool, tmp_path, name):
    with pytest.raises(SystemExit, match="is called nonsense"):
        Card(tool, tmp_path, PASSING).run("--only", name)


def test_the_forty_checks_are_there_and_each_names_commands_that_exist(tool):
    checks, evidence = tool.read_checks((ROOT / "tools" / "scorecard.toml").read_text())
    assert [check.number for check in checks] == list(range(1, 41))
    used = {name for check in checks for name in check.evidence}
    assert used == {each.name for each in evidence}
    files = {test.partition("::")[0] for each in evidence for test in each.tests}
    assert sorted(path for path in files if not (ROOT / path).exists()) == []
    assert [check.number for check in checks if not check.evidence and not check.gap] == []
