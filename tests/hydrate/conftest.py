"""What tests of the loader share."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Outcome:
    code: int
    lines: list
    errors: str

    @property
    def last(self):
        return self.lines[-1]


class Loader:
    """The loader as a user runs it: a process with arguments."""

    def __init__(self, volume: Path):
        self.volume = volume

    def command(self, source, *more):
        text = source if isinstance(source, str) else json.dumps(source)
        return [
            *(sys.executable, "-m", "modelplane", "hydrate", "--source", text, "--into", str(self.volume)),
            *("--progress-interval", "0.2", *more),
        ]

    def start(self, source, *more, **environment):
        return subprocess.Popen(
            self.command(source, *more),
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, source, *more, **environment):
        process = self.start(source, *more, **environment)
        output, errors = process.communicate(timeout=50)
        return Outcome(process.returncode, [json.loads(line) for line in output.splitlines()], errors)

    @property
    def marker(self):
        return json.loads((self.volume / ".modelplane" / "complete.json").read_text())

    def files(self):
        root = self.volume / self.marker["root"]
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def loader(tmp_path):
    return Loader(tmp_path / "volume")
