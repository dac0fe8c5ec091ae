import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.reconcile.backoff import backoff_s
from modelplane.reconcile.loop import Loop, LoopStats
from modelplane.reconcile.outcomes import Done, Failed, RequeueAfter
from modelplane.reconcile.settings import LoopSettings
from modelplane.testing.clock import run_virtual

PASS_S = 0.25


class Bench:
    """A loop over a scripted pass: what each key answers, one answer a pass, the last one for ever."""

    def __init__(self, clock, script=None, *, workers=1, pass_s=PASS_S, **settings):
        self.clock = clock
        self.script = {key: list(answers) for key, answers in (script or {}).items()}
        self.pass_s = pass_s
        self.passes = []
        self.broken = []
        self.active = set()
        self.settings = LoopSettings(backoff_jitter=0.0, **settings)
        self.loop = Loop(
            self.reconcile, clock=clock, workers=workers, settings=self.settings, on_failed=self.hear_broken
        )

    async def reconcile(self, key):
        assert key not in self.active, f"{key} runs twice at once"
        self.passes.append((round(self.clock.monotonic(), 6), key))
        self.active.add(key)
        try:
            await self.clock.sleep(self.pass_s)
        finally:
            self.active.remove(key)
        answers = self.script.get(key, [Done()])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if callable(answer):
            answer = answer(self)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def hear_broken(self, key, error, attempt):
        self.broken.append((key, str(error), attempt))

    @asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.loop.run(), name="the loop")
        try:
            await asyncio.sleep(0)
            yield self
        finally:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    def stats(self, **changes):
        plain = {"queued": 0, "running": 0, "delayed": 0, "passes": len(self.passes), "broken": (), "open_breakers": ()}
        return LoopStats(**{**plain, **changes})


def play(scenario, script=None, *, seed=None, **options):
    """Run a scenario beside a running loop; returns the bench."""

    async def main(clock):
        bench = Bench(clock, script, **options)
        async with bench.running():
            await scenario(bench)
        return bench

    return run_virtual(main, seed=seed)


def add_all(keys):
    async def scenario(bench):
        for key in keys:
            bench.loop.add(key)
        assert await bench.loop.settle(1000)

    return scenario


def test_keys_run_in_order_and_adds_before_a_pass_count_once():
    assert play(add_all("abcab")).passes == [(0.0, "a"), (0.25, "b"), (0.5, "c")]


def test_workers_run_side_by_side():
    assert play(add_all("abc"), workers=2).passes == [(0.0, "a"), (0.0, "b"), (0.25, "c")]


def test_adds_while_running_give_one_more_pass():
    async def scenario(bench):
        bench.loop.add("a")
        await bench.clock.sleep(0.1)
        bench.loop.add("a")
        bench.loop.add("a")
        assert await bench.loop.settle(10)

    assert play(scenario, workers=4).passes == [(0.0, "a"), (0.25, "a")]


def test_keys_added_before_it_runs_are_not_lost():
    async def main(clock):
        bench = Bench(clock)
        bench.loop.add("a")
        bench.loop.add_after("b", 3)
        await clock.sleep(1)
        async with bench.running():
            await bench.loop.settle(10, quiet_s=5)
        return bench.passes

    assert run_virtual(main) == [(1.0, "a"), (3.0, "b")]


def test_looks_again_until_settled():
    script = {"a": [RequeueAfter(2), RequeueAfter(1), Done()]}

    async def scenario(bench):
        bench.loop.add("a")
        await bench.clock.sleep(100)

    assert play(scenario, script).passes == [(0.0, "a"), (2.25, "a"), (3.5, "a")]


def test_the_smallest_wait_wins_and_a_change_comes_sooner():
    script = {"a": [RequeueAfter(10), Done()], "b": [RequeueAfter(10), Done()]}

    async def scenario(bench):
        bench.loop.add("a")
        bench.loop.add("b")
        bench.loop.add_after("a", 4)
        bench.loop.add_after("a", 6)
        await bench.clock.sleep(2)
        bench.loop.add("b")
        await bench.clock.sleep(100)

    assert play(scenario, script).passes == [(0.0, "a"), (0.25, "b"), (2.0, "b"), (4.0, "a")]


