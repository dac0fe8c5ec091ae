"""How long a GPU takes: prefill by prompt length, decode by batch and cache size.

Prefill is bound by compute, `max(floor, a t + b t²)` for `t` prompt tokens: the quadratic term is attention. Decode is
bound by memory bandwidth, `floor + c n + d kv` for one step of `n` sequences holding `kv` tokens: the floor reads the
weights once, the last term reads the cache. Both are fits of measurements; `scaled` carries them to other hardware by
published ratios, which is an estimate and no measurement.

Coarse on purpose: one prefill never slows another sequence's decode here, and a step serves one request's token. A
batching clock that mixes both belongs in `batch`, which is the only caller.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Coefficients of one model on one GPU, in milliseconds."""

    prefill_floor: float
    prefill_per_token: float
    prefill_per_token_squared: float
    decode_floor: float
    decode_per_sequence: float
    decode_per_kv_token: float

    def prefill_ms(self, tokens: int) -> float:
        """From a prompt's admission to its first token."""
        curve = self.prefill_per_token * tokens + self.prefill_per_token_squared * tokens * tokens
        return max(self.prefill_floor, curve)

    def decode_ms(self, *, sequences: int, kv_tokens: int) -> float:
        """One step, which gives each running sequence one more token."""
        return self.decode_floor + self.decode_per_sequence * sequences + self.decode_per_kv_token * kv_tokens

    def scaled(self, *, compute: float, bandwidth: float) -> "Timing":
        """The same model where prefill runs `compute` times and decode `bandwidth` times as fast."""
        return Timing(
            prefill_floor=self.prefill_floor / compute,
            prefill_per_token=self.prefill_per_token / compute,
            prefill_per_token_squared=self.prefill_per_token_squared / compute,
            decode_floor=self.decode_floor / bandwidth,
            decode_per_sequence=self.decode_per_sequence / bandwidth,
            decode_per_kv_token=self.decode_per_kv_token / bandwidth,
        )


# Fitted to medians of 5 on one NVIDIA H200 (driver 580.159), PyTorch 2.11, CUDA 13, bf16, random weights in the shape
# of Llama 3 8B, decode under CUDA graphs. Error: prefill at most 3% from 1,024 tokens, decode at most 15% (batches
# under 16 with contexts over 4k left out of the fit).
LLAMA_8B_H200 = Timing(
    prefill_floor=9.0,
    prefill_per_token=0.02369,
    prefill_per_token_squared=4.78e-7,
    decode_floor=5.41,
    decode_per_sequence=0.0100,
    decode_per_kv_token=2.83e-5,
)

# The same measurement in the shape of Llama 3 70B, for one GPU's worth of compute. Error: prefill at most 3%, decode
# at most 9%.
LLAMA_70B_H200 = Timing(
    prefill_floor=43.0,
    prefill_per_token=0.217,
    prefill_per_token_squared=2.55e-6,
    decode_floor=37.16,
    decode_per_sequence=0.0795,
    decode_per_kv_token=7.06e-5,
)
