"""Mutants: each differs in one place, what changes nothing survives, and only a test that fails kills."""

import importlib
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = '''\
"""A docstring."""

Item = TypeVar("Item", covariant=True)
Kind = Literal["few", "many"]
__all__ = ["first", "rest"]


@decorated(frozen=True)
def first(numbers: "list[int]", most: int) -> "int | None":
    """Another."""
    for number in numbers:
        if number < most and number != 3:
            return number + 1
    raise ValueError("none is left")


def rest(numbers):
    return max([number for number, _ in zip(cast("list[int]", numbers), numbers, strict=True) if number])
'''
REST = 'return max([number for number, _ in zip(cast("list[int]", numbers), numbers, strict=True) if number])'
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
TOOLS = ROOT / "tools"
MODULES = ("mutate", "mutate_conduct", "mutate_fast", "mutate_jobs", "mutate_results", "mutate_slow", "mutated_import")


@pytest.fixture(scope="module")
def tools():
    """The modules of the tool, by their names."""
    sys.path.insert(0, str(TOOLS))
    try:
        yield {name: importlib.import_module(name) for name in (*MODULES, "mutations")}
    finally:
        sys.path.remove(str(TOOLS))
        for name in (*MODULES, "mutations"):
            sys.modules.pop(name, None)


@pytest.fixture
def tool(tools):
    return tools["mutate"]


@pytest.fixture
def fates(tools):
    return tools["mutate_results"].Fate


@pytest.fixture
def judge_by(tools):
    """Judges mutants of the headers, each another text of the module, by one test file."""

    def judge(texts, files):
        mutants = [tools["mutations"].Mutant(HEADERS, str(at), "", whole=text) for at, text in enumerate(texts)]
        judged = dict(tools["mutate_conduct"].judge_by([(each, files) for each in mutants], processes=1))
        return [judged[each] for each in mutants]

    return judge


def headers_text():
    return (ROOT / "src" / "modelplane" / HEADERS).read_text()


def test_what_decides_is_changed_one_place_at_a_time(tools, tmp_path, monkeypatch):
    monkeypatch.setattr(tools["mutations"], "SOURCE", tmp_path)
    (tmp_path / "it.py").write_text(SOURCE)
    found = list(tools["mutations"].mutants_of(tmp_path / "it.py"))
    assert sorted((each.text, each.change) for each in found) == sorted(CHANGES)
    assert len({each.source for each in found}) == len(CHANGES)


PLACES = """\
LEAST = 1


class Kind:
    @property
    def size(self):
        return [
            3,
        ]

    def grow(self, by=2):
        def inner(more=4):
            return more

        match by:
            case 5:
                return lambda: inner(6)
"""


def test_a_mutant_knows_its_statement_and_the_function_that_it_is_in(tools, tmp_path, monkeypatch):
    monkeypatch.setattr(tools["mutations"], "SOURCE", tmp_path)
    (tmp_path / "it.py").write_text(PLACES)
    places = {
        each.change: (sorted(each.lines), each.function and (each.function.qualname, each.function.line))
        for each in tools["mutations"].mutants_of(tmp_path / "it.py")
        if each.change[0].isdigit()
    }
    assert places == {
        "1 → 2": ([1], None),
        "2 → 3": ([11], None),
        "3 → 4": ([7, 8, 9], ("Kind.size", 5)),
        "4 → 5": ([12], ("Kind.grow", 11)),
        "5 → 6": ([15, 16], ("Kind.grow", 11)),
        "6 → 7": ([17], ("Kind.grow", 11)),
    }


def test_test_files_are_those_that_mirror_a_module_and_those_that_mention_it(tools):
    test_files = tools["mutate_slow"].test_files
    assert test_files(HEADERS)[0] == MIRROR
    assert test_files("placement/pool_usage.py")[0].name == "test_placement_pool_usage.py"
    assert test_files("compose/gang/gang_metadata.py")[0].name == "test_compose_gang.py"
    assert test_files("placement/nowhere.py") == [ROOT / "tests" / "placement"]


