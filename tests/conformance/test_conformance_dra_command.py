import json
import re
from pathlib import Path

import pytest

from modelplane.cli import main

VECTORS = Path(__file__).parents[1] / "k8s" / "vectors"


def write(folder, name, *cases, **fields):
    path = folder / name
    path.write_text(json.dumps({"set": "quantity", "format": 1, "cases": list(cases), **fields}))
    return str(path)


def case(identity, valid, text="1"):
    return {"id": identity, "op": "parse", "input": text, "expect": {"valid": valid}}


def test_everything_passes(capsys):
    assert main(["conformance", "dra", str(VECTORS / "quantity.json"), str(VECTORS / "semver.json")]) == 0
    assert capsys.readouterr().out.splitlines() == ["387 passed, 0 failed"]


def test_failures_are_listed_and_counted_last(tmp_path, capsys):
    path = write(tmp_path, "a.json", case("x-1", True), case("x-2", False), case("x-3", False, "x"))
    assert main(["conformance", "dra", path]) == 1
    assert capsys.readouterr().out.splitlines() == [
        'x-2: expected {"valid": false}, got {"valid": true}',
        "2 passed, 1 failed",
    ]


def test_a_folder(tmp_path, capsys):
    write(tmp_path, "b.json", case("x-2", True))
    write(tmp_path, "a.json", case("x-1", True))
    (tmp_path / "notes.txt").write_text("not a vector")
    assert main(["conformance", "dra", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "2 passed, 0 failed\n"


def test_a_case_that_reveals_a_defect_does_not_hide_the_others(tmp_path, capsys):
    nested = {"id": "x-1", "op": "compare", "a": "1", "b": "1e2000000000", "expect": -1}
    path = write(tmp_path, "a.json", nested, case("x-2", True))
    assert main(["conformance", "dra", path]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 passed, 0 failed"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", r"not JSON: .*"),
        ("[" * 100_000, r"not JSON: .*"),
        ("[]", "not in the vector format: the document: expected a mapping"),
        ('{"set": "x"}', "not in the vector format: set: expected one of quantity, semver, cel_selectors, allocator"),
    ],
)
def test_files_that_are_not_vectors(tmp_path, capsys, content, problem):
    path = tmp_path / "a.json"
    path.write_text(content)
    assert main(["conformance", "dra", str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(rf"modelplane conformance: {re.escape(str(path))}: {problem}\n", captured.err)


def test_a_file_that_is_not_there(tmp_path, capsys):
    assert main(["conformance", "dra", str(tmp_path / "nope.json")]) == 1
    assert capsys.readouterr().err.endswith("nope.json: no such file or folder\n")


def test_bytes_that_are_not_text(tmp_path, capsys):
    path = tmp_path / "a.json"
    path.write_bytes(b"\xff\xfe")
    assert main(["conformance", "dra", str(path)]) == 1
    assert "not JSON" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["conformance"], ["conformance", "dra"], ["conformance", "other", "x"]])
def test_usage(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage: modelplane conformance" in capsys.readouterr().err
