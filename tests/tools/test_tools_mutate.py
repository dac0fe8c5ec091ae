"""Mutants: each differs in one place, what changes nothing survives, and what is wrong is killed."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = '''\
"""A docstring."""

Item = TypeVar("Item", covariant=True)
Kind = Literal["few", "many"]


@decorated(frozen=True)
def first(numbers: "list[int]", most: int) -> "int | None":
    """Another."""
    for number in numbers:
        if number < most and number != 3:
            return number + 1
    raise ValueError("none is left")


def rest(numbers):
    return max([number for number in cast("list[int]", numbers) if number])
'''
REST = 'return max([number for number in cast("list[int]", numbers) if number])'
CHANGES = [
    ("if number < most and number != 3:", "the condition is turned round"),
    ("if number < most and number != 3:", "And → Or"),
    ("if number < most and number != 3:", "Lt → LtE"),
    ("if number < most and number != 3:", "NotEq → Eq"),
    ("if number < most and number != 3:", "3 → 4"),
    ("return number + 1", "None is returned"),
    ("return number + 1", "Add → Sub"),
    ("return number + 1", "1 → 2"),
    (REST, "None is returned"),
    (REST, "max → min"),
    (REST, "the filter is left out"),
]
HEADERS = "epp/scheduling/headers.py"
MIRROR = ROOT / "tests" / "epp" / "scheduling" / "test_scheduling_headers.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("mutate_tool", ROOT / "tools" / "mutate.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tools")
        spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_what_decides_is_changed_one_place_at_a_time(tool, tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "SOURCE", tmp_path)
    (tmp_path / "it.py").write_text(SOURCE)
    found = list(tool.mutants_of(tmp_path / "it.py"))
    assert sorted((each.text, each.change) for each in found) == sorted(CHANGES)
    assert len({each.source for each in found}) == len(CHANGES)


def test_test_files_are_those_that_mirror_a_module_and_those_that_mention_it(tool):
    assert tool.test_files(HEADERS)[0] == MIRROR
    mentioned = tool.test_files("placement/pool_usage.py")
    assert mentioned[0].name == "test_placement_pool_usage.py"
    assert tool.test_files("compose/gang/gang_metadata.py")[0].name == "test_compose_gang.py"
    assert tool.test_files("placement/nowhere.py") == [ROOT / "tests" / "placement"]


@pytest.mark.submission
@pytest.mark.slow
def test_one_mutant_is_judged_alone(tool, capsys):
    assert tool.main([HEADERS, "--only", "if ROUTING.isdisjoint(headers):`: the condition", "--processes", "1"]) == 0
    assert capsys.readouterr().out == "1 mutants: 1 killed, 0 survived, 0 explained; 100.0 % killed or explained\n"


@pytest.mark.submission
@pytest.mark.slow
def test_what_changes_nothing_survives_and_a_defect_is_killed(tool, capsys):
    importlib.import_module("modelplane.epp.scheduling.headers")
    source = (ROOT / "src" / "modelplane" / HEADERS).read_text()
    same = tool.Mutant(HEADERS, "nothing", "", source)
    other = tool.Mutant(HEADERS, "never", "", source.replace("if ROUTING.isdisjoint(headers):", "if True:"))
    judged = [(each, tool.judge(each, thorough=False, reasons={})) for each in (same, other)]
    assert [fate for _, fate in judged] == [tool.Fate.SURVIVED, tool.Fate.KILLED]
    assert tool.judge(other, thorough=False, reasons={other.key: "because"}) is tool.Fate.EXPLAINED
    with pytest.raises(RuntimeError, match="no test ran of"):
        tool.is_killed(other, [ROOT / "tests" / "test_nothing.py"])
    assert tool._report(judged) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"survived  {HEADERS}: ``: nothing",
        "2 mutants: 1 killed, 1 survived, 0 explained; 50.0 % killed or explained",
    ]


STARTS_ANOTHER = """\
import subprocess, sys