@pytest.mark.parametrize(
    ("ended", "answer", "fate", "by"),
    [
        ("ANSWERED", (0, ""), "survived", ""),
        ("ANSWERED", (1, "a::b"), "killed", "a::b"),
        ("ANSWERED", (2, "a", True), "killed at import", "a"),
        ("ANSWERED", (4, "", True), "killed at import", ""),
        ("ANSWERED", (2, ""), "error", "pytest ended with 2 on tests/x.py: "),
        ("ANSWERED", (3, "OSError()"), "error", "pytest ended with 3 on tests/x.py: OSError()"),
        ("ANSWERED", (4, ""), "error", "pytest ended with 4 on tests/x.py: "),
        ("ANSWERED", (5, ""), "error", "pytest ended with 5 on tests/x.py: "),
        ("CRASHED", 11, "error", "the process ended with status 11"),
        ("TIMED_OUT", 0, "timed out", ""),
    ],
)
def test_only_a_test_that_failed_kills(tools, ended, answer, fate, by):
    slow, jobs = tools["mutate_slow"], tools["mutate_jobs"]
    told = slow.Asked(*answer) if isinstance(answer, tuple) else answer
    verdict = slow.verdict_of(jobs.Outcome("job", jobs.Ended[ended], told), [ROOT / "tests" / "x.py"])
    assert (verdict.fate, verdict.way, verdict.by) == (fate, "slow", by)


@pytest.mark.submission
@pytest.mark.slow
def test_one_mutant_is_judged_alone(tool, capsys):
    assert tool.main([HEADERS, "--only", "if ROUTING.isdisjoint(headers):`: the condition", "--processes", "1"]) == 0
    assert capsys.readouterr().out == f"1 mutants of 1: {counts(killed=1)}; 100.0 % killed or explained\n"


def counts(**numbers):
    fates = ("killed", "killed at import", "timed out", "survived", "explained", "error")
    return ", ".join(f"{numbers.get(fate.replace(' ', '_'), 0)} {fate}" for fate in fates)


@pytest.mark.submission
@pytest.mark.slow
def test_what_changes_nothing_survives_and_a_defect_is_killed(judge_by, fates):
    source = headers_text()
    wrong = source.replace("if ROUTING.isdisjoint(headers):", "if True:")
    broken = f"{source}\nraise ValueError\n"
    verdicts = judge_by([source, wrong, broken], [MIRROR])
    assert [each.fate for each in verdicts] == [fates.SURVIVED, fates.KILLED, fates.AT_IMPORT]
    assert verdicts[1].by.startswith("tests/epp/scheduling/test_scheduling_headers.py::")


STARTS_ANOTHER = """\
import subprocess, sys

def test_it():
    read = "from modelplane.epp.scheduling import headers; headers.MARK"
    assert subprocess.run([sys.executable, "-c", read], check=False).returncode
"""
WAITS = """\
import time
from modelplane.epp.scheduling import headers

def test_it():
    time.sleep(getattr(headers, "MARK", 0))
"""
ALWAYS_FAILS = """\
def test_it():
    assert False
"""


@pytest.fixture
def test_file(tmp_path):
    def write(text):
        (tmp_path / "conftest.py").write_text("from hypothesis import settings\nsettings.register_profile('core')\n")
        (tmp_path / "test_it.py").write_text(text)
        return tmp_path / "test_it.py"

    return write


@pytest.mark.submission
@pytest.mark.slow
def test_a_process_that_a_test_starts_has_the_mutant(judge_by, test_file, fates):
    verdicts = judge_by([f"{headers_text()}\nMARK = 1\n", headers_text()], [test_file(STARTS_ANOTHER)])
    assert [each.fate for each in verdicts] == [fates.KILLED, fates.SURVIVED]


MARKED = """\
from modelplane.epp.scheduling import headers

def test_it():
    assert not hasattr(headers, "MARK")
"""
BREAKS_AT_THE_END = """
failed = []

def pytest_sessionfinish(exitstatus):
    failed.append(exitstatus == 1)

def pytest_unconfigure():
    if any(failed):
        raise ResourceWarning("a socket is left open")
"""


@pytest.mark.submission
@pytest.mark.slow
def test_what_a_failed_test_leaves_open_does_not_hide_that_it_failed(judge_by, test_file, fates):
    file = test_file(MARKED)
    with (file.parent / "conftest.py").open("a") as conftest:
        conftest.write(BREAKS_AT_THE_END)
    verdicts = judge_by([f"{headers_text()}\nMARK = 1\n", headers_text()], [file])
    assert [each.fate for each in verdicts] == [fates.KILLED, fates.SURVIVED]


@pytest.mark.submission
@pytest.mark.slow
def test_the_limit_follows_from_what_the_tests_take_without_a_mutant(tools, judge_by, test_file, fates, monkeypatch):
    assert tools["mutate_slow"].limit_s(3.0) == 40.0
    assert tools["mutate_fast"].limit_s(3.0) == 35.0
    monkeypatch.setattr(tools["mutate_slow"], "limit_s", lambda usual_s: usual_s + 5.0)
    verdicts = judge_by([f"{headers_text()}\nMARK = 600\n", headers_text()], [test_file(WAITS)])
    assert [each.fate for each in verdicts] == [fates.TIMED_OUT, fates.SURVIVED]


