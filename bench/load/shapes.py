"""Loads that routing is judged by: what is asked, how often, and the engines under it."""

from typing import Final

import msgspec

from modelplane.sim.engine import (
    LLAMA_8B_H200,
    LLAMA_70B_H200,
    Timing,
    gpu_of,
    kv_capacity_tokens,
    shape_of,
    timing_for,
)

_H100: Final = gpu_of("NVIDIA H100 80GB HBM3")
_QWEN: Final = shape_of("Qwen3-32B")


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A load, and the engines under it."""

    name: str
    says: str
    engines: int
    timing: Timing
    cache_tokens: int
    batch: int
    budget: int = 8_192
    """Tokens of a step."""
    prefixes: int
    """How many long beginnings there are; 0: prompts have nothing in common."""
    prefix_tokens: int
    question_tokens: int
    answer_tokens: tuple[int, int]
    rate: float
    seconds: float
    skipped_s: float
    """Requests that left before this are not counted: caches are filling."""


if _H100 is None:
    raise SystemExit("the table of GPUs has no H100")

GROUPS: Final = Shape(
    name="groups",
    says="150 groups with a prefix of 6,000 tokens each, questions of 1,200, answers of 1,000; "
    "8 engines, Qwen3 32B on two H100 each",
    engines=8,
    timing=timing_for(_QWEN, _H100, tensor_parallel=2),
    cache_tokens=kv_capacity_tokens(_QWEN, _H100, gpus=2),
    batch=256,
    prefixes=150,
    prefix_tokens=6_000,
    question_tokens=1_200,
    answer_tokens=(1_000, 1_000),
    rate=8,
    seconds=80,
    skipped_s=30,
)
SHORT: Final = Shape(
    name="short",
    says="200 tokens in, 50 to 150 out, nothing in common; 10 engines, 70B on one H200 each, batches of up to 16",
    engines=10,
    timing=LLAMA_70B_H200,
    cache_tokens=100_000,
    batch=16,
    prefixes=0,
    prefix_tokens=0,
    question_tokens=200,
    answer_tokens=(50, 150),
    rate=30,
    seconds=120,
    skipped_s=20,
)
LONG: Final = Shape(
    name="long",
    says="24 documents of 100,000 tokens, answers of 1,000; 4 engines, 8B on one H200 each",
    engines=4,
    timing=LLAMA_8B_H200,
    cache_tokens=800_000,
    batch=256,
    prefixes=24,
    prefix_tokens=100_000,
    question_tokens=50,
    answer_tokens=(1_000, 1_000),
    rate=0.6,
    seconds=300,
    skipped_s=100,
)
PUBLISHED: Final = (GROUPS, SHORT, LONG)
CROWDED: Final = Shape(
    name="crowded",
    says="40 groups with a prefix of 4,000 tokens each, questions of 300, answers of 32; "
    "4 engines with little cache, 8B on a quarter of an H200 each",
    engines=4,
    timing=LLAMA_8B_H200.scaled(compute=0.25, bandwidth=0.25),
    cache_tokens=45_056,
    batch=64,
    prefixes=40,
    prefix_tokens=4_000,
    question_tokens=300,
    answer_tokens=(32, 32),
    rate=28,
    seconds=40,
    skipped_s=10,
)
"""As in `gpu/workloads.py`. Prefixes fill the caches and requests wait: what is known too late is computed twice."""
