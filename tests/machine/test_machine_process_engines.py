import asyncio
import sys
from pathlib import Path

import pytest

from modelplane.machine.gpus import LocalGpu
from modelplane.machine.process_engines import ProcessEngines
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.engine_exit import EngineExit, EngineExitedError
from tests.support.waiting import until

GPUS = tuple(LocalGpu(index, f"GPU-{index}", "NVIDIA H200", 143771, "9.0", "570.86.10") for index in range(4))
ENGINE = str(Path(__file__).with_name("small_engine.py"))
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


class Store:
    """A claim that holds two of the GPUs."""

    def get(self, ref):
        assert ref == ObjectRef("resource.k8s.io", "ResourceClaim", "team", "claim")
        results = [{"driver": "gpu.nvidia.com", "pool": "n", "device": f"gpu-{index}"} for index in (3, 1)]
        return {"status": {"allocation": {"devices": {"results": results}}}}


def pod(*command, claims=()):
    container = {"name": "engine", "image": "acme/own:1", "command": list(command)}
    wanted = [{"name": name, "resourceClaimTemplateName": "template"} for name in claims]
    return {
        "metadata": {"name": "p", "namespace": "team"},
        "spec": {"containers": [container], "resourceClaims": wanted},
        "status": {"resourceClaimStatuses": [{"name": name, "resourceClaimName": name} for name in claims]},
    }


def engines(tmp_path):
    return ProcessEngines(GPUS, tmp_path / "machine", tmp_path / "volumes")


@pytest.mark.parametrize(("claims", "seen"), [((), ""), (("claim",), "3,1")])
def test_an_engine_sees_the_gpus_that_its_pod_holds_alone(tmp_path, claims, seen):
    show = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"

    async def run():
        made, ended = engines(tmp_path), asyncio.get_running_loop().create_future()
        shown = pod(sys.executable, "-c", show, claims=claims)
        running = await made.start(shown, "this-machine", store=Store(), crashed=ended.set_result)
        found = await ended
        await made.stop(running, grace_s=0)
        return found

    assert asyncio.run(run()) == EngineExit(0, seen)


def test_a_program_that_is_not_there_is_the_pods_own_reason(tmp_path):
    async def run():
        await engines(tmp_path).start(pod("no-such-engine"), "m", store=Store(), crashed=lambda _ended: None)

    with pytest.raises(EngineExitedError) as caught:
        asyncio.run(run())
    assert caught.value.ended == EngineExit(127, "no-such-engine: not found on this machine")


def test_an_engine_is_probed_and_ends_with_its_pod(tmp_path):
    async def run():
        made = engines(tmp_path)
        running = await made.start(pod(sys.executable, ENGINE), "m", store=Store(), crashed=lambda _ended: None)
        await until(lambda: made.healthy(running))
        await made.stop(running, grace_s=10)
        return await made.healthy(running)

    assert asyncio.run(run()) is False


def test_an_engine_that_does_not_stop_is_killed(tmp_path):
    async def run():
        made, ended = engines(tmp_path), []
        shown = pod(sys.executable, "-c", STUBBORN)
        running = await made.start(shown, "m", store=Store(), crashed=ended.append)
        await until(made.log_of(shown, "engine").read_text)
        await made.stop(running, grace_s=0.2)
        return ended

    assert asyncio.run(run()) == []