def test_an_earlier_timer_overtakes_one_that_is_set():
    async def scenario(bench):
        bench.loop.add_after("late", 5)
        await bench.clock.sleep(1)
        bench.loop.add_after("soon", 1)
        bench.loop.add_after("at once", -1)
        await bench.clock.sleep(10)

    assert play(scenario).passes == [(1.0, "at once"), (2.0, "soon"), (5.0, "late")]


def test_a_careless_zero_does_not_spin():
    async def scenario(bench):
        bench.loop.add("a")
        await bench.clock.sleep(0.9)

    bench = play(scenario, {"a": [RequeueAfter(0)]}, pass_s=0, requeue_least_s=0.25)
    assert bench.passes == [(0.0, "a"), (0.25, "a"), (0.5, "a"), (0.75, "a")]


@pytest.mark.parametrize("wait", [float("nan"), float("inf")])
def test_add_after_refuses_times_that_never_come(wait):
    async def scenario(bench):
        with pytest.raises(ValueError, match="finite"):
            bench.loop.add_after("a", wait)

    assert play(scenario).passes == []


def test_back_off_doubles_to_its_bound_and_success_resets_it():
    script = {"a": [*[Failed(LookupError(f"no {n}")) for n in range(5)], Done(), Failed(LookupError("anew")), Done()]}

    async def scenario(bench):
        bench.loop.add("a")
        await bench.clock.sleep(50)
        bench.loop.add("a")
        assert bench.loop.stats() == bench.stats(queued=1)
        await bench.clock.sleep(0.5)
        assert bench.loop.stats() == bench.stats(delayed=1, broken=("a",))
        await bench.clock.sleep(50)
        assert bench.loop.stats() == bench.stats()

    bench = play(scenario, script, pass_s=0, backoff_first_s=1, backoff_most_s=6)
    assert bench.passes == [(time, "a") for time in (0, 1, 3, 7, 13, 19, 50, 51)]
    assert bench.broken == [*[("a", f"no {n}", n + 1) for n in range(5)], ("a", "anew", 1)]


def test_looking_again_resets_the_back_off_too():
    script = {"a": [Failed(LookupError("x")), RequeueAfter(1), Failed(LookupError("x")), Done()]}
    bench = play(add_all("a"), script, backoff_first_s=0.5)
    assert [attempt for _, _, attempt in bench.broken] == [1, 1]


def test_the_spread_of_the_back_off_is_the_keys_own():
    async def scenario(bench):
        bench.loop._settings = LoopSettings()
        for key in ("a", "b"):
            bench.loop.add(key)
        await bench.clock.sleep(1)

    bench = play(scenario, {key: [Failed(LookupError("x")), Done()] for key in "ab"}, pass_s=0, workers=2)
    expected = sorted((round(backoff_s(key, 1, LoopSettings()), 6), key) for key in "ab")
    assert bench.passes == [(0.0, "a"), (0.0, "b"), *expected]


def _cancelled_inside(_bench):
    raise asyncio.CancelledError("a task of its own")


@pytest.mark.parametrize(
    ("answer", "reported"),
    [
        (LookupError("raised"), "raised"),
        (Failed(LookupError("returned")), "returned"),
        (None, "a pass must return an Outcome, not NoneType"),
        (RequeueAfter(float("inf")), "RequeueAfter needs a finite number of seconds, not inf"),
        (_cancelled_inside, "the pass was cancelled from within: a task of its own"),
    ],
)
def test_whatever_a_pass_does_the_loop_goes_on_and_reports_it(answer, reported):
    bench = play(add_all("abc"), {"a": [answer, Done()]}, backoff_first_s=0.5)
    assert bench.broken == [("a", reported, 1)]
    assert [key for _, key in bench.passes] == ["a", "b", "c", "a"]


def test_a_reporter_that_fails_does_not_stop_the_loop():
    heard = []

    async def main(clock):
        asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context["message"]))
        bench = Bench(clock, {"a": [Failed(LookupError("x")), Done()]}, backoff_first_s=0.5)
        bench.loop._on_failed = lambda *_: 1 / 0
        async with bench.running():
            await add_all("ab")(bench)
        return bench.passes

    assert [key for _, key in run_virtual(main)] == ["a", "b", "a"]
    assert heard == ["on_failed failed for 'a'"]


