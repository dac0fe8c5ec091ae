"""What the lab types of the page, and how little it changes."""

import subprocess
from pathlib import Path

import pytest

from lab.e2e.desk import REPLACED
from lab.e2e.first_token import PAGE, commands

ROOT = Path(__file__).resolve().parents[2]


def page():
    return (ROOT / PAGE).read_text()


def test_every_line_of_every_block_is_typed_in_order():
    typed = list(commands(page(), ("--added",)))
    assert [line.split()[0] for line in typed] == [
        *("make", "modelplane", "kubectl", "kubectl", "kubectl"),
        *("modelplane", "modelplane", "kubectl"),
        *("kubectl", "kubectl", "kubectl", "curl"),
    ]
    assert [line for line in typed if line.endswith("--added")] == [typed[1]]
    assert [line for line in typed if line.endswith("--force")] == [typed[6]]


def test_the_rest_is_as_written():
    written = list(commands(page()))
    for there, here in REPLACED.items():
        written = [line.replace(here, there) for line in written]
    for line in written:
        assert line.removesuffix(" --force") in page()


@pytest.mark.parametrize("line", list(commands(page())))
def test_a_shell_can_read_it(line):
    assert subprocess.run(["/bin/bash", "-n", "-c", line], check=False, timeout=60).returncode == 0


def test_files_that_it_names_are_there():
    named = [word for line in commands(page()) for word in line.split() if word.startswith("examples/")]
    assert named == ["examples/first-token/gateway.yaml", "examples/quickstart/3-model.yaml"]
    assert all((ROOT / word).is_file() for word in named)
