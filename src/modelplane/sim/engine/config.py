from dataclasses import dataclass
from typing import Literal

from modelplane.api.errors import InputError
from modelplane.sim.engine.faults import NO_FAULTS, Faults
from modelplane.sim.engine.timing import LLAMA_8B_H200, Timing

KvRole = Literal["kv_producer", "kv_consumer", "kv_both"]


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter, addressed as a model by its name."""

    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KvTransfer:
    """How keys and values travel between a prefill engine and a decode engine.

    gb_per_s: bandwidth of copies; 400 Gb/s for each GPU, as in H100 and H200 nodes.
    latency_ms: setup time of one copy; an estimate.
    lease_s: how long a prefill engine keeps a prompt's blocks for the decode engine (`kv_lease_duration` of vLLM).
    recompute: whether a decode engine computes what it cannot fetch; vLLM fails such requests by default.
    """

    role: KvRole = "kv_both"
    gb_per_s: float = 50.0
    latency_ms: float = 2.0
    lease_s: float = 30.0
    recompute: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Configuration of an engine.

    The first of `models` labels the metrics, as vLLM's first served name does; all of them are answered to. `speed`
    divides every simulated time, so a test may run a thousand times faster than the GPU.

    tensor_parallel: reported only; `timing` includes its effect.
    max_num_seqs, max_num_batched_tokens: sequences and tokens of a step; vLLM's own defaults on an H200.
    kv_capacity_tokens: how many tokens the cache holds, rounded down to blocks of `block_size`.
    kv_bytes_per_token: KV cache bytes of a token, for copies between engines.
    max_loras: adapters that can be in the batch together; 0 serves none. `adapters` are known from the start, and
        others may be loaded while the engine runs if `runtime_lora`.
    kv_transfer: None takes no part in prefill/decode disaggregation.
    kv_events: whether to publish KV events.
    startup_s: how long `start` takes to listen, divided by `speed` as everything else.
    faults: injected faults; with `fault_header` a request can set one.
    """

    cluster: str
    namespace: str
    pod: str
    models: tuple[str, ...]
    timing: Timing = LLAMA_8B_H200
    tensor_parallel: int = 1
    speed: float = 1.0
    seed: int = 0
    max_model_len: int = 32_768
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8_192
    # 90% of an H200's 141 GB, without 16 GB of bf16 8B weights, at 128 KiB of keys and values a token.
    kv_capacity_tokens: int = 800_000
    kv_bytes_per_token: int = 131_072
    block_size: int = 16
    prefix_caching: bool = True
    max_loras: int = 0
    adapters: tuple[Adapter, ...] = ()
    runtime_lora: bool = True
    kv_transfer: KvTransfer | None = None
    kv_events: bool = False
    embedding_size: int = 1_024
    startup_s: float = 0.0
    faults: Faults = NO_FAULTS
    fault_header: bool = True
    max_body_bytes: int = 4 * 1024 * 1024

    def __post_init__(self) -> None:
        if not self.models or not all(self.models):
            raise self._refusal("models: give at least one name, none of them empty")
        if self.speed <= 0:
            raise self._refusal(f"speed: must be above 0, not {self.speed}")
        for field in ("max_num_seqs", "max_num_batched_tokens", "block_size", "embedding_size"):
            value = getattr(self, field)
            if value < 1:
                raise self._refusal(f"{field}: must be at least 1, not {value}")
        if not 1 <= self.max_model_len <= self.cache_tokens:
            raise self._refusal(
                f"max_model_len: must be between 1 and the {self.cache_tokens} tokens the cache holds, "
                f"not {self.max_model_len}"
            )
        self._check_adapters()

    def _check_adapters(self) -> None:
        if self.adapters and not self.max_loras:
            raise self._refusal("adapters: LoRA is not enabled, max_loras is 0")
        names = [*self.models, *(adapter.name for adapter in self.adapters)]
        if len(set(names)) < len(names):
            raise self._refusal("adapters: every adapter and model needs a name of its own")

    def _refusal(self, sentence: str) -> InputError:
        return InputError(f"engine {self.served_by}: {sentence}")

    @property
    def served_by(self) -> str:
        """The value of the `x-served-by` response header."""
        return f"{self.cluster}/{self.pod}"

    @property
    def blocks(self) -> int:
        return self.kv_capacity_tokens // self.block_size

    @property
    def cache_tokens(self) -> int:
        return self.blocks * self.block_size
