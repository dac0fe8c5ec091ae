"""The engine behind the HTTP: one scheduler with its clock, its counters, its adapters and its faults."""

from collections.abc import Callable, Iterable

from modelplane.sim.engine.adapters import LoadedAdapters
from modelplane.sim.engine.config import EngineConfig, KvTransfer
from modelplane.sim.engine.engine_loop import EngineClock, EngineLoop
from modelplane.sim.engine.faults import Faults, RequestFault, draw
from modelplane.sim.engine.kv_events import KvEventLog
from modelplane.sim.engine.kv_transfer import EngineRegistry, remote_cache, transfer_params
from modelplane.sim.engine.metrics import CacheConfigInfo, EngineGauges, LoraGauge, exposition
from modelplane.sim.engine.requests import Choice, EmbeddingRequest, GenerationRequest
from modelplane.sim.engine.scheduler import BatchScheduler
from modelplane.sim.engine.sequence import Notify, RemoteCache, Sequence, SequenceParams
from modelplane.sim.engine.stats import EngineStats
from modelplane.sim.engine.steps import BatchLimits


class EngineCore:
    """Turns accepted requests into sequences and runs them."""

    def __init__(
        self, config: EngineConfig, clock: EngineClock, wall_clock: Callable[[], float], exchange: EngineRegistry
    ) -> None:
        self.config = config
        self.clock = clock
        self.stats = EngineStats(config.max_model_len)
        self.log = KvEventLog(enabled=config.kv_events, wall_clock=wall_clock)
        self.adapters = LoadedAdapters(config.adapters, config.models)
        self.id = f"{config.cluster}/{config.namespace}/{config.pod}"
        self.address = ("", 0)
        self._wall_clock = wall_clock
        self._exchange = exchange
        self._scheduler = BatchScheduler(config.timing.faster(config.speed), _limits(config), self.log, self.stats)
        self._loop = EngineLoop(self._scheduler, clock, self.log.publish)
        self.faults = config.faults
        self.set_faults(config.faults)

    def open(self, host: str, port: int) -> None:
        self.address = (host, port)
        if self.config.kv_transfer is not None:
            self._exchange.join(self.id, self)

    def close(self) -> None:
        self._exchange.leave(self.id)
        self._loop.close()

    def set_faults(self, faults: Faults) -> None:
        was, self.faults = self.faults.stalled, faults
        if was or faults.stalled:
            self._loop.stall(stalled=faults.stalled)

    def fault(self, number: int) -> RequestFault:
        return draw(self.faults, identity=f"{self.config.seed}/{self.id}", number=number)

    def generate(self, generation: GenerationRequest, key: str, notify: Notify) -> list[Sequence]:
        """Submit every choice of a request, in order."""
        self.stats.received(choices=generation.per_prompt, max_tokens=generation.max_tokens)
        keys = [key, *(f"{key}-{index}" for index in range(1, len(generation.choices)))]
        params = (
            SequenceParams(
                key=name,
                prompt=choice.prompt,
                answer=choice.answer_ids(),
                reason=choice.answer.finish_reason,
                each=generation.stream,
                adapter=generation.adapter,
                salt=generation.salt,
                hold=self._holds(generation, index),
                remote=self._remote(generation, choice),
            )
            for index, (name, choice) in enumerate(zip(keys, generation.choices, strict=True))
        )
        return self._submit(params, notify)

    def embed(self, embedding: EmbeddingRequest, key: str, notify: Notify) -> list[Sequence]:
        params = (
            SequenceParams(key=f"{key}-{index}", prompt=ids, answer=(), reason="stop", adapter=embedding.adapter)
            for index, ids in enumerate(embedding.inputs)
        )
        return self._submit(params, notify)

    def abort(self, sequences: Iterable[Sequence]) -> None:
        """Abort unfinished sequences, after the client disconnected or the request ended."""
        for sequence in sequences:
            if not sequence.ended:
                self._loop.abort(sequence)

    def kv_transfer_params(self, sequences: list[Sequence]) -> dict[str, object] | None:
        """The kv_transfer_params of the response to a prefill request."""
        first = sequences[0]
        if not first.hold:
            return None
        shards = self.config.tensor_parallel
        return transfer_params(first, engine=self.id, address=self.address, tensor_parallel=shards)

    def keeps(self, request: str) -> bool:
        return self._scheduler.keeps(request)

    def release(self, request: str) -> None:
        if self._scheduler.release_lease(request):
            self._loop.wake_up()

    def reset_prefix_cache(self) -> bool:
        forgotten = self._scheduler.reset_prefix_cache()
        self.log.publish()
        return forgotten

    @property
    def load(self) -> int:
        """Sequences that run or wait."""
        gauges = self.gauges()
        return gauges.running + gauges.waiting

    def gauges(self) -> EngineGauges:
        scheduler = self._scheduler
        loading = len(scheduler.loading)
        return EngineGauges(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting) + loading,
            loading=loading,
            kv_usage=scheduler.cache_usage,
        )

    def metrics(self) -> str:
        config = self.config
        cache = CacheConfigInfo(
            block_size=config.block_size, blocks=config.blocks, prefix_caching=config.prefix_caching
        )
        return exposition(config.models[0], self.stats, self.gauges(), cache, self._lora())

    def _lora(self) -> LoraGauge | None:
        if not self.config.max_loras:
            return None
        return LoraGauge(
            max_loras=self.config.max_loras,
            running=_adapters(self._scheduler.running),
            waiting=_adapters(self._scheduler.waiting),
            at=self._wall_clock(),
        )

    def _submit(self, params: Iterable[SequenceParams], notify: Notify) -> list[Sequence]:
        submitted = [Sequence(params, notify) for params in params]
        for sequence in submitted:
            self._loop.submit(sequence)
        return submitted

    def _holds(self, generation: GenerationRequest, index: int) -> bool:
        wanted = generation.transfer is not None and generation.transfer.do_remote_decode
        return wanted and index == 0 and self.config.kv_transfer is not None

    def _remote(self, generation: GenerationRequest, choice: Choice) -> RemoteCache | None:
        if generation.transfer is None:
            return None
        tokens = len(choice.prompt)
        return remote_cache(generation.transfer, prompt_tokens=tokens, config=self.config, exchange=self._exchange)


def _limits(config: EngineConfig) -> BatchLimits:
    transfer = config.kv_transfer or KvTransfer()
    return BatchLimits(
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        block_size=config.block_size,
        blocks=config.blocks,
        prefix_caching=config.prefix_caching,
        max_loras=config.max_loras,
        lease_s=transfer.lease_s / config.speed,
        recompute_lost_cache=transfer.recompute,
    )


def _adapters(sequences: Iterable[Sequence]) -> tuple[str, ...]:
    return tuple(sorted({sequence.adapter for sequence in sequences if sequence.adapter is not None}))
