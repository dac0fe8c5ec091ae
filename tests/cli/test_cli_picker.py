"""`modelplane picker check` and `modelplane picker explain`."""

import json

import pytest
import yaml

from modelplane.cli import main
from modelplane.cli._picker import SUBCOMMANDS

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
STATE = """
kind: PickerState
endpoints:
- {name: ns/a, address: "10.0.0.1:8000", load: {waiting: 2, kvUse: 0.5}}
- {name: ns/b, address: "10.0.0.2:8000", load: {waiting: 0, kvUse: 0.5}}
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "config.yaml").write_text(HEAD + "plugins: [{type: queue-scorer}]\n")
    (tmp_path / "state.yaml").write_text(STATE)
    (tmp_path / "request.yaml").write_text("{model: m, headers: {x-prefiller-host-port: '6.6.6.6:1'}}\n")
    return tmp_path


def run(capsys, *words):
    code = main(list(map(str, words)))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("command", [command.name for command in SUBCOMMANDS])
def test_every_subcommand_teaches_with_examples(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["picker", command, "--help"])
    assert ended.value.code == 0
    assert f"modelplane picker {command}" in capsys.readouterr().out


def test_check_shows_what_a_configuration_comes_to(files, capsys):
    code, out, err = run(capsys, "picker", "check", files / "config.yaml")
    assert (code, err) == (0, "")
    assert out.splitlines()[:5] == [
        "handler single-profile-handler",
        "profile default",
        "  filters  none",
        "  scorers  queue-scorer x 1",
        "  picker   max-score-picker",
    ]


@pytest.mark.parametrize(("output", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_check_for_programs(output, parse, files, capsys):
    code, out, _ = run(capsys, "picker", "check", files / "config.yaml", "-o", output)
    found = parse(out)
    assert (code, found["handler"], [each["name"] for each in found["plugins"] if not each["added"]]) == (
        0,
        "single-profile-handler",
        ["queue-scorer"],
    )


def test_check_tells_every_problem(files, capsys):
    path = files / "config.yaml"
    path.write_text(HEAD + "plugins:\n- {type: queue-scorer, nam: x}\n")
    assert run(capsys, "picker", "check", path) == (1, "", f"{path}:4: plugins[0].nam: no such field\n")


def test_warnings_pass_unless_strict(files, capsys):
    path = files / "config.yaml"
    path.write_text(HEAD + "plugins: [{type: by-label-selector}]\n")
    code, _, err = run(capsys, "picker", "check", path)
    assert (code, err.startswith(f"warning: {path}:3: plugins[0].type: by-label-selector is deprecated")) == (0, True)
    assert run(capsys, "picker", "check", path, "--strict")[0] == 1


def explain(files, *more):
    return (
        "picker",
        "explain",
        "--config",
        files / "config.yaml",
        "--state",
        files / "state.yaml",
        "--request",
        files / "request.yaml",
        *more,
    )


def test_explain_for_people(files, capsys):
    assert run(capsys, *explain(files)) == (
        0,
        (
            "Picked (200): 10.0.0.2:8000\n"
            "  removes x-prefiller-host-port\n"
            "\n"
            "profile default\n"
            "VERDICT  ENDPOINT  ADDRESS        TOTAL  WHY\n"
            "picked   ns/b      10.0.0.2:8000  1.000  queue-scorer 1.000 x 1\n"
            "scored   ns/a      10.0.0.1:8000  0.000  queue-scorer 0.000 x 1\n"
        ),
        "",
    )


@pytest.mark.parametrize(("output", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_explain_for_programs(output, parse, files, capsys):
    code, out, _ = run(capsys, *explain(files, "-o", output))
    assert (code, parse(out)["groups"]) == (0, [["ns/b"]])


def test_explain_repeats_with_its_seed(files, capsys):
    (files / "config.yaml").write_text(HEAD + "plugins: [{type: random-picker}]\n")
    picks = {}
    for seed in range(12):
        first, again = (json.loads(run(capsys, *explain(files, "--seed", seed, "-o", "json"))[1]) for _ in range(2))
        assert first == again
        picks[first["destinations"]] = True
    assert len(picks) == 2


def test_explain_says_why_nobody_is_picked(files, capsys):
    (files / "config.yaml").write_text(HEAD + "plugins: [{type: prefill-filter}]\n")
    code, out, _ = run(capsys, *explain(files))
    assert (code, out.splitlines()[0]) == (
        3,
        "Excluded (503): profile default admits no endpoint: prefill-filter: has no role label",
    )


def test_a_state_that_is_wrong_is_one_sentence(files, capsys):
    (files / "state.yaml").write_text("endpoints: [{name: a}]\n")
    code, out, err = run(capsys, *explain(files))
    assert (code, out) == (1, "")
    assert err == f"modelplane picker: {files / 'state.yaml'}:1: endpoints[0].address: is required\n"


def test_conformance_lists_its_cases_without_a_picker_and_tries_none_without_one(capsys):
    assert main(["picker", "conformance", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 20
    assert main(["picker", "conformance"]) == 1
    assert "--target HOST:PORT, or --self" in capsys.readouterr().err
