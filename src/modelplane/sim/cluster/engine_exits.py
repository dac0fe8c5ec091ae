"""Why an engine's process exits before it serves, in the words of vLLM and SGLang.

    an option that the engine does not have, a value that cannot be read    exit code 2, as argparse does
    more GPUs than the pod's claims hold                                    exit code 1
    a memory limit too small to load the model                              OOMKilled, exit code 137
    weights that do not fit the GPUs' memory, or no room beside them        exit code 1

The last two are estimates from the sizes in the model's name (`hardware`), and are left out where it has none, where
the GPUs are not known and where weights are offloaded. While it loads, an engine needs `_HOST_BASE_GB` of host memory
and `_HOST_SHARE` of the weights.
"""

from collections.abc import Mapping
from dataclasses import replace

from modelplane.api.errors import InputError
from modelplane.api.objects import Manifest, text_at
from modelplane.k8s.quantity import as_approximate_float, is_quantity, parse_quantity
from modelplane.sim.cluster.claims import allocated_devices
from modelplane.sim.cluster.engine_command import EngineCommand, engine_command
from modelplane.sim.cluster.engine_exit import EngineExit
from modelplane.sim.cluster.engines import GPUS, Lookup
from modelplane.sim.cluster.lws_pods import group_size
from modelplane.sim.cluster.objects import annotation
from modelplane.sim.cluster.pod_status import engine_container
from modelplane.sim.cluster.serve_arguments import ServeArguments
from modelplane.sim.engine import GpuModel, ModelShape, gpu_of, known_shape_of, kv_capacity_tokens
from modelplane.sim.engine.known_flags import SGLANG, VLLM, FlagRules, unrecognized

FAILED, USAGE, KILLED = 1, 2, 137
_KNOWN = {"vllm": VLLM, "sglang": SGLANG}
_AS_KNOWN = FlagRules()
_NAMES = {"vllm": "vllm", "sglang": "launch_server.py"}
_HOST_BASE_GB, _HOST_SHARE = 4.0, 0.1
_OFFLOADS = ("--cpu-offload-gb", "--cpu-offload-params", "--offload-")
_NARROW = {"fp8": 1.0, "awq": 0.5, "gptq": 0.5, "bitsandbytes": 0.5, "mxfp4": 0.55}
_WIDE = {"float32": 4.0, "float": 4.0}
_GB, _GIB = 1e9, 2**30


def usage_exit(pod: Manifest, flags: FlagRules = _AS_KNOWN) -> EngineExit | None:
    """Whether the engine refuses its command line; None when it reads all of it."""
    container = engine_container(pod)
    command = engine_command(container) if container is not None else None
    if command is None:
        return None
    words = unrecognized(command.arguments, flags.applied(_KNOWN[command.program]))
    if words:
        return _usage(command, f"unrecognized arguments: {' '.join(words)}")
    try:
        ServeArguments.of(pod)
    except InputError as error:
        return _usage(command, str(error))
    return None


def load_exit(pod: Manifest, store: Lookup) -> EngineExit | None:
    """Whether the engine exits while it loads its model; `pod` has the annotation of its GPUs."""
    container = engine_container(pod)
    command = engine_command(container) if container is not None else None
    if container is None or command is None:
        return None
    arguments = ServeArguments.of(pod)
    return (
        _world_exit(pod, command, arguments, store)
        or _host_memory_exit(pod, container, arguments)
        or _gpu_memory_exit(pod, command, arguments)
    )


def _usage(command: EngineCommand, message: str) -> EngineExit:
    return EngineExit(USAGE, f"{_NAMES[command.program]}: error: {message}")


def _world_exit(pod: Manifest, command: EngineCommand, arguments: ServeArguments, store: Lookup) -> EngineExit | None:
    held = _gpus_held(pod, store)
    world = arguments.tensor_parallel * arguments.pipeline_parallel
    if not held or world <= held * group_size(pod):
        return None
    if command.program == "sglang":
        return EngineExit(FAILED, "torch.AcceleratorError: CUDA error: invalid device ordinal")
    many = f"World size ({world}) is larger than the number of available GPUs ({held}) in this node."
    return EngineExit(FAILED, f"ValueError: {many}")


def _gpus_held(pod: Manifest, store: Lookup) -> int:
    """The GPUs of the pod's claims; 0 where it has no claim."""
    if named := annotation(pod, GPUS):
        return len(named.split(","))
    return sum(text_at(device, "driver").startswith("gpu.") for device in allocated_devices(pod, store))


def _host_memory_exit(pod: Manifest, container: Mapping[str, object], arguments: ServeArguments) -> EngineExit | None:
    shape, limit = _shape(arguments), text_at(container, "resources", "limits", "memory")
    if shape is None or not is_quantity(limit):
        return None
    here_gb = shape.weights_gb / group_size(pod)
    if as_approximate_float(parse_quantity(limit)) >= (_HOST_BASE_GB + _HOST_SHARE * here_gb) * _GB:
        return None
    return EngineExit(KILLED, "", reason="OOMKilled")


def _gpu_memory_exit(pod: Manifest, command: EngineCommand, arguments: ServeArguments) -> EngineExit | None:
    shape, gpu = _shape(arguments), gpu_of(annotation(pod, GPUS).partition(",")[0])
    if shape is None or gpu is None or any(word.startswith(_OFFLOADS) for word in command.arguments):
        return None
    shards = arguments.tensor_parallel * arguments.pipeline_parallel * _expert_ranks(shape, arguments)
    if shape.weights_gb / shards > gpu.memory_gb:
        return EngineExit(FAILED, _out_of_memory(gpu, shape))
    if kv_capacity_tokens(shape, gpu, gpus=shards, share=arguments.memory_share):
        return None
    if command.program == "sglang":
        return EngineExit(FAILED, "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.")
    hint = "Try increasing `gpu_memory_utilization` when initializing the engine."
    return EngineExit(FAILED, f"ValueError: No available memory for the cache blocks. {hint}")


def _shape(arguments: ServeArguments) -> ModelShape | None:
    """The model as it is loaded, where its name has its size."""
    shape = known_shape_of(arguments.checkpoint)
    if shape is None:
        return None
    quantized = min((size for mark, size in _NARROW.items() if mark in arguments.quantization), default=None)
    if quantized is not None:
        return replace(shape, weight_bytes=min(shape.weight_bytes, quantized))
    return replace(shape, weight_bytes=max(shape.weight_bytes, _WIDE.get(arguments.dtype, 0.0)))


def _expert_ranks(shape: ModelShape, arguments: ServeArguments) -> int:
    """Data-parallel ranks hold a dense model each, and share the experts of others."""
    return arguments.data_parallel if shape.active_b < shape.parameters_b else 1


def _out_of_memory(gpu: GpuModel, shape: ModelShape) -> str:
    layer_mib = shape.weights_gb * _GB / shape.layers / 3 / 2**20
    total_gib = gpu.memory_gb * _GB / _GIB
    tried = f"Tried to allocate {layer_mib:.2f} MiB."
    free = f"GPU 0 has a total capacity of {total_gib:.2f} GiB of which {layer_mib / 3:.2f} MiB is free."
    return f"torch.OutOfMemoryError: CUDA out of memory. {tried} {free}"
