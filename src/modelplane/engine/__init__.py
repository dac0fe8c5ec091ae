"""A simulated inference engine: a real HTTP server that speaks OpenAI and reports like vLLM, without a GPU.

One `Engine` stands for one serving pod. Hundreds share an event loop: an idle engine is a listening socket and a few
small objects, no task and no timer. What it answers depends on its seed and the prompt only; how long it takes follows
times measured on a real GPU (`timing`), divided by `speed`.
"""

from modelplane.engine.config import EngineConfig
from modelplane.engine.server import Address, Engine
from modelplane.engine.timing import LLAMA_8B_H200, LLAMA_70B_H200, Timing

__all__ = ["LLAMA_8B_H200", "LLAMA_70B_H200", "Address", "Engine", "EngineConfig", "Timing"]
