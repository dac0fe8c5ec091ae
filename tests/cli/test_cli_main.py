"""The command line itself: help, versions, and failures in one sentence."""

import subprocess
import sys

import pytest

from modelplane import __version__
from modelplane.cli import main
from modelplane.cli._main import COMMANDS


def run(capsys, *words):
    code = main(words)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_lists_every_command_with_its_summary(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert [command.summary for command in COMMANDS if command.summary not in shown] == []


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_teaches_with_examples(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert "examples:" in shown
    assert f"modelplane {command}" in shown


@pytest.mark.parametrize("words", [(), ("status",), ("rollout", "undo")], ids=" ".join)
def test_help_is_a_word_too(words, capsys):
    shown = []
    for given in (["help", *words], [*words, "--help"]):
        with pytest.raises(SystemExit, match="0"):
            main(given)
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != ""


def test_no_command_shows_the_help_and_is_an_error(capsys):
    code, out, _ = run(capsys)
    assert (code, out.startswith("usage: modelplane")) == (2, True)


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"modelplane {__version__}\n"


def test_an_unknown_command_is_wrong_usage(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["nope"])
    assert ended.value.code == 2
    assert "invalid choice: 'nope'" in capsys.readouterr().err


def test_a_failure_is_one_sentence_without_a_traceback(capsys):
    code, out, err = run(capsys, "crds", "Nope")
    assert (code, out) == (1, "")
    assert err.startswith("modelplane crds: no kind 'Nope'; the kinds are EKSCluster, ")
    assert err.count("\n") == 1


def test_crds_of_one_kind_by_short_name(capsys):
    code, out, err = run(capsys, "crds", "md", "-o", "json")
    assert (code, err) == (0, "")
    assert '"name": "modeldeployments.modelplane.ai"' in out


def test_help_imports_no_command():
    """What keeps `--help` quick, checked by what it loads and not by the clock."""
    program = "import sys; from modelplane.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    heavy = "print([name for name in ('asyncio', 'aiohttp', 'yaml', 'msgspec', 'ssl') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program + heavy], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_goes_away_is_no_traceback():
    shell = f"{sys.executable} -m modelplane crds | head -1"
    done = subprocess.run(["bash", "-c", shell], check=True, capture_output=True, text=True)  # noqa: S607  the shell makes the pipe
    assert (done.stdout, done.stderr) == ("---\n", "")
