"""What tests of the loader share."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from modelplane.api.outbound import OutboundRule
from modelplane.hydrate import CacheVolume, Hydration, HydrationOptions, OriginOptions, origin_of, read_source
from modelplane.hydrate.credentials import MountedSecret
from modelplane.hydrate.progress import HydrationProgress
from modelplane.hydrate.settings import FetchSettings, RetryPolicy, Stop
from modelplane.hydrate.transport import TransferTimeouts, WebClient
from tests.support.file_server import file_server

LOOPBACK = OutboundRule.read(["127.0.0.1/32"])
QUICK = FetchSettings(
    connections=4,
    part_bytes=1 << 20,
    smallest_part_bytes=1 << 18,
    sync_bytes=1 << 20,
    retry=RetryPolicy(first_s=0.01, longest_s=0.05, attempts=5),
)


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


@pytest.fixture
def client():
    found = WebClient(LOOPBACK, TransferTimeouts(connect_s=2, read_s=2))
    yield found
    found.abort()


@pytest.fixture
def server():
    with file_server() as found:
        yield found


class Staging:
    """The loader in this process, quick to fail and to try again."""

    def __init__(self, root: Path):
        self.root = root
        self.lines = []

    def __call__(self, source, *, secret=None, options=None, rule=LOOPBACK, stop=None, fetch=QUICK, **more):
        access = OriginOptions(
            rule=rule, secret=secret or MountedSecret(), timeouts=TransferTimeouts(connect_s=2, read_s=0.5)
        )
        origin = origin_of(read_source(source if isinstance(source, str) else json.dumps(source)), access)
        options = options or HydrationOptions(fetch=fetch, progress_interval_s=0.2, **more)
        self.progress = HydrationProgress(lambda line: self.lines.append(json.loads(line)))
        return Hydration(origin, CacheVolume(self.root), options, self.progress, stop or Stop(20)).run()

    @property
    def fetched(self):
        return self.progress.fetched_bytes

    def files(self):
        marker = json.loads((self.root / ".modelplane" / "complete.json").read_text())
        root = self.root / marker["root"]
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def stage(tmp_path):
    return Staging(tmp_path / "volume")
