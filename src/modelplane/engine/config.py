from dataclasses import dataclass

from modelplane.api.errors import InputError
from modelplane.engine.timing import LLAMA_8B_H200, Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Who an engine is, what it serves and how fast.

    The first of `models` labels the metrics, as vLLM's first served name does; all of them are answered to. `speed`
    divides every simulated time, so a test may run a thousand times faster than the GPU.
    """

    cluster: str
    namespace: str
    pod: str
    models: tuple[str, ...]
    timing: Timing = LLAMA_8B_H200
    speed: float = 1.0
    seed: int = 0
    max_model_len: int = 32_768
    max_num_seqs: int = 256
    # What 90% of an H200's 141 GB holds beside 16 GB of bf16 8B weights, at 128 KiB of keys and values a token.
    kv_capacity_tokens: int = 800_000
    max_body_bytes: int = 4 * 1024 * 1024

    def __post_init__(self) -> None:
        if not self.models or not all(self.models):
            raise InputError(f"engine {self.served_by}: models: give at least one name, none of them empty")
        if self.speed <= 0:
            raise InputError(f"engine {self.served_by}: speed: must be above 0, not {self.speed}")
        if self.max_num_seqs < 1:
            raise InputError(f"engine {self.served_by}: max_num_seqs: must be at least 1, not {self.max_num_seqs}")
        if not 1 <= self.max_model_len <= self.kv_capacity_tokens:
            raise InputError(
                f"engine {self.served_by}: max_model_len: must be between 1 and the {self.kv_capacity_tokens} tokens "
                f"the cache holds, not {self.max_model_len}"
            )

    @property
    def served_by(self) -> str:
        """What the `x-served-by` header of every answer says."""
        return f"{self.cluster}/{self.pod}"
