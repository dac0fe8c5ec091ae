import asyncio
import os
import sys

import pytest

from tests.support.waiting import until

PLANE = """
import asyncio, pathlib, sys
from modelplane.envoy import EnvoyProcess

async def main():
    envoy = EnvoyProcess(pathlib.Path(sys.argv[1]))
    await envoy.start()
    print(envoy.pid, flush=True)
    await envoy.wait()

asyncio.run(main())
"""


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123  a kernel file, read once
            return stat.read().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_envoy_dies_with_a_plane_that_is_killed(tmp_path):
    async def scenario():
        plane = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PLANE, str(tmp_path)), stdout=asyncio.subprocess.PIPE
        )
        envoy = int(await plane.stdout.readline())
        assert is_running(envoy)
        os.kill(plane.pid, 9)
        await plane.wait()
        await until(lambda: not is_running(envoy))

    asyncio.run(scenario())


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_parent_that_is_already_gone_starts_nothing(tmp_path):
    from modelplane.envoy import die_with_parent as tether

    async def scenario():
        gone = str(2**22)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", tether.__file__, gone, "/bin/touch", str(tmp_path / "ran"))
        )
        assert await process.wait() == 1
        assert not (tmp_path / "ran").exists()

    asyncio.run(scenario())