def test_without_a_reporter_failures_show_in_the_numbers():
    async def main(clock):
        async def reconcile(_key):
            raise LookupError("x")

        loop = Loop(reconcile, clock=clock)
        loop.add("a")
        task = asyncio.create_task(loop.run())
        await clock.sleep(0.05)
        stats = loop.stats()
        task.cancel()
        await asyncio.wait([task])
        return stats

    assert run_virtual(main).broken == ("a",)


def _fight(bench):
    bench.loop.add("a")
    return Done()


def test_the_breaker_opens_probes_and_resets_when_quiet():
    async def scenario(bench):
        bench.loop.add("a")
        await bench.clock.sleep(9)
        assert bench.loop.stats() == bench.stats(delayed=1, open_breakers=("a",))
        assert len(bench.passes) == 50
        await bench.clock.sleep(91)
        bench.script["a"] = [Done()]
        await bench.clock.sleep(60)
        assert bench.loop.stats() == bench.stats()

    bench = play(scenario, {"a": [_fight]}, pass_s=0.1)
    assert [time for time, _ in bench.passes[50:]] == [35.0, 65.0, 95.0, 125.0]


def test_one_keys_fight_does_not_slow_the_others():
    async def scenario(bench):
        bench.loop.add("a")
        await bench.clock.sleep(1)
        bench.loop.add("b")
        await bench.clock.sleep(1)

    passes = play(scenario, {"a": [_fight]}, pass_s=0.01).passes
    assert [time for time, key in passes if key == "b"] == [1.0]


def test_forgetting_resets_the_breaker():
    async def scenario(bench):
        bench.loop.add("a")
        await bench.clock.sleep(9)
        bench.loop.forget("a")
        assert bench.loop.stats() == bench.stats()
        bench.script["a"] = [Done()]
        bench.loop.add("a")
        await bench.clock.sleep(1)

    assert play(scenario, {"a": [_fight]}, pass_s=0.1).passes[50:] == [(9.0, "a")]


def test_forgotten_keys_do_not_come_back():
    async def scenario(bench):
        bench.loop.add("failing")
        bench.loop.add_after("later", 5)
        bench.loop.add("queued")
        await bench.clock.sleep(0.1)
        for key in ("failing", "later", "queued"):
            bench.loop.forget(key)
        await bench.clock.sleep(100)
        assert bench.loop.stats() == bench.stats()

    assert play(scenario, {"failing": [Failed(LookupError("x"))]}).passes == [(0.0, "failing")]


@pytest.mark.parametrize(
    ("within_s", "quiet_s", "expected", "at"),
    [(10, 1, True, 0.25), (10, 4, True, 4.5), (10, 9, False, 10.0), (0.1, 1, False, 0.1)],
)
def test_settling_waits_for_what_comes_due_soon(within_s, quiet_s, expected, at):
    async def scenario(bench):
        bench.loop.add("a")
        settled = await bench.loop.settle(within_s, quiet_s=quiet_s)
        assert (settled, bench.clock.monotonic()) == (expected, at)

    play(scenario, {"a": [RequeueAfter(4), RequeueAfter(8), RequeueAfter(8)]})


def test_several_may_wait_for_it_to_settle():
    async def scenario(bench):
        bench.loop.add("a")
        assert await asyncio.gather(*(bench.loop.settle(5) for _ in range(3))) == [True, True, True]
        assert await bench.loop.settle(0)

    play(scenario)


def test_it_runs_once_at_a_time():
    async def scenario(bench):
        with pytest.raises(RuntimeError, match="runs already"):
            await bench.loop.run()

    play(scenario)


async def _stopped_after(bench, wait):
    """Run for a while, cancel, and say when it had stopped."""
    task = asyncio.create_task(bench.loop.run())
    await bench.clock.sleep(wait)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    return bench.clock.monotonic()


