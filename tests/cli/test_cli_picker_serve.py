"""`modelplane picker serve`: what its flags ask for, and a process that serves and ends as it should."""

import asyncio
import re
import signal
import sys

import aiohttp
import grpc
import pytest

from modelplane.cli import main
from modelplane.envoy.ports import free_port
from modelplane.epp.server.health import CHECK

ENDPOINTS = "endpoints:\n- {name: a, address: 127.0.0.1, port: 9}\n"
ANYWHERE = [
    "--host",
    "127.0.0.1",
    "--grpc-port",
    "0",
    "--grpc-health-port",
    "0",
    "--metrics-port",
    "0",
    "--zap-encoder",
    "console",
]


@pytest.fixture
def listed(tmp_path):
    path = tmp_path / "endpoints.yaml"
    path.write_text(ENDPOINTS)
    return path


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ([], "say where endpoints come from"),
        (["--endpoints", "x.yaml", "--pool", "a/b"], "say where endpoints come from"),
        (["--endpoints", "{listed}", "--grpc-port", "x"], "'x' is no port"),
        (["--endpoints", "{listed}", "--drain-timeout", "soon"], "is no duration"),
        (["--endpoints", "{listed}", "--secure-serving", "maybe"], "neither true nor false"),
        (["--endpoints", "{listed}", "--secure-serving", "false", "--client-ca", "x"], "need --secure-serving true"),
        (["--endpoints", "{listed}", "--config", "missing.yaml"], "missing.yaml: No such file"),
        (["--endpoints", "{listed}", "--config", "{listed}", "--config-text", "a"], "two configurations"),
        (["--endpoints", "{listed}", "--config-text", "kind: Nonsense"], "--config-text:1"),
        (["--endpoints", "{listed}", "--cert-path", "nowhere"], "tls.crt: No such file"),
        (["--endpoints", "{listed}", "--decision-log", "no/folder"], "--decision-log no/folder: No such file"),
        (["--endpoints", "{listed}", "--decision-log-share", "2"], "'2' is no share"),
        (["--endpoints", "{listed}", "--tracing-share", "x"], "'x' is no share"),
        (["--endpoints", "{listed}", "--peers", "pickers"], "--peers: 'pickers' is not HOST:PORT"),
        (["--endpoints", "{listed}", "--peers", "a:1,b:0"], "--peers: 'b:0' is not HOST:PORT"),
        (["--endpoints", "{listed}", "--tracing-endpoint", "http://x"], "--tracing-endpoint needs --tracing-share"),
    ],
)
def test_flags_that_cannot_be(flags, sentence, listed, capsys):
    words = [flag.replace("{listed}", str(listed)) for flag in flags]
    assert main(["picker", "serve", *ANYWHERE, *words]) == 1
    assert sentence in capsys.readouterr().err


async def _serve_and_stop(listed, *flags):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "modelplane", "picker", "serve", "--endpoints", str(listed), *ANYWHERE, *flags),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    line = (await process.stdout.readline()).decode()
    found = re.search(r"serving on port (\d+); health on (\d+); metrics on (\d+)", line)
    assert found, line + (await process.stderr.read()).decode()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{found[2]}") as channel:
        health = await channel.unary_unary(CHECK)(b"")
    process.send_signal(signal.SIGTERM)
    await process.communicate()
    return health, process.returncode


@pytest.mark.e2e
@pytest.mark.parametrize("flags", [[], ["--secure-serving", "false"], ["--server", "grpc"]], ids=str)
def test_it_serves_until_it_is_told_to_stop(listed, flags):
    async def limited():
        async with asyncio.timeout(50):
            return await _serve_and_stop(listed, "--no-scrape", *flags)

    assert asyncio.run(limited()) == (b"\x08\x01", 0)


async def _two_that_share(listed):
    ports = [free_port(), free_port()]
    peers = ",".join(f"127.0.0.1:{port}" for port in ports)
    flags = ["--no-scrape", "--secure-serving", "false", "--peers", peers]
    words = [sys.executable, "-m", "modelplane", "picker", "serve", "--endpoints", str(listed), *ANYWHERE, *flags]
    processes = [
        await asyncio.create_subprocess_exec(*words, "--peer-port", str(port), stdout=asyncio.subprocess.PIPE)
        for port in ports
    ]
    try:
        lines = [(await process.stdout.readline()).decode() for process in processes]
        pages = [re.search(r"metrics on (\d+)", line)[1] for line in lines]
        async with aiohttp.ClientSession() as client:
            while True:
                texts = [await (await client.get(f"http://127.0.0.1:{port}/metrics")).text() for port in pages]
                if all("llm_d_epp_peers 1\n" in text for text in texts):
                    return True
                await asyncio.sleep(0.1)
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
            await process.communicate()


@pytest.mark.submission
@pytest.mark.e2e
def test_two_processes_hear_each_other(listed):
    async def limited():
        async with asyncio.timeout(50):
            return await _two_that_share(listed)

    assert asyncio.run(limited())
