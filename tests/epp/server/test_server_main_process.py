"""The main process of a picker with workers: what it refuses, and that nothing is left where it cannot start."""

import asyncio
import socket
import sys

import pytest

from modelplane.cli import main
from tests.support.picker_process import ANYWHERE, list_endpoints, serving
from tests.support.waiting import until

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
BOUND = (
    HEAD
    + """plugins:
- type: precise-prefix-cache-producer
  parameters: {kvEventsConfig: {discoverPods: false, zmqEndpoint: "tcp://*:5557"}}
- {type: prefix-cache-scorer}
- {type: max-score-picker}
schedulingProfiles:
- {name: default, plugins: [{pluginRef: prefix-cache-scorer}, {pluginRef: max-score-picker}]}
"""
)


@pytest.fixture
def listed(tmp_path):
    path = tmp_path / "endpoints.yaml"
    list_endpoints(path, [("127.0.0.1", 9)])
    return path


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--workers", "0"], "--workers: '0' is neither auto nor a number from 1 to 64"),
        (["--workers", "65"], "--workers: '65' is neither"),
        (["--workers", "-1"], "--workers: '-1' is neither"),
        (["--workers", "many"], "--workers: 'many' is neither"),
        (["--workers", "2", "--server", "grpc"], "--server grpc serves by one process: give --workers 1"),
        (["--workers", "2", "--config-text", BOUND], "kvEventsConfig.discoverPods: with --workers above 1"),
        (["--workers", "2", "--config-text", "kind: Nonsense"], "--config-text:1"),
        (["--workers", "2", "--decision-log", "no/folder"], "--decision-log no/folder: No such file"),
        (["--workers", "2", "--tracing-endpoint", "http://x"], "--tracing-endpoint needs --tracing-share"),
    ],
)
def test_what_cannot_be_is_refused_before_a_worker_starts(flags, sentence, listed, capsys):
    assert main(["picker", "serve", *ANYWHERE, "--endpoints", str(listed), "--no-scrape", *flags]) == 1
    assert sentence in capsys.readouterr().err


@pytest.mark.submission
@pytest.mark.e2e
@pytest.mark.slow
def test_a_port_that_is_taken_ends_it_with_its_workers(listed):
    async def story():
        with socket.create_server(("127.0.0.1", 0)) as taken:
            words = ["--endpoints", str(listed), "--no-scrape", "--workers", "2", *ANYWHERE]
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "modelplane", "picker", "serve", *words),
                *("--grpc-port", str(taken.getsockname()[1])),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            # Workers write to the same pipe: it ends when the last of them does.
            _, errors = await asyncio.wait_for(process.communicate(), 240)
            return process.returncode, errors.decode()

    code, errors = asyncio.run(story())
    assert code == 1
    assert "in use" in errors


@pytest.mark.submission
@pytest.mark.e2e
@pytest.mark.slow
def test_it_is_not_ready_before_its_workers_are(tmp_path):
    """The page of probes is there from the start: it says what is waited for, and then that nothing is."""

    async def story():
        async with serving(tmp_path, [("127.0.0.1", 9)], "--workers", "3", "--no-scrape") as picker:
            await until(lambda: is_ready(picker))
            return await picker.worker_pids()

    assert sorted(asyncio.run(story())) == [0, 1, 2]


async def is_ready(picker):
    return await picker.get("/readyz") == (200, "ok\n")
