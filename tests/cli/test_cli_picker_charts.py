"""Our picker with the arguments, the environment and the probes of other pickers' charts."""

import asyncio
import os
import re
import sys
from contextlib import asynccontextmanager

import aiohttp
import grpc
import pytest

from modelplane.conformance.epp.kube_pool import KubePool
from modelplane.epp.server.health import CHECK
from modelplane.epp.transport.wire import nested
from tests.cli.chart_arguments import REFUSED, STARTED

pytestmark = [pytest.mark.e2e, pytest.mark.submission]

ANY_PORT = ("--host", "127.0.0.1", "--grpc-port", "0", "--grpc-health-port", "0", "--metrics-port", "0")
"""In a pod the ports are free; here other tests run."""
SERVING = b"\x08\x01"


@asynccontextmanager
async def started(chart, folder):
    """The picker as the chart's pod starts it. The API has two ready pods with the chart's labels."""
    (folder / "default-plugins.yaml").write_text(chart.config)
    words = [word.replace("/config", str(folder)) for word in chart.arguments]
    async with KubePool(["127.0.0.1:8000", "127.0.0.2:8000"]).serving() as pool:
        pool.write_kubeconfig(folder / "kubeconfig")
        environment = os.environ | chart.environment | {"KUBECONFIG": str(folder / "kubeconfig")}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "modelplane", "picker", "serve", *words, *ANY_PORT),
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            await process.communicate()


async def ports_of(process):
    lines = []
    while line := (await process.stdout.readline()).decode():
        lines.append(line)
        if found := re.search(r"serving on port (\d+); health on (\d+); metrics on (\d+)", line):
            return [int(port) for port in found.groups()]
    raise AssertionError("".join(lines))


async def probe(port, service):
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        return await channel.unary_unary(CHECK)(nested(1, service.encode()))


async def page(port):
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        return await answer.text()


@pytest.mark.parametrize("chart", STARTED.values(), ids=STARTED)
def test_a_chart_starts_our_picker(chart, tmp_path):
    async def story():
        async with started(chart, tmp_path) as process:
            _, health, metrics = await ports_of(process)
            assert [await probe(health, service) for service in chart.probes] == [SERVING] * len(chart.probes)
            assert re.search(r"^llm_d_epp_ready_endpoints\{.*\} 2", await page(metrics), re.MULTILINE)

    asyncio.run(story())


@pytest.mark.parametrize("chart", REFUSED.values(), ids=REFUSED)
def test_replicas_with_a_leader_are_refused_with_what_to_use(chart, tmp_path):
    async def story():
        async with started(chart, tmp_path) as process:
            output, _ = await process.communicate()
            assert process.returncode == 1
            return output.decode()

    assert (
        "--ha-enable-leader-election is not supported: every replica answers: there is no leader; with --peers they "
        "share what they know"
    ) in asyncio.run(story())
