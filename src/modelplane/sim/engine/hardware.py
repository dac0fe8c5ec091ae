"""The cost of a model on a GPU: step times and cache capacity, from the model's size and the GPU's data sheet.

Two shapes were measured on one H200 (`timing`). Everything else is carried over from the nearer of them:
- another GPU by the ratio of its published dense bf16 FLOP/s and memory bandwidth to those of the H200;
- another model by its parameters, read from its name (`Qwen3-32B`, `30B-A3B`) where nothing better is known;
- tensor parallel by dividing, plus two all-reduces a layer over the published link bandwidth.
These are estimates: good enough to distinguish an L4 from a B200, not to compare two products.
"""

import re
from dataclasses import dataclass, replace

from modelplane.sim.engine.timing import LLAMA_8B_H200, LLAMA_70B_H200, Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """One GPU as its vendor publishes it. `link_gb_s` is one direction to the other GPUs of its node."""

    name: str
    tflops: float
    memory_gb: float
    bandwidth_tb_s: float
    link_gb_s: float


H200 = GpuModel(name="H200", tflops=989, memory_gb=141, bandwidth_tb_s=4.8, link_gb_s=450)

# From the vendors' data sheets: dense bf16 without sparsity, memory as marketed, NVLink or Infinity Fabric where there
# is one and else PCIe. In the order in which product names are searched: GH200 before H200, A100 before A10, L40S
# before L40 before L4. A pattern is matched against the whole upper-case product name.
_GPUS = (
    (r"GB?300|B300", GpuModel(name="B300", tflops=2250, memory_gb=288, bandwidth_tb_s=8.0, link_gb_s=900)),
    (r"GB200", GpuModel(name="GB200", tflops=2500, memory_gb=186, bandwidth_tb_s=8.0, link_gb_s=900)),
    (r"B200", GpuModel(name="B200", tflops=2250, memory_gb=180, bandwidth_tb_s=7.7, link_gb_s=900)),
    (r"GH200", GpuModel(name="GH200", tflops=990, memory_gb=96, bandwidth_tb_s=4.0, link_gb_s=450)),
    (r"H200", H200),
    (r"H100 NVL", GpuModel(name="H100 NVL", tflops=835, memory_gb=94, bandwidth_tb_s=3.9, link_gb_s=300)),
    (r"H100 PCIE", GpuModel(name="H100 PCIe", tflops=756, memory_gb=80, bandwidth_tb_s=2.0, link_gb_s=64)),
    (r"H100", GpuModel(name="H100", tflops=989, memory_gb=80, bandwidth_tb_s=3.35, link_gb_s=450)),
    (r"H20\b", GpuModel(name="H20", tflops=148, memory_gb=96, bandwidth_tb_s=4.0, link_gb_s=450)),
    (r"A100.*40GB", GpuModel(name="A100 40GB", tflops=312, memory_gb=40, bandwidth_tb_s=1.555, link_gb_s=300)),
    (r"A100", GpuModel(name="A100 80GB", tflops=312, memory_gb=80, bandwidth_tb_s=2.039, link_gb_s=300)),
    (r"\bA10G?\b", GpuModel(name="A10", tflops=125, memory_gb=24, bandwidth_tb_s=0.6, link_gb_s=32)),
    (r"\bL40S", GpuModel(name="L40S", tflops=362, memory_gb=48, bandwidth_tb_s=0.864, link_gb_s=32)),
    (r"\bL40\b", GpuModel(name="L40", tflops=181, memory_gb=48, bandwidth_tb_s=0.864, link_gb_s=32)),
    (r"\bL4\b", GpuModel(name="L4", tflops=121, memory_gb=24, bandwidth_tb_s=0.3, link_gb_s=32)),
    # T4 has no bf16; its fp16 rate is used, as engines fall back to it.
    (r"\bT4\b", GpuModel(name="T4", tflops=65, memory_gb=16, bandwidth_tb_s=0.32, link_gb_s=16)),
    (r"MI355X?", GpuModel(name="MI355X", tflops=2500, memory_gb=288, bandwidth_tb_s=8.0, link_gb_s=538)),
    (r"MI325X?", GpuModel(name="MI325X", tflops=1307, memory_gb=256, bandwidth_tb_s=6.0, link_gb_s=448)),
    (r"MI300X?", GpuModel(name="MI300X", tflops=1307, memory_gb=192, bandwidth_tb_s=5.3, link_gb_s=448)),
)

