"""`modelplane completion`: what may come next, and a real bash that is told so."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from modelplane.cli import main
from modelplane.cli._main import COMMANDS
from modelplane.cli.completion import candidates

PROGRAM = Path(sys.executable).with_name("modelplane")


def plain(before):
    return [word for word in candidates(before.split()) if not word.startswith("-")]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", [command.name for command in COMMANDS]),
        ("nonsense", []),
        ("drain", ["cluster", "pool"]),
        ("drain cluster", []),
        ("rollout", ["status", "history", "undo", "restart", "pause", "resume", "promote", "abort"]),
        ("rollout status", []),
        ("completion", ["bash", "zsh", "fish", "words"]),
        ("trace", ["ic", "mc", "md", "me", "mr", "ms"]),
        ("logs", ["md", "mr"]),
        ("top", []),
        ("version", []),
        ("debug-bundle", []),
        ("new", []),
    ],
)
def test_commands_verbs_and_choices(before, expected):
    assert plain(before) == expected


def test_kinds_are_offered_in_their_short_form():
    assert {"all", "md", "ms", "mr", "mc", "ns"} <= set(plain("get"))


def test_without_a_plane_no_name_is_offered(tmp_path):
    assert plain(f"describe md --data {tmp_path}") == []


def test_options_are_those_of_the_verb():
    assert {"--to-revision", "--kubeconfig", "-n"} <= set(candidates(["rollout", "undo"]))
    assert "--to-revision" not in candidates(["rollout", "status"])
    assert {"-o", "--output", "--data", "--kubeconfig"} <= set(candidates(["debug-bundle"]))
    assert {"--parameters", "--dtype", "--class", "--max-model-len"} <= set(candidates(["new"]))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_asks_for_words(shell, capsys):
    assert main(["completion", shell]) == 0
    assert "modelplane completion words -- " in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "expected"),
    [("modelplane rol", "rollout"), ("modelplane drain cl", "cluster"), ("modelplane get m", "mc md me mr ms")],
)
def test_bash_completes(line, expected):
    script = (
        "source <(modelplane completion bash); "
        f"COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _modelplane; "
        'echo "${COMPREPLY[@]}"'
    )
    path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [shutil.which("bash"), "-c", script],
        env={**os.environ, "PATH": path},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout.strip(), done.stderr) == (expected, "")
