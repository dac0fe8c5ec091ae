"""The examples of every command's help: each is a line that its parser takes, and those that need nothing run."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from modelplane.cli import main
from modelplane.cli._main import COMMANDS, _parser

ROOT = Path(__file__).resolve().parents[2]
OPERATORS = {"|", ">", "<", "&&", ";"}
RUN = {"validate", "plan", "render", "explain", "catalog", "new", "crds", "completion", "version", "simulate"}
"""Commands of which some examples need no plane, no cluster and no file but ours."""
LONG = {"a-day", "add-a-pool", "double-the-traffic", "lose-a-region", "--worlds", "--seed"}
"""Words of examples that other tests run, or that take long."""


def help_of(command):
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        main([command, "--help"])
    return shown.getvalue()


def examples(command):
    """The words of each `modelplane …` in the examples, without what is said about them and what a shell does."""
    found = re.search(r"^examples:\n((?:  .*(?:\n|$))+)", help_of(command), re.MULTILINE)
    for line in found[1].splitlines():
        text = re.sub(r"[<$]\(|\)", " ", re.split(r"(?<=\S)   +|(?<=\S)  (?=[a-z`])", line.strip())[0])
        for part in re.split(r"\bmodelplane (?=[a-z])", text)[1:]:
            words = shlex.split(part)
            end = next((at for at, word in enumerate(words) if word in OPERATORS), len(words))
            yield words[:end]


ALL = [(command.name, words) for command in COMMANDS for words in examples(command.name)]


def test_every_command_has_examples():
    assert {command for command, _ in ALL} == {command.name for command in COMMANDS}
    assert len(ALL) > 150


@pytest.mark.parametrize(
    ("command", "words"), ALL, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_an_example_is_a_line_that_its_parser_takes(command, words):
    parsed = _parser(words).parse_args(words)
    assert (parsed.command == words[0], callable(parsed.run), command in help_of(command)) == (True, True, True)


def needs_nothing(words):
    files = [word for word in words if word.endswith((".yaml", ".json", ".jsonl"))]
    ours = all(word.startswith("examples/") for word in files)
    elsewhere = {"--data", "--kubeconfig", "-", "--worlds"} & set(words)
    alone = words[0] in {"catalog", "crds", "completion", "version"} or any("examples/" in word for word in words)
    return words[0] in RUN and ours and not elsewhere and (alone or "--class" in words) and not _is_long(words)


def _is_long(words):
    return any(mark in word for word in words for mark in LONG)


@pytest.mark.parametrize("words", [words for _, words in ALL if needs_nothing(words)], ids=" ".join)
def test_an_example_that_needs_nothing_runs(words, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("MODELPLANE_DATA", str(tmp_path))
    assert main(words) == 0
    assert capsys.readouterr().out


def imported(*words):
    """The modules that a command imports, as Python itself lists them."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "modelplane", *words],
        capture_output=True, text=True, check=False, env=environment, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


HEAVY = {
    "aiohttp", "asyncio", "cryptography", "google", "grpc", "lightkube", "modelplane.api.models", "msgspec", "re2",
    "ssl", "urllib.request", "yaml", "xxhash", "prometheus_client", "modelplane.compose", "modelplane.placement",
}  # fmt: skip
"""Each takes 10 ms or more: together they would take longer than a person notices."""


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["version", "--data", "/nonexistent"]], ids=" ".join)
def test_what_starts_often_imports_nothing_heavy(words):
    found = imported(*words)
    assert "modelplane.cli._main" in found
    assert found & HEAVY == set()
    assert {name for name in found if name.startswith("modelplane.")} <= LIGHT


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_no_command_imports_what_decides_before_it_runs(command):
    """`--help` ends where the command would begin. With placement and composers each took half a second."""
    found = imported(command, "--help")
    assert found & (HEAVY - {"msgspec", "modelplane.compose"} | {"modelplane.compose.contract"}) == set()


LIGHT = {
    "modelplane.api", "modelplane.api.errors", "modelplane.api.objects", "modelplane.api.version", "modelplane.cli",
    "modelplane.cli._formats", "modelplane.cli._main", "modelplane.cli._malformed_requests", "modelplane.cli._near",
    "modelplane.cli._parser", "modelplane.cli.running", "modelplane.cli.version", "modelplane.k8s",
    "modelplane.k8s.admission", "modelplane.k8s.admission.decode", "modelplane.views", "modelplane.views.states",
}  # fmt: skip