@pytest.mark.submission
@pytest.mark.slow
def test_tests_that_fail_without_a_mutant_or_are_not_there_say_nothing(judge_by, test_file, fates, tmp_path):
    failing = judge_by([headers_text()], [test_file(ALWAYS_FAILS)])
    missing = judge_by([headers_text()], [tmp_path / "test_nothing.py"])
    assert [each.fate for each in (*failing, *missing)] == [fates.ERROR, fates.ERROR]
    assert failing[0].by.startswith("without a mutant: killed ")
    assert missing[0].by.startswith("without a mutant: error pytest ended with 4 on ")


@pytest.mark.submission
@pytest.mark.slow
def test_the_fast_way_and_the_slow_way_agree(tools, fates):
    """On mutants of real modules, asked of the same tests."""
    conduct, mutations = tools["mutate_conduct"], tools["mutations"]
    modules = ("framework/filtering.py", "framework/sparse_vector.py", "framework/ranking.py")
    found = [each for module in modules for each in mutations.mutants_of(mutations.SOURCE / module)]
    chosen = [each for each in conduct.shuffled(found, 7) if each.function][:8]
    fast = dict(judged_by_room(conduct, dict.fromkeys(chosen, "")))
    slow = dict(conduct.judge_by([(each, [ROOT / "tests" / "framework"]) for each in chosen], processes=2))
    detected = {each for each in chosen if fast[each] and fast[each].fate is not fates.SURVIVED}
    assert len(detected) > 4
    assert {each: slow[each].fate for each in detected} == dict.fromkeys(detected, fates.KILLED)
    assert {fast[each].fate for each in chosen if slow[each].fate is fates.SURVIVED} <= {fates.SURVIVED}


@pytest.mark.submission
@pytest.mark.slow
def test_the_slow_way_is_asked_the_test_that_killed_before(tools):
    conduct, mutations = tools["mutate_conduct"], tools["mutations"]
    found = mutations.mutants_of(mutations.SOURCE / "framework" / "outcomes.py")
    outside = next(each for each in found if not each.function)
    killer = "tests/framework/test_framework_ranking.py::test_only_what_changed_is_read"
    ((_, unjudged),) = judged_by_room(conduct, {outside: killer})
    assert (unjudged.tests, unjudged.seconds < 60.0) == ((killer,), True)


def judged_by_room(conduct, mutants):
    rooms = conduct.Rooms(mutants, conduct._FORK.Semaphore(2), math.inf)
    while not rooms.is_done:
        yield from rooms.step(1.0)


REPLACED = """\
from functools import cache

class Kind:
    @property
    def size(self):
        return 3

    @staticmethod
    @cache
    def least():
        return 4

    @classmethod
    def most(cls):
        return [each + 5 for each in range(2)]

    def numbers(self):
        yield 6

    def outer(self):
        return super().__init__() or 7
"""


def test_code_is_replaced_whatever_holds_the_function(tools, tmp_path, monkeypatch):
    fast, mutations = tools["mutate_fast"], tools["mutations"]
    monkeypatch.setattr(mutations, "SOURCE", tmp_path)
    monkeypatch.setattr(fast, "SOURCE", tmp_path)
    (tmp_path / "room").mkdir()
    file = tmp_path / "room" / "it.py"
    file.write_text(REPLACED)
    space = {}
    exec(compile(REPLACED, str(file), "exec"), space)  # noqa: S102  the module that is mutated
    functions = fast.functions_of(tmp_path / "room")
    changes = {"3 → 4", "4 → 5", "5 → 6", "6 → 7", "7 → 8", "None is returned"}
    mutants = [each for each in mutations.mutants_of(file) if each.change in changes]
    replaced = [fast.replace_code(each, functions[each.module, each.function]) for each in mutants]
    kind = space["Kind"]()
    assert [kind.size, kind.least(), kind.most(), list(kind.numbers()), kind.outer()] == [4, 5, [6, 7], [7], 8]
    # Without the call of super, the function has no variable of the class.
    assert [each.change for each, done in zip(mutants, replaced, strict=True) if not done] == ["None is returned"]


@pytest.fixture
def some(tools):
    """Mutants of a module."""
    return list(tools["mutations"].mutants_of(tools["mutations"].SOURCE / HEADERS))[:4]


def test_the_report_counts_each_fate_and_names_what_was_not_detected(tools, some, capsys):
    results = tools["mutate_results"]
    fates = [results.Fate.KILLED, results.Fate.SURVIVED, results.Fate.TIMED_OUT, results.Fate.ERROR]
    judged = [(each, results.Verdict(fate, results.Way.SLOW, "why")) for each, fate in zip(some, fates, strict=True)]
    assert results.report(judged, of=9) == 50.0
    assert capsys.readouterr().out.splitlines() == [
        f"survived  {some[1]}  (why)",
        f"error  {some[3]}  (why)",
        f"4 mutants of 9: {counts(killed=1, survived=1, timed_out=1, error=1)}; 50.0 % killed or explained",
    ]


