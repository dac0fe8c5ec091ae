import asyncio

import pytest

from modelplane.testing.clock import EPOCH_S, VirtualClock, VirtualTimeError, run_virtual


def test_hours_pass_at_once_and_exactly():
    async def main(clock):
        moments = []
        for _ in range(3):
            await clock.sleep(3600.1)
            moments.append((clock.monotonic(), clock.now()))
        return moments

    times = [3600.1, 3600.1 + 3600.1, 3600.1 + 3600.1 + 3600.1]
    assert run_virtual(main) == [(time, EPOCH_S + time) for time in times]


def test_asyncio_waits_follow_the_same_time():
    async def main(clock):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(60)
        return clock.monotonic()

    assert run_virtual(main) == 5


async def _order_of_turns(_clock):
    order = []

    async def take_turns(name):
        for _ in range(3):
            await asyncio.sleep(0)
            order.append(name)

    await asyncio.gather(*(take_turns(name) for name in "abcd"))
    return "".join(order)


def test_without_a_seed_tasks_take_turns():
    assert run_virtual(_order_of_turns) == "abcdabcdabcd"


def test_each_seed_is_one_interleaving():
    orders = [run_virtual(_order_of_turns, seed=seed) for seed in range(20)]
    assert orders == [run_virtual(_order_of_turns, seed=seed) for seed in range(20)]
    assert len(set(orders)) > 15


def test_plain_callbacks_keep_their_order_under_any_seed():
    async def main(_clock):
        heard = []
        for number in range(5):
            asyncio.get_running_loop().call_soon(heard.append, number)
        await asyncio.sleep(1)
        return heard

    assert [run_virtual(main, seed=seed) for seed in range(5)] == [[0, 1, 2, 3, 4]] * 5


async def _waits_for_nothing(_clock):
    await asyncio.Event().wait()


async def _spins(_clock):
    while True:  # noqa: ASYNC110  spinning is the fault under test
        await asyncio.sleep(0)


async def _never_ends(clock):
    while True:
        await clock.sleep(60)


async def _leaves_a_task(clock):
    task = asyncio.create_task(clock.sleep(60), name="left-over")
    assert task


async def _leaves_an_error(_clock):
    async def fail():
        raise LookupError("unhandled")

    task = asyncio.create_task(fail())
    await asyncio.sleep(1)
    del task


async def _sleeps_on_a_foreign_clock(_clock):
    await VirtualClock().sleep(1)


@pytest.mark.parametrize(
    ("main", "complaint"),
    [
        (_waits_for_nothing, "deadlock"),
        (_spins, "livelock"),
        (_never_ends, "still busy after 3600 s"),
        (_leaves_a_task, "tasks left behind: left-over"),
        (_leaves_an_error, "unhandled"),
        (_sleeps_on_a_foreign_clock, "only on the loop of its own"),
    ],
)
def test_programs_that_cannot_be_right_fail(main, complaint):
    with pytest.raises(VirtualTimeError, match=complaint):
        run_virtual(main, limit_s=3600)


def test_outside_a_loop_time_moves_by_hand_and_never_back():
    clock = VirtualClock(epoch_s=100.0)
    clock.advance(5)
    clock.advance_to(2)
    assert (clock.monotonic(), clock.now()) == (5, 105)
