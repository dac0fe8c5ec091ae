"""How long one step of an engine takes on a GPU.

A step is one pass over the layers: it decodes one token for some sequences and reads a piece of the prompt of others.
Its cost is a roofline, and the same five numbers give prefill, decode and every mix of them:

    overhead + (weights^k + (per_token · tokens)^k)^(1/k) + per_pair · pairs + per_kv_token · kv

`weights` is reading the weights once (memory bandwidth); `per_token` is multiplying them with one token (compute); the
blend of the two is their maximum with a soft corner, sharper for a larger `k`. `pairs` are the query-key pairs of the
prompt pieces, `(p + c)² - p²` for `c` tokens after `p`: causal attention counts each pair once and `per_pair` is half
of one. `kv` are the tokens held by the sequences that decode, whose keys and values are read once. `overhead` is what
small kernels cost however little they do; it does not shrink with the GPU.

Measured, not guessed: see LLAMA_8B_H200. `scaled` carries a measurement to other hardware by published ratios and
`sharded` to several GPUs; both are estimates. Left coarse: few sequences with long contexts decode slower than this on
plain kernels and not on those of production engines; host time between steps is not counted.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Coefficients of one model on one set of GPUs, in milliseconds."""

    overhead: float
    weights: float
    per_token: float
    per_pair: float
    per_kv_token: float
    blend: float = 3.5

    def step_ms(self, *, tokens: int, pairs: int = 0, kv_tokens: int = 0) -> float:
        """One step over `tokens`: those of prompt pieces plus one for each sequence that decodes."""
        read, compute = self.weights, self.per_token * tokens
        low, high = (read, compute) if read < compute else (compute, read)
        soft = high * (1 + (low / high) ** self.blend) ** (1 / self.blend) if high else 0.0
        return self.overhead + soft + self.per_pair * pairs + self.per_kv_token * kv_tokens

    def prefill_ms(self, tokens: int) -> float:
        """A whole prompt read in one step by an engine that does nothing else."""
        return self.step_ms(tokens=tokens, pairs=tokens * tokens)

    def decode_ms(self, *, sequences: int, kv_tokens: int) -> float:
        """One step that gives each of the sequences one more token."""
        return self.step_ms(tokens=sequences, kv_tokens=kv_tokens)

    def scaled(self, *, compute: float, bandwidth: float) -> "Timing":
        """The same model on a GPU with so many times the compute and the memory bandwidth."""
        return replace(
            self,
            weights=self.weights / bandwidth,
            per_token=self.per_token / compute,
            per_pair=self.per_pair / compute,
            per_kv_token=self.per_kv_token / bandwidth,
        )

    def sharded(self, gpus: int, *, latency_ms: float, per_token_ms: float) -> "Timing":
        """Tensor parallel: each GPU does its share; the two all-reduces of every layer add to all of them.

        `latency_ms` is what all of those cost a step for nothing, `per_token_ms` what moving one token's share costs.
        """
        if gpus == 1:
            return self
        shared = self.scaled(compute=gpus, bandwidth=gpus)
        return replace(shared, overhead=shared.overhead + latency_ms, per_token=shared.per_token + per_token_ms)

    def faster(self, speed: float) -> "Timing":
        """Everything takes `speed` times less: for simulations, not for hardware."""
        return replace(self.scaled(compute=speed, bandwidth=speed), overhead=self.overhead / speed)


# Fitted to 67 medians of 5 on one NVIDIA H200 (driver 580.159, PyTorch 2.11, CUDA 13, bf16), random weights in the
# shape of Llama 3 8B scaled from 8 layers, steps of up to 512 prompt tokens and all decode under CUDA graphs: prompts
# of 64 to 32,768 tokens, batches of 1 to 256 with contexts of 1k and 4k, mixtures of both, and the shards that 2 and 4
# tensor-parallel ranks would hold. Worst error: prompts from 1,024 tokens 4%, shorter ones 13%, decode 7%, mixed 7%.
# The parts make sense on their own: 16.1 GB of weights in 4.07 ms are 3.9 TB/s, 128 KiB of keys and values a token in
# 29.9 ns are 4.4 TB/s, of 4.8 published; 22.8 µs a token are 704 TFLOP/s of 989 published.
LLAMA_8B_H200 = Timing(
    overhead=1.52, weights=4.07, per_token=0.02283, per_pair=5.35e-7, per_kv_token=2.99e-5, blend=3.5
)

# The same with 102 medians in the shape of Llama 3 70B, for one GPU's worth of compute and for the shards of 2, 4 and 8
# ranks. Worst error: prompts from 1,024 tokens 7%, shorter ones 15%, decode 8%, mixed 10%.
LLAMA_70B_H200 = Timing(overhead=4.47, weights=36.0, per_token=0.217, per_pair=3.01e-6, per_kv_token=7.46e-5, blend=5.5)
