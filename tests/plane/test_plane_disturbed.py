"""A whole plane, as a process, whose clock jumps, and one that its clients cannot reach for a time."""

import asyncio
import base64
import contextlib
import json
import ssl
import sys
from pathlib import Path

import aiohttp
import pytest
import yaml

from tests.plane.test_plane_kill import PATH, client, plane
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[2]
FLEET = sorted((ROOT / "examples" / "quickstart").glob("*.yaml"))
MODELS = "/apis/modelplane.ai/v1alpha1/namespaces/default"
CHAT = {"model": "default/chat", "max_tokens": 3, "messages": [{"role": "user", "content": "hi"}]}
HOUR_S = 3600
# Every module reads the wall clock as time.time(); what passes meanwhile is measured by other clocks.
SHIFTED = """
import sys, time
from pathlib import Path
real, shift = time.time, Path({shift!r})
time.time = lambda: real() + float(shift.read_text())
from modelplane.cli import main
sys.exit(main())
"""

pytestmark = [pytest.mark.e2e, pytest.mark.submission, pytest.mark.timeout(300)]


async def apply(session, *files):
    """Server-side apply of every document."""
    for document in (each for file in files for each in yaml.safe_load_all(file.read_text())):
        kind, metadata = document["kind"].lower(), document["metadata"]
        plural = f"{kind}es" if kind.endswith("s") else f"{kind}s"
        scope = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
        path = f"/apis/{document['apiVersion']}{scope}/{plural}/{metadata['name']}?fieldManager=test"
        headers = {"Content-Type": "application/apply-patch+yaml"}
        async with session.patch(path, data=json.dumps(document), headers=headers) as answer:
            assert answer.status in {200, 201}, await answer.text()


async def scale(session, replicas):
    headers = {"Content-Type": "application/merge-patch+json"}
    body = json.dumps({"spec": {"replicas": replicas}})
    async with session.patch(f"{MODELS}/modeldeployments/qwen3-8b", data=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()


async def listed(session, plural):
    async with session.get(f"{MODELS}/{plural}") as answer:
        return json.loads(await answer.read())["items"]


def is_ready(item):
    conditions = item.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def serving(session):
    """The uids of the replicas that are ready."""
    return {each["metadata"]["uid"] for each in await listed(session, "modelreplicas") if is_ready(each)}


async def statuses(session, address, requests=10):
    found = set()
    for _ in range(requests):
        async with session.post(f"{address}/v1/chat/completions", json=CHAT) as answer:
            found.add(answer.status)
        await asyncio.sleep(0.1)
    return found


def test_a_clock_that_jumps_moves_nothing(tmp_path):
    """Two hours on, five back, a year on: replicas stay, requests are served, and changes are made."""
    shift, data = tmp_path / "shift", tmp_path / "data"
    data.mkdir()
    shift.write_text("0")
    script = tmp_path / "shifted.py"
    script.write_text(SHIFTED.format(shift=str(shift)))

    async def scenario():
        async with client(data) as session, aiohttp.ClientSession() as caller:
            await apply(session, *FLEET)

            async def count(wanted):
                found = await serving(session)
                return found if len(found) == wanted else None

            async def available():
                found = [each["status"] for each in await listed(session, "modelservices") if is_ready(each)]
                return found[0]["address"] if found else None

            first = await until(lambda: count(2))
            url = await until(available)
            assert await statuses(caller, url) == {200}
            for jump, replicas in ((2 * HOUR_S, 3), (-5 * HOUR_S, 2), (8760 * HOUR_S, 3)):
                shift.write_text(f"{float(shift.read_text()) + jump}")
                assert await statuses(caller, url) == {200}
                assert len(await serving(session)) >= 2
                await scale(session, replicas)
                now = await until(lambda replicas=replicas: count(replicas))
                assert len(now & first) == 2
                assert await statuses(caller, url) == {200}

    with plane(data, [sys.executable, script]):
        asyncio.run(scenario())


class Relay:
    """Passes bytes to the plane and back, and nothing while it is cut. Connections stay open, as in a partition."""

    def __init__(self, host, port):
        self._target = (host, port)
        self._passes = asyncio.Event()
        self._passes.set()
        self._tasks = set()

    def cut(self):
        self._passes.clear()

    def heal(self):
        self._passes.set()

    @contextlib.asynccontextmanager
    async def serving(self):
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        async with server:
            yield server.sockets[0].getsockname()[1]
            self.heal()
            await asyncio.gather(*self._tasks)

    async def _accept(self, reader, writer):
        to_reader, to_writer = await asyncio.open_connection(*self._target)
        for pair in ((reader, to_writer), (to_reader, writer)):
            self._tasks.add(asyncio.create_task(self._pump(*pair)))

    async def _pump(self, reader, writer):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                await self._passes.wait()
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def relayed(data):
    """A relay to the plane's API, and a client of it that waits for a second."""
    config = yaml.safe_load((data / "kubeconfig").read_text())
    cluster, token = config["clusters"][0]["cluster"], config["users"][0]["user"]["token"]
    trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    host, port = cluster["server"].removeprefix("https://").split(":")
    relay = Relay(host, int(port))
    async with (
        relay.serving() as port,
        aiohttp.ClientSession(
            f"https://{host}:{port}",
            headers={"Authorization": f"Bearer {token}"},
            connector=aiohttp.TCPConnector(ssl=trust),
        ) as session,
    ):
        yield relay, session


def crate(name, count):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"count": f"{count}"}}


async def count_up(session, name, begin, end, timeout_s):
    """The last number that was acknowledged."""
    acknowledged = begin - 1
    for count in range(begin, end):
        verb, path = ("POST", PATH) if count == 1 else ("PUT", f"{PATH}/{name}")
        timeout = aiohttp.ClientTimeout(timeout_s)
        async with session.request(verb, path, json=crate(name, count), timeout=timeout) as answer:
            assert answer.status in {200, 201}, await answer.text()
        acknowledged = count
    return acknowledged


async def seen(session, name, end):
    """What a watch shows of an object until it has reached a number."""
    found = []
    async with session.get(f"{PATH}?watch=1&fieldSelector=metadata.name={name}") as answer:
        async for line in answer.content:
            found.append(int(json.loads(line)["object"]["data"]["count"]))
            if found[-1] == end:
                break
    return found


def test_a_partition_loses_nothing_that_was_acknowledged_and_no_event(tmp_path):
    async def scenario():
        async with client(tmp_path) as direct, relayed(tmp_path) as (relay, beyond):
            watching = asyncio.create_task(seen(beyond, "near", 40))
            assert await count_up(beyond, "far", 1, 10, 30.0) == 9
            assert await count_up(direct, "near", 1, 20, 30.0) == 19
            relay.cut()
            with pytest.raises(TimeoutError):
                await count_up(beyond, "far", 10, 11, 1.0)
            # Who can reach it is served meanwhile.
            assert await count_up(direct, "near", 20, 41, 30.0) == 40
            assert not watching.done()
            relay.heal()
            assert await asyncio.wait_for(watching, 30) == list(range(1, 41))
            async with direct.get(f"{PATH}/far") as answer:
                known = int((await answer.json())["data"]["count"])
            # The write that nobody acknowledged is there or not; those before it are.
            assert known in {9, 10}
            assert await count_up(beyond, "far", known + 1, 21, 30.0) == 20

    with plane(tmp_path):
        asyncio.run(scenario())
