"""How much a replica serves and how fast: the simulated engine's step times at rest, without running its steps.

A replica with a full batch gives a token to every sequence in each step, and reads `prompt / output` tokens of prompts
for each of them: with `b` sequences it ends `b / (output · step)` requests a second. `Timing` says how long such a step
takes on its GPUs; the batch grows until the cache or `max_num_seqs` is full, and that rate is the replica's capacity.

Left coarse: prefix caching, preemption of sequences, the picker's choice, and prefill on pods of its own.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from modelplane.api.objects import Json, Manifest, int_at, items_at, mapping_at, text_at
from modelplane.sim.cluster.engines import GPUS, engine_config
from modelplane.sim.engine import LLAMA_8B_H200, EngineConfig, Timing

_POINTS = 48
_PRODUCTS = ("productName", "model")


@dataclass(frozen=True, slots=True)
class RequestShape:
    """The mean request of a service, in tokens."""

    prompt: int
    output: int


@dataclass(frozen=True, slots=True)
class EngineSpeed:
    """All pods of a replica that answer requests. Rates are requests a second of one pod, one for each batch size."""

    pods: int
    timing: Timing
    shape: RequestShape
    batches: tuple[float, ...]
    rates: tuple[float, ...]

    @property
    def capacity(self) -> float:
        """Requests a second that the replica serves and not more."""
        return self.pods * self.rates[-1]

    def batch_at(self, rate: float) -> float:
        """Sequences that one pod decodes together while the replica gets so many requests a second."""
        each = rate / self.pods
        at = bisect_left(self.rates, each)
        if at >= len(self.rates):
            return self.batches[-1]
        low_rate, low = (self.rates[at - 1], self.batches[at - 1]) if at else (0.0, 0.0)
        return low + (self.batches[at] - low) * (each - low_rate) / (self.rates[at] - low_rate)

    def step_ms(self, batch: float) -> float:
        return _step_ms(self.timing, self.shape, batch)

    def prefill_ms(self, prompt: int, batch: float) -> float:
        """Until the first token: half of the step that runs, and the one that reads the prompt."""
        held = int(batch * (self.shape.prompt + self.shape.output / 2))
        reading = self.timing.step_ms(tokens=prompt + int(batch), pairs=prompt * prompt, kv_tokens=held)
        return self.step_ms(batch) / 2 + reading


def _step_ms(timing: Timing, shape: RequestShape, batch: float) -> float:
    reading = batch * shape.prompt / shape.output
    return timing.step_ms(
        tokens=max(1, round(batch + reading)),
        pairs=round(reading * shape.prompt),
        kv_tokens=round(batch * (shape.prompt + shape.output / 2)),
    )


def engine_speed(replica: Manifest, cluster: Manifest | None, shape: RequestShape) -> EngineSpeed:
    """Of a ModelReplica on an InferenceCluster. The GPUs are those of its pool; not known, those of an H200."""
    engine = next(iter(items_at(replica, "spec", "engines")), {})
    member = next(iter(items_at(engine, "members")), {})
    gpus = sum(int_at(each, "count", default=1) for each in items_at(member, "deviceRequests"))
    product = _product(cluster or {}, text_at(member, "nodePoolName"))
    pod: Json = {
        "metadata": {"name": "engine", "annotations": {GPUS: ",".join([product] * gpus)}},
        "spec": dict(mapping_at(member, "template", "spec")),
    }
    config = _config(msgspec.json.encode(pod))
    return _speed(config, shape, pods=int_at(engine, "copies", default=1))


@lru_cache(maxsize=256)
def _config(pod: bytes) -> EngineConfig:
    """The engine of a pod, by the code that configures simulated engines."""
    return engine_config(msgspec.json.decode(pod), "", speed=1.0, timing=LLAMA_8B_H200)


def _speed(config: EngineConfig, shape: RequestShape, *, pods: int) -> EngineSpeed:
    most = max(1.0, min(config.max_num_seqs, config.cache_tokens / (shape.prompt + shape.output)))
    batches = tuple(most * (at + 1) / _POINTS for at in range(_POINTS))
    rates = tuple(1000.0 * batch / (shape.output * _step_ms(config.timing, shape, batch)) for batch in batches)
    return EngineSpeed(pods, config.timing, shape, batches, _rising(rates))


def _rising(rates: tuple[float, ...]) -> tuple[float, ...]:
    """A larger batch never ends fewer requests: steps are whole tokens, and rounding may say so."""
    best, found = 0.0, list[float]()
    for rate in rates:
        best = max(best * (1 + 1e-9), rate)
        found.append(best)
    return tuple(found)


def _product(cluster: Manifest, pool: str) -> str:
    for found in items_at(cluster, "status", "gpuPools"):
        if text_at(found, "name") != pool:
            continue
        for device in items_at(found, "devices"):
            attributes = mapping_at(device, "attributes")
            for name in attributes:
                if name.rpartition("/")[2] in _PRODUCTS:
                    return text_at(attributes, name, "string")
    return ""
