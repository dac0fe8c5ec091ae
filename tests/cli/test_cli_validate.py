import io
import json
import sys

import pytest

from modelplane.cli import main

GOOD = """\
apiVersion: modelplane.ai/v1alpha1
kind: InferenceClass
metadata: {name: h100}
spec:
  devices:
  - {name: gpu, driver: gpu.nvidia.com, claim: Synthetic}
"""
BAD = GOOD.replace("devices", "device")
SERVICE = """\
apiVersion: modelplane.ai/v1alpha1
kind: ModelService
metadata: {name: chat}
spec:
  endpoints:
  - selector: {matchLabels: {app: chat}}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.yaml").write_text(GOOD)
    (tmp_path / "sub" / "a.yml").write_text(BAD)
    (tmp_path / "sub" / "c.json").write_text('{"apiVersion": "v1", "kind": "Secret"}')
    (tmp_path / "notes.txt").write_text("not: [a manifest")
    return tmp_path


def run(capsys, *words):
    code = main(["validate", *words])
    captured = capsys.readouterr()
    return code, captured.out.splitlines(), captured.err


@pytest.mark.usefixtures("folder")
def test_a_good_file(capsys):
    assert run(capsys, "-f", "b.yaml") == (0, ["1 object, 0 problems"], "")


@pytest.mark.usefixtures("folder")
def test_a_folder_is_read_to_the_bottom_in_order(capsys):
    code, lines, _ = run(capsys, "-f", ".")
    assert code == 1
    assert lines == [
        "sub/a.yml:3: InferenceClass/h100: metadata.name: is given twice in this set, first at b.yaml:1; keep one",
        "sub/a.yml:4: InferenceClass/h100: spec.devices: is required; give a list: The devices of one node",
        "sub/a.yml:5: InferenceClass/h100: spec.device: unknown field; did you mean devices?",
        "2 objects, 3 problems (not checked: 1 Secret)",
    ]


@pytest.mark.usefixtures("folder")
def test_paths_in_any_way(capsys):
    expected = (0, ["1 object, 0 problems (not checked: 1 Secret)"], "")
    assert run(capsys, "-f", "b.yaml", "-f", "sub/c.json") == expected
    assert run(capsys, "-f", "b.yaml", "sub/c.json") == expected
    assert run(capsys, "b.yaml", "sub/c.json") == expected


def test_standard_input(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: *x\n")))
    code, lines, _ = run(capsys, "-f", "-")
    assert (code, lines) == (
        1,
        ["<stdin>:1:4: alias *x has no anchor &x before it", "0 objects, 1 problem"],
    )


def test_a_text_that_cannot_be_read_does_not_hide_the_others(folder, capsys):
    (folder / "a.yaml").write_bytes(b"a: [1")
    (folder / "z.yaml").write_bytes(b"\x00" * (4 * 1024 * 1024))
    code, lines, _ = run(capsys, "a.yaml", "b.yaml", "z.yaml")
    assert code == 1
    assert [line.partition(" ")[0] for line in lines] == ["a.yaml:2:1:", "z.yaml:1:1:", "1"]
    assert lines[-1] == "1 object, 2 problems"


def test_warnings_refuse_only_when_asked_to(folder, capsys):
    (folder / "service.yaml").write_text(SERVICE)
    code, lines, _ = run(capsys, "service.yaml")
    assert code == 0
    assert lines[0].startswith(
        "service.yaml:6: warning: ModelService/chat: spec.endpoints[0].selector: matches no endpoint"
    )
    assert lines[1:] == ["1 object, 0 problems, 1 warning"]
    assert run(capsys, "service.yaml", "--strict")[0] == 1


def test_json(folder, capsys):
    (folder / "broken.yaml").write_text("a: [")
    code = main(["validate", "-o", "json", "sub/a.yml", "broken.yaml", "sub/c.json"])
    report = json.loads(capsys.readouterr().out)
    assert code == 1
    assert (report["objects"], report["skipped"]) == (1, {"Secret": 1})
    broken, _required, unknown = report["problems"]
    assert (broken["file"], broken["line"], broken["severity"]) == ("broken.yaml", 2, "error")
    assert unknown == {
        "file": "sub/a.yml",
        "line": 5,
        "kind": "InferenceClass",
        "namespace": "",
        "name": "h100",
        "field": "spec.device",
        "severity": "error",
        "cause": "UnknownField",
        "message": "unknown field; did you mean devices?",
    }


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-f", "absent.yaml"], "modelplane validate: absent.yaml: No such file or directory\n"),
        (["-f", "empty"], "modelplane validate: empty: no *.yaml, *.yml or *.json file in this folder\n"),
        (["-f", "a\x00b"], "modelplane validate: a\\x00b: embedded null byte\n"),
        ([], "modelplane validate: no manifests given: use -f PATH, or -f - for standard input\n"),
    ],
)
def test_what_cannot_be_opened_is_one_sentence(folder, capsys, words, sentence):
    (folder / "empty").mkdir()
    assert run(capsys, *words) == (1, [], sentence)


def test_nothing_reaches_the_terminal_raw(folder, capsys):
    name = "x\x1b[2J.yaml"
    text = GOOD.replace("name: h100", r'name: "\u202Eh100"').replace("devices", r'"de\u200Bvices"')
    (folder / name).write_text(text)
    _, lines, _ = run(capsys, name)
    assert all(line.isprintable() for line in lines)
    assert lines[0].startswith("x\\x1b[2J.yaml:3: InferenceClass/\\u202eh100: metadata.name:")


def test_a_thousand_manifests_take_seconds(folder, capsys):
    many = "---\n".join(GOOD.replace("name: h100", f"name: h{number}") for number in range(1_000))
    (folder / "many.yaml").write_text(many)
    assert run(capsys, "many.yaml") == (0, ["1000 objects, 0 problems"], "")
