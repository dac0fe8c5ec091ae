"""Why engines exit before they serve, in the words of vLLM and SGLang."""

from pathlib import Path

import pytest
import yaml

from modelplane.sim.cluster.engine_command import engine_command
from modelplane.sim.cluster.engine_exit import EngineExit
from modelplane.sim.cluster.engine_exits import load_exit, usage_exit
from modelplane.sim.cluster.engines import GPUS
from modelplane.sim.engine.known_flags import SGLANG as SGLANG_FLAGS
from modelplane.sim.engine.known_flags import VLLM, unrecognized

SGLANG = ["python3", "-m", "sglang.launch_server"]


class Claims:
    """One claim that holds some devices."""

    def __init__(self, gpus=0, nics=0):
        drivers = ["gpu.nvidia.com"] * gpus + ["dra.net"] * nics
        results = [{"driver": driver, "pool": "p", "device": str(number)} for number, driver in enumerate(drivers)]
        self._claim = {"status": {"allocation": {"devices": {"results": results}}}}

    def get(self, _ref):
        return self._claim

    def list(self, _group, _kind):
        return ()


def pod(*args, gpus="", command=None, memory=None, size=1):
    container = {"name": "engine", "image": "vllm/vllm-openai:v1", "args": list(args)}
    if command:
        container["command"] = command
    if memory:
        container["resources"] = {"limits": {"memory": memory}}
    marks = {GPUS: gpus, "leaderworkerset.sigs.k8s.io/size": str(size)}
    return {
        "metadata": {"name": "p", "namespace": "team", "annotations": marks},
        "spec": {"containers": [container], "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "t"}]},
        "status": {"resourceClaimStatuses": [{"name": "devices", "resourceClaimName": "c"}]},
    }


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (pod("m", "--max-model-len", "8k"), None),
        (pod("m", "--no-such-flag"), "vllm: error: unrecognized arguments: --no-such-flag"),
        (pod("m", "--max-model-len", "long"), "vllm: error: --max-model-len: 'long' is not a number"),
        (pod("--bogus", "1", command=SGLANG), "launch_server.py: error: unrecognized arguments: --bogus 1"),
        (pod("--bogus", command=["python", "server.py"]), None),
    ],
)
def test_command_lines(made, message):
    assert usage_exit(made) == (EngineExit(2, message) if message else None)


def test_a_pod_without_an_engine_has_no_command_line():
    worker = {"spec": {"containers": [{"name": "web", "args": ["--no-such-flag"]}]}}
    assert (usage_exit(worker), load_exit(worker, Claims())) == (None, None)


WORLD = "ValueError: World size (8) is larger than the number of available GPUs (4) in this node."
ORDINAL = "torch.AcceleratorError: CUDA error: invalid device ordinal"


@pytest.mark.parametrize(
    ("made", "claims", "message"),
    [
        (pod("m", "--tensor-parallel-size", "8"), Claims(8), None),
        (pod("m", "--tensor-parallel-size", "8"), Claims(4, nics=8), WORLD),
        (pod("m", "-tp", "4", "-pp", "2"), Claims(4), WORLD),
        (pod("m", "-tp", "4", "-pp", "2", size=2), Claims(4), None),
        (pod("m", "-tp", "8", gpus=",".join(["NVIDIA H200"] * 4)), Claims(), WORLD),
        (pod("m", "-tp", "8"), Claims(), None),
        (pod("--model-path", "m", "--tp", "8", command=SGLANG), Claims(4), ORDINAL),
    ],
)
def test_more_gpus_than_the_claims_hold(made, claims, message):
    assert load_exit(made, claims) == (EngineExit(1, message) if message else None)


NO_ROOM = (
    "ValueError: No available memory for the cache blocks. "
    "Try increasing `gpu_memory_utilization` when initializing the engine."
)
OUT = "torch.OutOfMemoryError: CUDA out of memory."


@pytest.mark.parametrize(
    ("args", "gpus", "begins"),
    [
        (("meta/llama-8b",), "NVIDIA L4", ""),
        (("meta/llama-70b",), "NVIDIA H100 80GB HBM3", OUT),
        (("meta/llama-70b", "--quantization", "fp8"), "NVIDIA H100 80GB HBM3", NO_ROOM),
        (("meta/llama-70b", "--quantization", "awq"), "NVIDIA H100 80GB HBM3", ""),
        (("meta/llama-70b", "-tp", "2"), "NVIDIA H200,NVIDIA H200", ""),
        (("meta/llama-70b", "--cpu-offload-gb", "100"), "NVIDIA H100 80GB HBM3", ""),
        (("meta/llama-8b", "--dtype", "float32"), "NVIDIA L4", OUT),
        (("meta/llama-8b", "--gpu-memory-utilization", "0.5"), "NVIDIA L4", NO_ROOM),
        (("openai/gpt-oss-20b",), "NVIDIA L4", ""),
        (("Qwen/Qwen3-235B-A22B", "--data-parallel-size", "8"), "NVIDIA H200", ""),
        (("Qwen/Qwen3-235B-A22B", "--data-parallel-size", "2"), "NVIDIA H200", OUT),
        (("meta/llama-70b", "--data-parallel-size", "8"), "NVIDIA H100 80GB HBM3", OUT),
        (("moonshotai/Kimi-K2",), "NVIDIA L4", ""),
        (("meta/llama-70b",), "Abacus 3000", ""),
    ],
)
def test_models_that_do_not_fit_their_gpus(args, gpus, begins):
    found = load_exit(pod(*args, gpus=gpus), Claims())
    assert (found is None) == (begins == "")
    if found is not None:
        assert (found.code, found.reason, found.message[: len(begins)]) == (1, "Error", begins)


def test_how_much_a_gpu_has_is_said():
    found = load_exit(pod("meta/llama-70b", gpus="NVIDIA L4"), Claims())
    assert found is not None
    assert "GPU 0 has a total capacity of 22.35 GiB of which" in found.message


@pytest.mark.parametrize(
    ("model", "memory", "killed"),
    [
        ("meta/llama-8b", "2Gi", True),
        ("meta/llama-8b", "8Gi", False),
        ("meta/llama-70b", "16Gi", True),
        ("meta/llama-70b", "32Gi", False),
        ("moonshotai/Kimi-K2", "1Gi", False),
        ("meta/llama-8b", None, False),
    ],
)
def test_a_memory_limit_that_is_too_small(model, memory, killed):
    found = load_exit(pod(model, memory=memory), Claims())
    assert found == (EngineExit(137, "", "OOMKilled") if killed else None)


def test_a_group_shares_the_load():
    assert load_exit(pod("meta/llama-70b", memory="12Gi", size=2), Claims()) is None


GOLDEN = Path(__file__).resolve().parents[2] / "compose" / "golden"


def containers(value):
    """Every container with an image, wherever it is in a document."""
    if isinstance(value, dict):
        if "image" in value and "name" in value:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for entry in value:
            yield from containers(entry)


def test_nothing_that_modelplane_renders_is_refused_by_its_engine():
    judged = 0
    for path in sorted(GOLDEN.glob("*.yaml")):
        for document in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader):
            for container in containers(document):
                command = engine_command(container)
                if command is not None:
                    judged += 1
                    known = {"vllm": VLLM, "sglang": SGLANG_FLAGS}[command.program]
                    assert unrecognized(command.arguments, known) == (), (path.name, container["name"])
    assert judged > 50
