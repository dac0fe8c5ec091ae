import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.engine import Timing
from modelplane.engine.batch import Batch, Limits

# Milliseconds that are easy to add up: 10 a prompt token, 100 a step, 10 a sequence in it, 1 a token held.
TIMING = Timing(
    prefill_floor=0,
    prefill_per_token=10,
    prefill_per_token_squared=0,
    decode_floor=100,
    decode_per_sequence=10,
    decode_per_kv_token=1,
)


class InstantClock:
    """Time that passes only by being slept."""

    def __init__(self):
        self.time = 0.0

    def now(self):
        return self.time

    async def sleep_until(self, when):
        self.time = max(self.time, when)
        await asyncio.sleep(0)


def make_batch(*, slots=4, capacity=1_000):
    return Batch(TIMING, Limits(slots, capacity), InstantClock())


def test_the_first_token_costs_the_prompt_and_the_next_one_a_step():
    async def scenario():
        batch = make_batch()
        async with batch.sequence(5) as sequence:
            await sequence.prefill()
            assert batch.clock.now() == pytest.approx(0.050)
            await sequence.decode()
            assert batch.clock.now() == pytest.approx(0.050 + 0.116)
            assert (batch.running, batch.kv_tokens) == (1, 6)
        assert (batch.running, batch.waiting, batch.kv_tokens) == (0, 0, 0)

    asyncio.run(scenario())


def test_a_step_costs_more_beside_others():
    async def scenario():
        batch = make_batch()
        async with batch.sequence(5) as sequence, batch.sequence(100):
            await sequence.decode()
            assert batch.clock.now() == pytest.approx(0.100 + 0.020 + 0.106)

    asyncio.run(scenario())


def test_the_share_of_the_cache_in_use():
    async def scenario():
        batch = make_batch(capacity=10)
        async with batch.sequence(5):
            assert batch.kv_usage == 0.5
        async with batch.sequence(10) as sequence:
            await sequence.decode()
            assert batch.kv_usage == 1.0

    asyncio.run(scenario())


async def hold(batch, tokens, order, name, release):
    async with batch.sequence(tokens):
        order.append(name)
        await release.wait()


def test_waiting_requests_run_in_order_of_arrival():
    async def scenario():
        batch, order = make_batch(slots=1), []
        releases = [asyncio.Event() for _ in range(3)]
        holders = [asyncio.create_task(hold(batch, 1, order, name, releases[name])) for name in range(3)]
        await asyncio.sleep(0)
        assert (order, batch.running, batch.waiting) == ([0], 1, 2)
        for name in range(3):
            releases[name].set()
            await holders[name]
            await asyncio.sleep(0)
        assert (order, batch.running, batch.waiting, batch.kv_tokens) == ([0, 1, 2], 0, 0, 0)

    asyncio.run(scenario())


def test_a_small_prompt_does_not_overtake_a_large_one_that_waits_for_cache():
    async def scenario():
        batch, order, release = make_batch(capacity=10), [], asyncio.Event()
        async with batch.sequence(8):
            holders = [asyncio.create_task(hold(batch, size, order, size, release)) for size in (5, 1)]
            await asyncio.sleep(0)
            assert order == []
        await asyncio.sleep(0)
        assert order == [5, 1]
        release.set()
        await asyncio.gather(*holders)

    asyncio.run(scenario())


@given(st.data())
def test_leaving_at_any_moment_loses_no_place(data):
    """Whatever is cancelled, in whatever order, the batch ends empty and everybody else gets a turn."""
    sizes = data.draw(st.lists(st.integers(1, 10), min_size=1, max_size=8))
    leave = data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=8))

    async def scenario():
        batch, order, release = make_batch(slots=2, capacity=10), [], asyncio.Event()
        holders = [asyncio.create_task(hold(batch, size, order, name, release)) for name, size in enumerate(sizes)]
        for name in leave:
            holders[name].cancel()
            if data.draw(st.booleans()):
                await asyncio.sleep(0)
            assert batch.running <= 2
            assert batch.kv_tokens <= 10
        release.set()
        await asyncio.gather(*holders, return_exceptions=True)
        assert set(range(len(sizes))) - set(leave) <= set(order)
        assert (batch.running, batch.waiting, batch.kv_tokens) == (0, 0, 0)

    asyncio.run(scenario())
