"""One step of an engine, and the limits that steps are planned within."""

from dataclasses import dataclass

from modelplane.sim.engine.sequence import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """The limits of the batch and the cache. No adapters if `max_loras` is 0."""

    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    blocks: int
    prefix_caching: bool = True
    max_loras: int = 0
    lease_s: float = 30.0
    recompute_lost_cache: bool = False


@dataclass(slots=True)
class BatchStep:
    """Sequences with how many tokens of each are computed; `repeats` decode steps in a row where that is above 1."""

    work: list[tuple[Sequence, int]]
    tokens: int = 0
    pairs: int = 0
    kv_tokens: int = 0
    repeats: int = 1
    seconds: float = 0.0

    def add(self, sequence: Sequence, new: int) -> None:
        self.work.append((sequence, new))
        self.tokens += new
        before = sequence.computed
        if new == 1:
            self.kv_tokens += before + 1
        else:
            self.pairs += new * (2 * before + new)
