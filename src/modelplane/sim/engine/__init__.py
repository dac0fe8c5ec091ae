"""A simulated inference engine: a real HTTP server with OpenAI's API and vLLM's metrics, without a GPU.

One `SimulatedEngine` is one serving pod. Hundreds share an event loop: an idle engine is a listening socket and a few
small objects, no task and no timer. Its response depends on its seed and the prompt only; its latency depends on its
batch: a step of the batch costs what was measured on a real GPU (`timing`), divided by `speed`.

    http      server → service → answering        sockets, paths, streams
    bodies    bodies → requests → replies         requests and responses
    engine    core → batch → schedule → blocks    the batch, step by step; the cache, block by block

`scheduler` plans steps and `timing` gives their cost; neither uses a clock or sockets.
"""

from modelplane.sim.engine.config import Adapter, EngineConfig, KvRole, KvTransfer
from modelplane.sim.engine.faults import NO_FAULTS, Faults, read_list
from modelplane.sim.engine.hardware import (
    GpuModel,
    ModelShape,
    gpu_of,
    known_shape_of,
    kv_capacity_tokens,
    shape_of,
    timing_for,
)
from modelplane.sim.engine.kv_events import PublishedBatch
from modelplane.sim.engine.kv_transfer import EngineRegistry
from modelplane.sim.engine.server import Address, RequestTracer, SimulatedEngine
from modelplane.sim.engine.timing import LLAMA_8B_H200, LLAMA_70B_H200, Timing

__all__ = [
    "LLAMA_8B_H200",
    "LLAMA_70B_H200",
    "NO_FAULTS",
    "Adapter",
    "Address",
    "EngineConfig",
    "EngineRegistry",
    "Faults",
    "GpuModel",
    "KvRole",
    "KvTransfer",
    "ModelShape",
    "PublishedBatch",
    "RequestTracer",
    "SimulatedEngine",
    "Timing",
    "gpu_of",
    "known_shape_of",
    "kv_capacity_tokens",
    "read_list",
    "shape_of",
    "timing_for",
]
