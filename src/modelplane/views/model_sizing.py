"""How much memory a model needs, and the fewest devices of one node that have it.

    weights    parameters in the type that they are stored in
    overhead   a fifth of the weights, for activations, graphs and communication
    KV cache   one request of the longest context

What is not known of a model is estimated upwards: its name tells parameters and type, and its size the KV cache of a
token. Models with latent or sliding attention need less. Only the engine's own start measures it.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from modelplane.api.codec import decode
from modelplane.api.errors import InputError
from modelplane.api.models import ClassDevice, InferenceClass, InferenceCluster
from modelplane.api.objects import Manifest, name_of
from modelplane.k8s.quantity import parse_quantity

BITS: Final[Mapping[str, float]] = {"bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "int4": 4.5}
"""Of one parameter, by type. Four bits come with scales for groups of parameters."""
OVERHEAD: Final = 0.2
USABLE: Final = 0.9
"""The part of a device's memory that vLLM takes unless it is told otherwise."""
GIB: Final = 1 << 30
_KIB: Final = 1 << 10
_NANOS: Final = 10**9
_SCALES: Final = {"M": 10**6, "B": 10**9, "T": 10**12}
_COUNT: Final = re.compile(r"(?:(\d{1,3})x)?(\d{1,5}(?:\.\d{1,4})?)([MBT])", re.IGNORECASE)
_COUNT_IN_NAME: Final = re.compile(rf"(?<![A-Za-z0-9.]){_COUNT.pattern}(?![A-Za-z0-9])", re.IGNORECASE)
_TYPES_IN_NAMES: Final = (
    ("fp8", re.compile(r"(?<![a-z0-9])(?:fp8|f8|w8a8-fp8)(?![a-z0-9])")),
    ("int8", re.compile(r"(?<![a-z0-9])(?:int8|w8a8|w8a16)(?![a-z0-9])")),
    ("int4", re.compile(r"(?<![a-z0-9])(?:int4|awq|gptq|w4a16|nvfp4|mxfp4|fp4|4bit)(?![a-z0-9])")),
)
_KV_KIB: Final = ((5e9, 128), (20e9, 160), (50e9, 256), (150e9, 320), (math.inf, 512))
"""KV cache of one token with grouped-query attention in 16 bits: models up to this many parameters, and KiB."""


class ModelSize(NamedTuple):
    parameters: int
    dtype: str
    context: int
    kv_per_token: int

    @property
    def weights(self) -> int:
        return math.ceil(self.parameters * BITS[self.dtype] / 8)

    @property
    def overhead(self) -> int:
        return math.ceil(self.weights * OVERHEAD)

    @property
    def kv_cache(self) -> int:
        return self.context * self.kv_per_token

    @property
    def total(self) -> int:
        return self.weights + self.overhead + self.kv_cache


class NodeDevices(NamedTuple):
    """Whole devices of one node, all the same."""

    class_name: str
    driver: str
    product: str
    devices: int
    memory: int

    @property
    def usable(self) -> int:
        """Of one of them."""
        return math.floor(self.memory * USABLE)


class ModelFit(NamedTuple):
    node: NodeDevices
    tensor: int


def parse_parameters(text: str) -> int:
    """`8B`, `1.5B`, `500M`, or `8x7B` for a mixture of experts."""
    found = _COUNT.fullmatch(text)
    parameters = _parameters(found) if found else 0
    if not parameters:
        raise InputError(f"{text!r} is not a number of parameters such as 8B, 1.5B or 500M")
    return parameters


def parameters_in(model: str) -> int | None:
    """The largest number that the name has. `A3B` is what is active of a mixture of experts: all of it is loaded."""
    found = (_parameters(each) for each in _COUNT_IN_NAME.finditer(model.rpartition("/")[2]))
    return max(found, default=0) or None


def dtype_in(model: str) -> str | None:
    name = model.rpartition("/")[2].lower()
    return next((dtype for dtype, pattern in _TYPES_IN_NAMES if pattern.search(name)), None)


def _parameters(found: re.Match[str]) -> int:
    return round(int(found[1] or 1) * float(found[2]) * _SCALES[found[3].upper()])


def estimated_kv_per_token(parameters: int) -> int:
    return next(kib for most, kib in _KV_KIB if parameters <= most) * _KIB


def nodes_of(items: Iterable[Manifest]) -> tuple[NodeDevices, ...]:
    """Of every InferenceClass that a pool uses; of all of them where there is no cluster."""
    found = list(items)
    clusters = [decode(InferenceCluster, item) for item in found if item.get("kind") == "InferenceCluster"]
    used = {pool.class_name for cluster in clusters for pool in cluster.spec.node_pools}
    classes = [item for item in found if item.get("kind") == "InferenceClass"]
    wanted = [item for item in classes if not clusters or name_of(item) in used]
    return tuple(node for item in wanted for node in _nodes(decode(InferenceClass, item)))


def _nodes(item: InferenceClass) -> Iterator[NodeDevices]:
    for each in item.spec.devices:
        memory = each.capacity.get("memory")
        if memory is not None and each.claim == "DRA" and _is_whole(each):
            product = _text(each, "productName") or each.name
            amount = (parse_quantity(memory.value).nanos or 0) // _NANOS
            yield NodeDevices(item.metadata.name, each.driver, product, each.count, amount)


def _is_whole(device: ClassDevice) -> bool:
    """A part of a GPU is not split over: which parts are there changes with those that are taken."""
    return not device.consumes_counters and not device.allow_multiple_allocations and _text(device, "type") != "mig"


def _text(device: ClassDevice, attribute: str) -> str:
    found = device.attributes.get(attribute)
    return (found.string or "") if found is not None else ""


def smallest_fit(size: ModelSize, nodes: Iterable[NodeDevices]) -> ModelFit | None:
    """The fewest devices, and among equals those with the least memory. Engines split a model by powers of two."""
    fits = (
        ModelFit(node, tensor)
        for node in nodes
        for tensor in _splits(node.devices)
        if size.total <= tensor * node.usable
    )
    return min(fits, key=lambda fit: (fit.tensor, fit.node.memory, fit.node.class_name), default=None)


def largest_node(nodes: Iterable[NodeDevices]) -> ModelFit | None:
    """What has the most memory for one model."""
    return max(
        (ModelFit(node, max(_splits(node.devices))) for node in nodes),
        key=lambda fit: (fit.tensor * fit.node.usable, fit.node.class_name),
        default=None,
    )


def _splits(devices: int) -> tuple[int, ...]:
    return tuple(1 << power for power in range(devices.bit_length()))
