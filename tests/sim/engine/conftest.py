import asyncio
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from itertools import count

import pytest

from modelplane.sim.engine import Address, EngineConfig, SimulatedEngine, Timing
from modelplane.sim.engine.engine_loop import EngineLoop
from modelplane.sim.engine.kv_events import KvEventLog
from modelplane.sim.engine.scheduler import BatchScheduler
from modelplane.sim.engine.sequence import Sequence, SequenceParams
from modelplane.sim.engine.stats import EngineStats
from modelplane.sim.engine.steps import BatchLimits

Scenario = Callable[[SimulatedEngine, Address], Awaitable[None]]


def make_config(**changes: object) -> EngineConfig:
    plain = {"cluster": "east", "namespace": "team-a", "pod": "demo-0", "models": ("demo", "demo-alias"), "speed": 1000}
    return EngineConfig(**{**plain, **changes})


async def _play(scenario: Scenario, config: EngineConfig) -> None:
    engine = SimulatedEngine(config)
    address = await engine.start("127.0.0.1")
    try:
        await scenario(engine, address)
    finally:
        await engine.stop(grace_s=0)
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks outlive the engine: {left}"


@pytest.fixture(name="config")
def config_factory() -> Callable[..., EngineConfig]:
    return make_config


@pytest.fixture(name="play")
def play_scenario() -> Callable[..., None]:
    """Run a scenario against a started engine, then stop it and check that nothing of it is left."""

    def play(scenario: Scenario, **changes: object) -> None:
        asyncio.run(_play(scenario, make_config(**changes)))

    return play


class VirtualTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualClock:
    """A clock that the test moves to the next timer."""

    def __init__(self, tick: float = 0.0) -> None:
        self.tick = tick
        self.time = 0.0
        self.turns = 0
        self._order = count()
        self._timers: list[tuple[float, int, VirtualTimer]] = []

    def now(self) -> float:
        return self.time

    def call_at(self, when: float, callback: Callable[[], None]) -> VirtualTimer:
        timer = VirtualTimer(callback)
        heappush(self._timers, (when, next(self._order), timer))
        return timer

    def run(self, until: float = float("inf")) -> None:
        while self._timers and self._timers[0][0] <= until:
            when, _, timer = heappop(self._timers)
            if not timer.cancelled:
                self.time = max(self.time, when)
                self.turns += 1
                timer.callback()
        if until < float("inf"):
            self.time = until


# Milliseconds that are easy to add up: 1,000 a step, 10 a token, 1 a token that is read from the cache.
ROUND = Timing(overhead=1000, weights=0, per_token=10, per_pair=0, per_kv_token=1)
PLENTY = {"max_num_seqs": 4, "max_num_batched_tokens": 100, "block_size": 4, "blocks": 100}


class Rig:
    """A scheduler, driven by a clock that does not wait, and the events that it published."""

    def __init__(self, *, timing: Timing = ROUND, tick: float = 0.0, **limits: object) -> None:
        self.clock = VirtualClock(tick)
        self.batches = []
        self.log = KvEventLog(enabled=True, wall_clock=self.clock.now)
        self.log.listen(self.batches.append)
        self.stats = EngineStats(1_000)
        self.limits = BatchLimits(**{**PLENTY, **limits})
        self.scheduler = BatchScheduler(timing, self.limits, self.log, self.stats)
        self.batch = EngineLoop(self.scheduler, self.clock, self.log.publish)
        self.tokens: dict[str, list[float]] = {}

    def sequence(self, key: str, *, prompt: object = 4, answer: object = 2, **more: object) -> Sequence:
        """A sequence of so many tokens, or of those given; the moments of its tokens are noted."""
        read = tuple(range(prompt)) if isinstance(prompt, int) else tuple(prompt)
        said = tuple(range(500, 500 + answer)) if isinstance(answer, int) else tuple(answer)
        params = SequenceParams(**{"key": key, "prompt": read, "answer": said, "reason": "stop", "each": True, **more})
        moments = self.tokens.setdefault(key, [])
        made: list[Sequence] = []

        def notify() -> None:
            moments.extend([made[0].last_token] * (made[0].emitted - len(moments)))

        made.append(Sequence(params, notify))
        return made[0]

    def submit(self, key: str, **fields: object) -> Sequence:
        sequence = self.sequence(key, **fields)
        self.batch.submit(sequence)
        return sequence

    def events(self) -> list[object]:
        return [event for batch in self.batches for event in batch.events]


@pytest.fixture(name="rig", scope="session")
def rig_factory() -> type[Rig]:
    return Rig


@pytest.fixture(name="virtual_clock")
def virtual_clock_factory() -> type[VirtualClock]:
    return VirtualClock
