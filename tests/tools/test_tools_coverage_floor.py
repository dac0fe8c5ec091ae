"""Coverage has floors that only rise."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RAN_ONCE = """from pathlib import Path


def test_it():
    Path(f"ran-{Path(__file__).stem}").touch(exist_ok=False)
"""


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("coverage_floor_tool", ROOT / "tools" / "coverage_floor.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_number_below_its_floor_is_a_problem(tool):
    floors = {"placement": 99.5, "whole": 95.0}
    assert tool.below(floors, {"placement": 99.51, "whole": 95.0}) == []
    assert tool.below(floors, {"placement": 99.49}) == ["placement: 99.4 %, it was 99.5 %"]


def test_floors_rise_and_never_fall(tool):
    floors = {"placement": 99.5, "whole": 95.0}
    assert tool.raised(floors, {"placement": 99.99, "framework": 88.88}) == {
        "framework": 88.8,
        "placement": 99.9,
        "whole": 95.0,
    }


@pytest.mark.submission
@pytest.mark.slow
def test_a_room_counts_its_own_tests_and_the_whole_counts_every_test_once(tool, tmp_path, monkeypatch, capsys):
    # A room of two functions, of which its own test reaches one and a process of another test the second.
    files = {
        "src/modelplane/__init__.py": "",
        "src/modelplane/room/__init__.py": "def first():\n    return 1\n\n\ndef second():\n    return 2\n",
        "src/modelplane/unused.py": "x = 1\nif x:\n    y = 2\n",
        "tests/room/test_room.py": RAN_ONCE + "    from modelplane.room import first\n    assert first() == 1\n",
        "tests/test_process.py": RAN_ONCE + "    import subprocess, sys\n"
        "    subprocess.run([sys.executable, '-c', 'from modelplane.room import second; second()'], check=True)\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "floors.json").write_text('{"room": 80.0, "whole": 50.0}')
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin,pytest_timeout")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "PACKAGE", tmp_path / "src" / "modelplane")
    monkeypatch.setattr(tool, "ROOMS", ("room",))

    assert tool.main(["--floors", str(tmp_path / "floors.json")]) == 1
    # Of the room 3 of 4 statements; of the whole 4 of 4, and none of 3 statements and 2 branches.
    printed = ["room             75.0", "deciding         75.0", "whole            44.4"]
    fell = ["room: 75.0 %, it was 80.0 %", "whole: 44.4 %, it was 50.0 %"]
    assert capsys.readouterr().out.splitlines() == [*printed, *fell]
    assert sorted(path.name for path in tmp_path.glob("ran-*")) == ["ran-test_process", "ran-test_room"]


def test_floors_are_of_rooms_that_exist(tool):
    floors = json.loads(tool.FLOORS.read_text())
    assert floors.keys() <= {*tool.ROOMS, "whole"}
    assert all(90 <= floor <= 100 for floor in floors.values())


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        ("F.\nFAILED tests/a.py::test_b - assert 1 == 2\nERROR tests/c.py\n1 failed\n  a warning\n",
         "FAILED tests/a.py::test_b - assert 1 == 2; ERROR tests/c.py"),
        ("No source for code: 'x'\n\n", "No source for code: 'x'"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_run_that_failed_names_its_tests_in_one_line(tool, printed, why):
    assert tool.why_failed(printed) == why