# One all-reduce of a few KiB between the GPUs of a node: an estimate, engines report 5 to 15 µs.
_ALL_REDUCE_MS = 0.01
_BYTES_BF16 = 2.0
# Grouped-query models of every size keep 8 heads of 128 for keys and as many for values.
_KV_BYTES_PER_LAYER = 2 * 8 * 128 * 2
# gpu_memory_utilization of vLLM, and what activations and graphs take of it.
MEMORY_SHARE = 0.9
_ACTIVATIONS_GB = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """The sizes that determine step times. `active` parameters are those used for one token."""

    parameters_b: float
    active_b: float
    layers: int
    hidden: int
    weight_bytes: float = _BYTES_BF16

    @property
    def kv_bytes_per_token(self) -> int:
        return self.layers * _KV_BYTES_PER_LAYER

    @property
    def weights_gb(self) -> float:
        return self.parameters_b * self.weight_bytes


LLAMA_8B = ModelShape(parameters_b=8.03, active_b=8.03, layers=32, hidden=4096)
LLAMA_70B = ModelShape(parameters_b=70.6, active_b=70.6, layers=80, hidden=8192)

_SIZE = re.compile(r"(?<![\w.])(?:(\d+)x)?(\d+(?:\.\d+)?)b(?![a-z])")
_ACTIVE = re.compile(r"(?<![a-z0-9])a(\d+(?:\.\d+)?)b(?![a-z])")
_NARROW = {"fp8": 1.0, "int8": 1.0, "w8a8": 1.0, "fp4": 0.5, "nvfp4": 0.5, "int4": 0.5, "awq": 0.5, "gptq": 0.5}
_NARROW |= {"gpt-oss": 0.55}  # published in MXFP4 only


def gpu_of(product: str) -> GpuModel | None:
    """The GPU of a product name (`NVIDIA H100 80GB HBM3`), or None."""
    upper = product.upper()
    return next((gpu for pattern, gpu in _GPUS if re.search(pattern, upper)), None)


def shape_of(model: str) -> ModelShape:
    """The sizes in a model's name; those of an 8B where it has none."""
    return known_shape_of(model) or LLAMA_8B


def known_shape_of(model: str) -> ModelShape | None:
    """The sizes in a model's name; None where it has none."""
    name = model.lower().replace("_", "-")
    found = _SIZE.search(name)
    if found is None:
        return None
    experts, size = int(found[1] or 1), float(found[2])
    active = _ACTIVE.search(name)
    # Mixtral's 8x7B meets two experts a token and shares a third of its weights between all.
    total, used = (size, size) if experts == 1 else (experts * size * 0.83, size * 1.85)
    shape = _shape(total, float(active[1]) if active else used)
    narrow = min((size for mark, size in _NARROW.items() if mark in name), default=_BYTES_BF16)
    return replace(shape, weight_bytes=narrow)


def timing_for(shape: ModelShape, gpu: GpuModel, *, tensor_parallel: int = 1) -> Timing:
    """The step times of this model on a number of these GPUs."""
    on_h200 = _on_h200(shape)
    here = on_h200.scaled(compute=gpu.tflops / H200.tflops, bandwidth=gpu.bandwidth_tb_s / H200.bandwidth_tb_s)
    reduces = 2 * shape.layers
    # A ring moves 2(n-1)/n of the data over each link; GB/s are 1e6 bytes a millisecond.
    moved = 2 * (tensor_parallel - 1) / tensor_parallel * shape.hidden * _BYTES_BF16
    return here.sharded(
        tensor_parallel,
        latency_ms=reduces * _ALL_REDUCE_MS,
        per_token_ms=reduces * moved / (gpu.link_gb_s * 1e6),
    )


def kv_capacity_tokens(shape: ModelShape, gpu: GpuModel, *, gpus: int = 1, share: float = MEMORY_SHARE) -> int:
    """How many tokens fit beside the weights; 0 where not even those do."""
    left_gb = gpus * (gpu.memory_gb * share - _ACTIVATIONS_GB) - shape.weights_gb
    return max(0, int(left_gb * 1e9 / shape.kv_bytes_per_token))


def _shape(total_b: float, active_b: float) -> ModelShape:
    """Depth and width grow together: a power law through 8B, 32B and 70B, of the part that a token meets."""
    layers = max(8, round(32 * (max(active_b, total_b / 8) / 8.03) ** 0.42))
    hidden = max(512, round((active_b * 1e9 / (layers * 15)) ** 0.5 / 128) * 128)
    return ModelShape(parameters_b=total_b, active_b=active_b, layers=layers, hidden=hidden)


def _on_h200(shape: ModelShape) -> Timing:
    near, measured = (LLAMA_8B, LLAMA_8B_H200) if shape.active_b < 24 else (LLAMA_70B, LLAMA_70B_H200)  # noqa: PLR2004  halfway between the two on a logarithmic scale
    depth = shape.layers / near.layers
    return replace(
        measured,
        overhead=measured.overhead * depth,
        # A batch of any size soon meets every expert, so all weights are read.
        weights=measured.weights * shape.weights_gb / near.weights_gb,
        per_token=measured.per_token * shape.active_b / near.active_b,
        per_pair=measured.per_pair * depth * shape.hidden / near.hidden,
        per_kv_token=measured.per_kv_token * depth,
    )