def test_it():
    read = "from modelplane.epp.scheduling import headers; headers.MARK"
    assert subprocess.run([sys.executable, "-c", read], check=False).returncode
"""


@pytest.mark.submission
@pytest.mark.slow
def test_a_process_that_a_test_starts_has_the_mutant(tool, tmp_path):
    (tmp_path / "conftest.py").write_text("from hypothesis import settings\nsettings.register_profile('core')\n")
    (tmp_path / "test_it.py").write_text(STARTS_ANOTHER)
    source = (ROOT / "src" / "modelplane" / HEADERS).read_text()
    files = [tmp_path / "test_it.py"]
    assert tool.is_killed(tool.Mutant(HEADERS, "marked", "", f"{source}\nMARK = 1\n"), files)
    assert not tool.is_killed(tool.Mutant(HEADERS, "nothing", "", source), files)


@pytest.mark.submission
@pytest.mark.slow
def test_known_mutants_are_chosen_by_their_defect(tool, capsys):
    assert tool.main(["--known", "--only", "placement 7", "--processes", "1"]) == 0
    assert capsys.readouterr().out == "1 mutants: 1 killed, 0 survived, 0 explained; 100.0 % killed or explained\n"


READS_A_PAGE = """\
import pathlib, subprocess

ROOT = pathlib.Path(__file__).parent
PRESENT = (ROOT / "present").exists()

def test_it():
    assert "right" in (ROOT / "page.css").read_text()
    assert subprocess.run(["git", "check-ignore", "-q", "kept"], cwd=ROOT).returncode == 0
    assert not PRESENT

def test_skipped():
    import pytest
    pytest.skip("no browser is here")
"""


@pytest.fixture
def small_repository(tmp_path):
    files = {
        "conftest.py": "from hypothesis import settings\nsettings.register_profile('core')\n",
        "test_it.py": READS_A_PAGE,
        "page.css": "right\n",
        ".gitignore": "/kept\n/present\n.venv\n",
        "kept": "",
        "present": "",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)  # noqa: S607  the git of the PATH
    return tmp_path


@pytest.mark.submission
@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "source", "killed"),
    [
        ("page.css", "wrong\n", True),
        ("page.css", "right, too\n", False),
        (".gitignore", "/present\n", True),
        (".gitignore", "/kept\n", False),
    ],
    ids=["a page is wrong", "a page is otherwise right", "git ignores less", "git ignores another"],
)
def test_a_file_that_is_no_module_is_judged_in_a_copy(tool, small_repository, file, source, killed):
    assert tool.mutate_tree.is_killed(small_repository, file, source, "test_it.py::test_it") is killed
    assert (small_repository / "page.css").read_text() == "right\n"


@pytest.mark.submission
@pytest.mark.slow
def test_what_is_not_green_in_a_copy_without_the_change_is_not_judged(tool, small_repository):
    with pytest.raises(RuntimeError, match=r"(?s)is not green in a copy without the change to page.css:.*no browser"):
        tool.mutate_tree.is_killed(small_repository, "page.css", "wrong", "test_it.py::test_skipped")


@pytest.mark.submission
@pytest.mark.slow
def test_a_known_mutant_may_be_of_any_file(tool, capsys):
    assert tool.main(["--known", "--only", ".gitignore", "--processes", "1"]) == 0
    assert capsys.readouterr().out == "1 mutants: 1 killed, 0 survived, 0 explained; 100.0 % killed or explained\n"


@pytest.mark.submission
def test_every_listed_mutant_is_of_the_sources_as_they_are(tool):
    import tomllib

    listed = tomllib.loads(tool.LISTED.read_text())
    assert len(list(tool.known(listed["known"]))) >= 5
    for each in listed.get("survivor", ()):
        texts = [mutant.key for mutant in tool.mutants_of(tool.SOURCE / each["module"])]
        assert (each["module"], each["text"], each["change"]) in texts
        assert len(each["reason"]) > 20