def test_a_results_file_holds_while_the_module_and_the_tests_are_the_same(tools, some, tmp_path, monkeypatch):
    results = tools["mutate_results"]
    killed = results.Verdict(results.Fate.KILLED, results.Way.FAST, f"{MIRROR.relative_to(ROOT)}::test")
    survived = results.Verdict(results.Fate.SURVIVED, results.Way.SLOW)
    error = results.Verdict(results.Fate.ERROR, results.Way.SLOW, "why")
    judged = list(zip(some, [killed, survived, error, survived], strict=True))
    lines = [results.line_of(mutant, verdict) for mutant, verdict in judged]
    other = json.dumps({**json.loads(lines[3]), "tests_digest": "0"}, ensure_ascii=False)
    (tmp_path / "out").write_text("\n".join([*lines[:3], other]))
    assert list(results.read_results(tmp_path / "out", some)) == judged[:2]
    assert list(results.read_results(tmp_path / "none", some)) == []
    monkeypatch.setattr(results, "module_digest", lambda module: f"another {module}")
    assert list(results.read_results(tmp_path / "out", some)) == []
    # The test that killed it is asked first all the same.
    assert list(results.read_killers(tmp_path / "out", some)) == [(some[0], killed.by)]
    assert list(results.read_killers(tmp_path / "none", some)) == []


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("import os\n\nBOUND = 3\n\ndef test_a(): assert BOUND\n\ndef test_b(): assert os", True),
        ("BOUND = 3\n\ndef test_a(): assert BOUND > 1", False),
        ("BOUND = 4\n\ndef test_a(): assert BOUND", False),
        ("BOUND = 3\n\ndef helper(): ...\n\ndef test_a(): assert BOUND", False),
        ("BOUND = 3", False),
        ("", False),
    ],
    ids=["another test", "another assertion", "another constant", "a helper", "no test", "nothing"],
)
def test_a_verdict_holds_while_the_test_and_what_it_uses_are_the_same(tools, some, tmp_path, monkeypatch, text, holds):
    results = tools["mutate_results"]
    killed = results.Verdict(results.Fate.KILLED, results.Way.FAST, "test_x.py::test_a[one]")
    digests = []
    for folder, source in (("then", "BOUND = 3\n\ndef test_a(): assert BOUND"), ("now", text)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test_x.py").write_text(source)
        monkeypatch.setattr(results, "ROOT", tmp_path / folder)
        digests.append(results.tests_digest(some[0], killed))
    assert (digests[0] == digests[1]) is holds


def test_a_run_can_be_cut_and_go_on(tool, tools, some, tmp_path, capsys):
    """Without time it tells what is known, and says how many there are."""
    results = tools["mutate_results"]
    killed = results.Verdict(results.Fate.KILLED, results.Way.FAST, f"{MIRROR.relative_to(ROOT)}::test")
    (tmp_path / "first").write_text("".join(f"{results.line_of(each, killed)}\n" for each in some))
    words = [HEADERS, "--seconds", "0", "--resume", str(tmp_path / "first"), "--out", str(tmp_path / "second")]
    number = len(list(tool.mutants_of(tool.SOURCE / HEADERS)))
    assert tool.main(words) == 0
    assert capsys.readouterr().out == f"4 mutants of {number}: {counts(killed=4)}; 100.0 % killed or explained\n"
    assert sorted((tmp_path / "second").read_text().splitlines()) == sorted(
        (tmp_path / "first").read_text().splitlines()
    )


@pytest.mark.submission
@pytest.mark.slow
def test_known_mutants_are_chosen_by_their_defect(tool, capsys):
    assert tool.main(["--known", "--only", "placement 7", "--processes", "1"]) == 0
    assert capsys.readouterr().out == f"1 mutants of 1: {counts(killed=1)}; 100.0 % killed or explained\n"


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
    assert capsys.readouterr().out == f"1 mutants of 1: {counts(killed=1)}; 100.0 % killed or explained\n"


@pytest.mark.submission
def test_every_listed_mutant_is_of_the_sources_as_they_are(tool):
    import tomllib

    listed = tomllib.loads(tool.LISTED.read_text())
    assert len(list(tool.known(listed["known"]))) >= 5
    modules = {each["module"] for each in listed.get("survivor", ())}
    keys = {mutant.key for module in modules for mutant in tool.mutants_of(tool.SOURCE / module)}
    for each in listed.get("survivor", ()):
        assert (each["module"], each["text"], each["change"]) in keys
        assert len(each["reason"]) > 20
