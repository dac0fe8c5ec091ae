"""`modelplane completion`: what may come next, and a real bash that is told so."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
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
    [("modelplane rol", "rollout"), ("modelplane drain cl", "cluster"), ("modelplane get m", "mc md me mm mr ms")],
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


@pytest.fixture
def home(tmp_path):
    """The environment of a shell whose `modelplane` is this one, and which has no settings of a person."""
    program = tmp_path / "bin" / "modelplane"
    program.parent.mkdir()
    paths = ":".join(path for path in sys.path if path)
    program.write_text(f'#!/bin/sh\nPYTHONPATH={paths} exec {sys.executable} -m modelplane "$@"\n')
    program.chmod(0o700)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    place = {"HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    return {**os.environ, **place, "PATH": path, "TERM": "dumb"}


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(
    ("line", "expected"),
    [("modelplane rol", {"rollout"}), ("modelplane drain cl", {"cluster"}), ("modelplane get m", {"md", "ms", "mr"})],
)
def test_fish_completes(line, expected, home, tmp_path):
    """As installed in the folder that the help names. `complete -C` is what fish does on TAB."""
    folder = tmp_path / "fish" / "completions"
    folder.mkdir(parents=True)
    script = f"modelplane completion fish > {folder}/modelplane.fish; complete -C '{line}'"
    done = subprocess.run(
        [shutil.which("fish"), "-c", script], env=home, check=False, capture_output=True, text=True, timeout=120
    )
    assert (expected <= set(done.stdout.split()), done.stderr) == (True, "")


class TypedShell:
    """An interactive shell on a terminal of its own."""

    def __init__(self, words, environment):
        self._process, self._terminal = pty.fork()
        if self._process == 0:
            os.execvpe(words[0], words, environment)  # noqa: S606  the shell itself

    def type(self, text, until, seconds=60.0):
        os.write(self._terminal, text.encode())
        seen, end = b"", time.monotonic() + seconds
        while until.encode() not in seen and time.monotonic() < end:
            if select.select([self._terminal], [], [], 0.2)[0]:
                seen += os.read(self._terminal, 65536)
        return seen.decode(errors="replace")

    def close(self):
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._terminal)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize(
    "installed",
    [
        "autoload -U compinit; compinit -u; source <(modelplane completion zsh)",
        "modelplane completion zsh > $HOME/_modelplane; fpath=($HOME $fpath); autoload -U compinit; compinit -u",
    ],
    ids=["sourced", "in fpath"],
)
@pytest.mark.parametrize(
    ("line", "expected"), [("rol", "rollout "), ("drain cl", "cluster "), ("validate zz", "zz-top ")]
)
def test_zsh_completes_on_the_first_tab(installed, line, expected, home, tmp_path):
    (tmp_path / "zz-top").touch()
    shell = TypedShell([shutil.which("zsh"), "-f", "-i"], home)
    try:
        assert "\r\nset up" in shell.type(f"cd; {installed}; echo set' 'up\n", "\r\nset up")
        assert shell.type(f"modelplane {line}\t", expected).endswith(expected)
    finally:
        shell.close()
