"""Worked examples print what their page says: a page's files are written, and its console is typed."""

import re
import shlex
from pathlib import Path

import pytest

from modelplane.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("docs/scheduling.md", "docs/migration/modelplane.md", "docs/migration/kserve.md", "docs/migration/llm-d.md")
FILE = re.compile(r"^```yaml\n# (\S+\.yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"^\$ modelplane (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_print_what_it_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("MODELPLANE_DATA", raising=False)
    text = (ROOT / page).read_text()
    for name, content in FILE.findall(text):
        (tmp_path / name).write_text(content)
    steps = [step for block in CONSOLE.findall(text) for step in STEP.findall(block)]
    assert len(steps) == len(re.findall(r"^\$ ", "".join(CONSOLE.findall(text)), re.MULTILINE)) > 0
    found = []
    for command, _ in steps:
        main(shlex.split(command))
        printed = capsys.readouterr()
        found.append((command, "".join(f"{line.rstrip()}\n" for line in (printed.out + printed.err).splitlines())))
    assert found == steps
