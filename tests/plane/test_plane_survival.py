"""Traffic survives the control plane: it is away for a while, and nothing fails that has an endpoint.

The plane's Envoy ends with the plane, so that a plane that was killed leaves nothing behind. So the plane is stopped
here (SIGSTOP): it decides, writes and answers nothing, and Envoy goes on. MODELPLANE_SURVIVE_SECONDS says for how long,
and `-o junit_family=xunit1 --junitxml` has the number of requests.
The lab kills the control plane of Kubernetes (`survives`).
"""

import asyncio
import os
import signal
import subprocess
from collections import Counter

import aiohttp
import pytest
from aiohttp import web

from tests.support.plane_process import PROGRAM, client, plane
from tests.support.waiting import until

SECONDS = float(os.environ.get("MODELPLANE_SURVIVE_SECONDS", "12"))
CALLERS, PAUSE_S, SETTLE_S = 4, 0.05, 3.0
PATH = "/apis/modelplane.ai/v1alpha1/namespaces/default/modelservices/helper"

pytestmark = [pytest.mark.e2e, pytest.mark.submission, pytest.mark.timeout(SECONDS + 240)]

MANIFESTS = """
apiVersion: modelplane.ai/v1alpha1
kind: InferenceGateway
metadata: {name: default}
spec: {outbound: {allow: [localhost]}}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelService
metadata: {name: helper, namespace: default}
spec:
  endpoints:
  - {name: main, selector: {matchLabels: {tier: main}}}
  - {name: backup, priority: 1, selector: {matchLabels: {tier: backup}}}
"""
ENDPOINT = """---
apiVersion: modelplane.ai/v1alpha1
kind: ModelEndpoint
metadata: {{name: {name}, namespace: default, labels: {{tier: {tier}}}}}
spec: {{origin: "http://localhost:{port}", model: {name}}}
"""
TIERS = {"one": "main", "two": "main", "three": "backup"}


class Provider:
    """Answers with its name. It can go away, and come back at its port."""

    def __init__(self, name):
        self.name, self.port, self.runner = name, 0, None

    async def start(self):
        application = web.Application()
        application.router.add_post("/v1/chat/completions", self.answer)
        self.runner = web.AppRunner(application)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.port, reuse_address=True).start()
        self.port = self.runner.addresses[0][1]

    async def answer(self, request):
        body = await request.json()
        return web.json_response({"model": body["model"], "choices": []})

    async def stop(self):
        await self.runner.cleanup()


async def call(session, base):
    """Who answered, or what went wrong."""
    body = {"model": "default/helper", "messages": []}
    try:
        async with session.post(f"{base}/v1/chat/completions", json=body) as response:
            text = await response.text()
            return (await response.json())["model"] if response.status == 200 else f"{response.status}: {text}"
    except aiohttp.ClientError as error:
        return repr(error)


async def calls(base, seconds):
    found, ends = Counter(), asyncio.get_running_loop().time() + seconds

    async def caller(session):
        while asyncio.get_running_loop().time() < ends:
            found[await call(session, base)] += 1
            await asyncio.sleep(PAUSE_S)

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(caller(session) for _ in range(CALLERS)))
    return found


async def base_of(folder):
    """Where the service is, once it is routed to."""
    async with client(folder) as session:

        async def routed():
            async with session.get(PATH) as response:
                status = (await response.json()).get("status", {})
            ready = status.get("endpoints", {}).get("ready") == len(TIERS)
            return status["address"].removesuffix("/default/helper") if ready and "address" in status else None

        base = await until(routed)
    seen = set()
    async with aiohttp.ClientSession() as session:

        async def whole_tier_answers():
            seen.add(await call(session, base))
            return {"one", "two"} <= seen

        await until(whole_tier_answers)
    await asyncio.sleep(SETTLE_S)  # Envoy says nothing when it has the last endpoint
    return base


async def scenario(folder, process, providers):
    for provider in providers.values():
        await provider.start()
    manifests = MANIFESTS + "".join(
        ENDPOINT.format(name=name, tier=tier, port=providers[name].port) for name, tier in TIERS.items()
    )
    (folder / "manifests.yaml").write_text(manifests)
    await asyncio.to_thread(
        subprocess.run,
        [PROGRAM, "apply", "--data", folder, "-f", folder / "manifests.yaml"],
        check=True,
        capture_output=True,
    )
    base = await base_of(folder)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        steady = await calls(base, SECONDS / 4)
        await providers["one"].stop()
        without_one = await calls(base, SECONDS / 4)
        await providers["two"].stop()
        without_tier = await calls(base, SECONDS / 4)
        await providers["one"].start()
        await providers["two"].start()
        returned = await calls(base, SECONDS / 4 + 6)
    finally:
        os.kill(process.pid, signal.SIGCONT)
    async with client(folder) as session, session.get(PATH) as response:
        assert response.status == 200
    for provider in providers.values():
        await provider.stop()
    return steady, without_one, without_tier, returned


def test_nothing_fails_that_has_an_endpoint(tmp_path, record_property):
    providers = {name: Provider(name) for name in TIERS}
    with plane(tmp_path) as process:
        steady, without_one, without_tier, returned = asyncio.run(scenario(tmp_path, process, providers))
    record_property("requests", (steady + without_one + without_tier + returned).total())
    assert set(steady) == {"one", "two"}
    assert {"two"} <= set(without_one) <= {"two", "three"}, without_one
    assert without_one["two"] > 0.9 * without_one.total(), without_one
    assert set(without_tier) == {"three"}
    assert {"one", "two"} <= set(returned) <= set(TIERS)
    assert min(found.total() for found in (steady, without_one, without_tier)) > 10 * SECONDS / 4
