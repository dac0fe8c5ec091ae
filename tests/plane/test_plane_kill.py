"""kill -9 of a whole plane under load, over its API: whatever was acknowledged is there when it is back.

The suite kills a few; MODELPLANE_KILLS=100 (any number) kills that many. How long it takes is measured in bench/.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import time

import aiohttp
import pytest

from tests.support.plane_process import client, kill, plane

KILLS = int(os.environ.get("MODELPLANE_KILLS", "5"))
WRITERS = 4
PATH = "/api/v1/namespaces/default/configmaps"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60 * (KILLS + 1))]


async def written(folder):
    """What each writer's object says."""
    async with client(folder) as session, session.get(PATH) as answer:
        listed = json.loads(await answer.read())
    return {each["metadata"]["name"]: int(each["data"]["count"]) for each in listed["items"]}


async def write_until_killed(folder, process, known, after):
    """Writers count up, each in an object of its own, until the plane dies after so many acknowledgements."""
    acknowledged = dict(known)
    left = [after]

    async def write(session, name):
        with contextlib.suppress(aiohttp.ClientError):
            while True:
                count = acknowledged.get(name, 0) + 1
                body = {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": name},
                    "data": {"count": f"{count}"},
                }
                verb, path = ("POST", PATH) if count == 1 else ("PUT", f"{PATH}/{name}")
                async with session.request(verb, path, json=body) as answer:
                    assert answer.status in {200, 201}, await answer.text()
                    acknowledged[name] = count
                left[0] -= 1
                if left[0] <= 0:
                    kill(process)

    async with client(folder) as session:
        await asyncio.gather(*(write(session, f"writer-{number}") for number in range(WRITERS)))
    return acknowledged


@pytest.mark.submission
def test_nothing_that_the_api_acknowledged_is_lost(tmp_path):
    source = random.Random(KILLS)  # noqa: S311  reproducible, not secret
    acknowledged = {}
    for _ in range(KILLS):
        with plane(tmp_path) as process:
            found = asyncio.run(written(tmp_path))
            assert {name: found.get(name, 0) >= count for name, count in acknowledged.items()} == dict.fromkeys(
                acknowledged, True
            )
            # One write may have been stored whose answer did not arrive; its writer goes on from what is there.
            assert all(found[name] <= count + 1 for name, count in acknowledged.items())
            acknowledged = asyncio.run(write_until_killed(tmp_path, process, found, source.randrange(5, 120)))
    with plane(tmp_path):
        found = asyncio.run(written(tmp_path))
    assert all(found[name] >= count for name, count in acknowledged.items())


async def write_across_a_stop(folder, process, seconds):
    """Two writers count up; the plane is stopped meanwhile and goes on. What was acknowledged, and the longest wait."""
    acknowledged, waits = {}, []
    ends = time.monotonic() + seconds + 2

    async def write(session, name):
        while time.monotonic() < ends:
            count = acknowledged.get(name, 0) + 1
            metadata = {"name": name}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"count": f"{count}"}}
            verb, path = ("POST", PATH) if count == 1 else ("PUT", f"{PATH}/{name}")
            began = time.monotonic()
            async with session.request(verb, path, json=body) as answer:
                assert answer.status in {200, 201}, await answer.text()
            acknowledged[name] = count
            waits.append(time.monotonic() - began)

    async def stop():
        await asyncio.sleep(0.5)
        os.killpg(process.pid, signal.SIGSTOP)
        before = dict(acknowledged)
        await asyncio.sleep(seconds)
        # Answers that the kernel had may still arrive; nothing is written by a process that is stopped.
        assert all(acknowledged[name] <= count + 1 for name, count in before.items())
        os.killpg(process.pid, signal.SIGCONT)

    async with client(folder) as session:
        await asyncio.gather(stop(), *(write(session, f"stopped-{number}") for number in range(2)))
    return acknowledged, max(waits)


@pytest.mark.submission
def test_a_plane_that_is_stopped_goes_on_where_it_was(tmp_path):
    """SIGSTOP of the plane and all that it started, as a laptop that sleeps or a virtual machine that is moved."""
    stopped_s = 4.0
    with plane(tmp_path) as process:
        acknowledged, longest = asyncio.run(write_across_a_stop(tmp_path, process, stopped_s))
        assert stopped_s / 2 < longest < stopped_s + 5
        assert asyncio.run(written(tmp_path)).items() >= acknowledged.items()
        assert process.poll() is None
    with plane(tmp_path):
        assert asyncio.run(written(tmp_path)).items() >= acknowledged.items()