@pytest.mark.parametrize(
    ("pass_s", "grace_s", "stopped_at", "finished"),
    [
        pytest.param(2, 5, 2.0, True, id="passes finish within the grace time"),
        pytest.param(60, 5, 6.0, False, id="and are cancelled after it"),
        pytest.param(60, 0, 1.0, False, id="or at once without any"),
    ],
)
def test_stopping(pass_s, grace_s, stopped_at, finished):
    async def main(clock):
        bench = Bench(clock, pass_s=pass_s, workers=2, grace_s=grace_s)
        for key in "abc":
            bench.loop.add(key)
        bench.loop.add_after("later", 500)
        assert await _stopped_after(bench, 1) == stopped_at
        left = bench.loop.stats()
        assert left == bench.stats(queued=1 if finished else 3, delayed=1)
        assert bench.active == set()

    run_virtual(main)


def test_a_second_cancellation_does_not_wait_for_the_grace_time():
    async def main(clock):
        bench = Bench(clock, pass_s=60)
        bench.loop.add("a")
        task = asyncio.create_task(bench.loop.run())
        for _ in range(2):
            await clock.sleep(1)
            task.cancel()
        await asyncio.wait([task])
        return clock.monotonic(), bench.active

    assert run_virtual(main) == (2.0, set())


def test_it_can_run_again_and_takes_up_what_was_left():
    async def main(clock):
        bench = Bench(clock, pass_s=2, grace_s=0.5)
        bench.loop.add("a")
        bench.loop.add("b")
        bench.loop.add_after("c", 3)
        await _stopped_after(bench, 1)
        bench.pass_s = 0
        async with bench.running():
            await clock.sleep(10)
        return bench.passes

    assert run_virtual(main) == [(0.0, "a"), (1.5, "b"), (1.5, "a"), (3.0, "c")]


def test_passes_that_never_wait_leave_turns_to_others():
    async def main(clock):
        order = []

        async def reconcile(key):
            order.append(key)
            return Done()

        loop = Loop(reconcile, clock=clock, workers=2)
        for number in range(6):
            loop.add(number)
        task = asyncio.create_task(loop.run())
        while loop.stats().passes < 6:
            await asyncio.sleep(0)
            order.append("others")
        task.cancel()
        await asyncio.wait([task])
        return order

    order = run_virtual(main)
    assert order[order.index(0) :][:8] == [0, 1, "others", 2, 3, "others", 4, 5]


def test_a_defect_of_a_worker_surfaces():
    async def main(clock):
        async def reconcile(_key):
            return Done()

        loop = Loop(reconcile, clock=clock)
        loop._conclude = lambda *_: 1 / 0
        loop.add("a")
        with pytest.raises(ZeroDivisionError):
            await loop.run()

    run_virtual(main)


EVENTS = st.lists(
    st.tuples(st.sampled_from(["add", "add", "add_after", "forget"]), st.sampled_from("abcd"), st.integers(0, 4)),
    max_size=25,
)
ANSWERS = st.sampled_from([Done(), RequeueAfter(0.3), LookupError("x")])


@given(EVENTS, st.lists(ANSWERS, max_size=20), st.integers(1, 3), st.integers(0, 2**32))
def test_under_any_interleaving_each_change_is_looked_at_and_nothing_is_left(events, answers, workers, seed):
    added_at = {}

    async def scenario(bench):
        for name, key, wait in events:
            if name == "add_after":
                bench.loop.add_after(key, wait / 4)
            else:
                getattr(bench.loop, name)(key)
            if name == "add":
                added_at[key] = bench.clock.monotonic()
            elif name == "forget":
                added_at.pop(key, None)
            await bench.clock.sleep(wait * 0.1)
        assert await bench.loop.settle(1000, quiet_s=100)
        for key in "abcd":
            bench.loop.forget(key)
        assert bench.loop.stats() == bench.stats()

    script = {key: [*answers, Done()] for key in "abcd"}
    bench = play(scenario, script, seed=seed, workers=workers, pass_s=0.15)
    newest = defaultdict(float, {key: time for time, key in bench.passes})
    assert all(newest[key] >= round(time, 6) for key, time in added_at.items())
    assert set(added_at) <= {key for _, key in bench.passes}
