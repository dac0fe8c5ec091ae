"""Worked examples print what their page says: a page's files are written, and its console is typed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("docs/scheduling.md", "docs/migration/modelplane.md", "docs/migration/kserve.md", "docs/migration/llm-d.md")
FILE = re.compile(r"^```yaml\n# (\S+\.yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def typed(command, folder):
    """What it prints, with the program of this tree."""
    program = f'modelplane() {{ "{sys.executable}" -m modelplane "$@"; }}\n'
    environment = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder), "KUBECONFIG": ""}
    done = subprocess.run(
        ["/bin/bash", "-c", program + command],
        cwd=folder,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_print_what_it_says(page, tmp_path):
    text = (ROOT / page).read_text()
    for name, content in FILE.findall(text):
        (tmp_path / name).write_text(content)
    steps = [step for block in CONSOLE.findall(text) for step in STEP.findall(block)]
    assert steps
    assert [(command, typed(command, tmp_path)) for command, _ in steps] == steps
