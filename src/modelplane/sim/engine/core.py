"""The engine behind the HTTP: one scheduler with its clock, its counters, its adapters and its faults."""

from collections.abc import Callable, Iterable

from modelplane.sim.engine.adapters import LoadedAdapters
from modelplane.sim.engine.batch import Batch, EngineClock
from modelplane.sim.engine.config import EngineConfig, KvTransfer
from modelplane.sim.engine.faults import Faults, RequestFault, draw
from modelplane.sim.engine.figures import EngineStats
from modelplane.sim.engine.kv_events import KvEventLog
from modelplane.sim.engine.metrics import CacheConfigInfo, EngineGauges, LoraGauge, exposition
from modelplane.sim.engine.requests import Choice, EmbeddingRequest, GenerationRequest
from modelplane.sim.engine.schedule import BatchScheduler
from modelplane.sim.engine.sequence import Draft, Notify, RemoteCache, Sequence
from modelplane.sim.engine.steps import BatchLimits
from modelplane.sim.engine.transfer import EngineRegistry, remote_cache, transfer_params


class Core:
    """Turns accepted requests into sequences and runs them."""

    def __init__(
        self, config: EngineConfig, clock: EngineClock, wall_clock: Callable[[], float], exchange: EngineRegistry
    ) -> None:
        self.config = config
        self.clock = clock
        self.figures = EngineStats(config.max_model_len)
        self.log = KvEventLog(enabled=config.kv_events, wall_clock=wall_clock)
        self.adapters = LoadedAdapters(config.adapters, config.models)
        self.id = f"{config.cluster}/{config.namespace}/{config.pod}"
        self.address = ("", 0)
        self._wall_clock = wall_clock
        self._exchange = exchange
        self._scheduler = BatchScheduler(config.timing.faster(config.speed), _limits(config), self.log, self.figures)
        self._batch = Batch(self._scheduler, clock, self.log.publish)
        self.faults = config.faults
        self.set_faults(config.faults)

    def open(self, host: str, port: int) -> None:
        self.address = (host, port)
        if self.config.kv_transfer is not None:
            self._exchange.join(self.id, self)

    def close(self) -> None:
        self._exchange.leave(self.id)
        self._batch.close()

    def set_faults(self, faults: Faults) -> None:
        was, self.faults = self.faults.stalled, faults
        if was or faults.stalled:
            self._batch.stall(stalled=faults.stalled)

    def fault(self, number: int) -> RequestFault:
        return draw(self.faults, identity=f"{self.config.seed}/{self.id}", number=number)

    def generate(self, ask: GenerationRequest, key: str, notify: Notify) -> list[Sequence]:
        """Submit every choice of a request, in order."""
        self.figures.asked(choices=ask.per_prompt, max_tokens=ask.max_tokens)
        keys = [key, *(f"{key}-{index}" for index in range(1, len(ask.choices)))]
        drafts = (
            Draft(
                key=name,
                prompt=choice.prompt,
                answer=choice.answer_ids(),
                reason=choice.answer.finish_reason,
                each=ask.stream,
                adapter=ask.adapter,
                salt=ask.salt,
                hold=self._holds(ask, index),
                remote=self._remote(ask, choice),
            )
            for index, (name, choice) in enumerate(zip(keys, ask.choices, strict=True))
        )
        return self._submit(drafts, notify)

    def embed(self, ask: EmbeddingRequest, key: str, notify: Notify) -> list[Sequence]:
        drafts = (
            Draft(key=f"{key}-{index}", prompt=ids, answer=(), reason="stop", adapter=ask.adapter)
            for index, ids in enumerate(ask.inputs)
        )
        return self._submit(drafts, notify)

    def abort(self, sequences: Iterable[Sequence]) -> None:
        """The client left, or its request is over: what has not ended ends here."""
        for sequence in sequences:
            if not sequence.ended:
                self._batch.abort(sequence)

    def kv_transfer_params(self, sequences: list[Sequence]) -> dict[str, object] | None:
        """What the answer of a prefill leg says about its cache."""
        first = sequences[0]
        if not first.hold:
            return None
        shards = self.config.tensor_parallel
        return transfer_params(first, engine=self.id, address=self.address, tensor_parallel=shards)

    def keeps(self, request: str) -> bool:
        return self._scheduler.keeps(request)

    def release(self, request: str) -> None:
        if self._scheduler.release_lease(request):
            self._batch.kick()

    def forget_cache(self) -> bool:
        forgotten = self._scheduler.forget_cache()
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
        return exposition(config.models[0], self.figures, self.gauges(), cache, self._lora())

    def _lora(self) -> LoraGauge | None:
        if not self.config.max_loras:
            return None
        return LoraGauge(
            max_loras=self.config.max_loras,
            running=_adapters(self._scheduler.running),
            waiting=_adapters(self._scheduler.waiting),
            at=self._wall_clock(),
        )

    def _submit(self, drafts: Iterable[Draft], notify: Notify) -> list[Sequence]:
        submitted = [Sequence(draft, notify) for draft in drafts]
        for sequence in submitted:
            self._batch.submit(sequence)
        return submitted

    def _holds(self, ask: GenerationRequest, index: int) -> bool:
        wanted = ask.transfer is not None and ask.transfer.do_remote_decode
        return wanted and index == 0 and self.config.kv_transfer is not None

    def _remote(self, ask: GenerationRequest, choice: Choice) -> RemoteCache | None:
        if ask.transfer is None:
            return None
        tokens = len(choice.prompt)
        return remote_cache(ask.transfer, prompt_tokens=tokens, config=self.config, exchange=self._exchange)


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
