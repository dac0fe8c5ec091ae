"""Simulated engines in a process of their own, each at an address of its own.

python -m load.pool SEQUENCES ADDRESS…        serves until it is ended, so many sequences a step
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from modelplane.sim.engine import EngineConfig, SimulatedEngine
from modelplane.sim.engine.metrics import CacheConfigInfo, EngineGauges, LoraGauge, exposition
from modelplane.sim.engine.stats import EngineStats

_ADAPTERS = 4
"""Places for LoRA: pickers look for this figure too."""
_BENCH = str(Path(__file__).resolve().parent.parent)
MODEL = "meta-llama/Llama-3.1-8B-Instruct"


def vllm_page() -> str:
    """The metrics of one of them, which has all that vLLM's has."""
    cache = CacheConfigInfo(block_size=16, blocks=50_000, prefix_caching=True)
    return exposition(
        MODEL,
        EngineStats(32_768),
        EngineGauges(running=3, waiting=0, kv_usage=0.1),
        cache,
        LoraGauge(max_loras=_ADAPTERS, running=(), waiting=(), at=0.0),
    )


@contextlib.asynccontextmanager
async def engine_pool(addresses: tuple[str, ...], max_num_seqs: int = 256) -> AsyncIterator[int]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "load.pool",
        str(max_num_seqs),
        *addresses,
        env={**os.environ, "PYTHONPATH": f"{_BENCH}:{os.environ.get('PYTHONPATH', '')}"},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        if process.stdout is None or not await process.stdout.readline():
            raise RuntimeError("the simulated engines did not start")
        yield process.pid
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _serve(max_num_seqs: int, addresses: list[str]) -> None:
    for number, address in enumerate(addresses):
        host, port = address.split(":")
        config = EngineConfig(
            cluster="bench",
            namespace="bench",
            pod=f"engine-{number}",
            models=(MODEL,),
            max_num_seqs=max_num_seqs,
            max_loras=_ADAPTERS,
        )
        await SimulatedEngine(config).start(host, int(port))
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), sys.argv[2:]))
