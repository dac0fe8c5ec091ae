import math

from hypothesis import given
from hypothesis import strategies as st

from modelplane.reconcile.queue import QueueCounts, WorkQueue
from modelplane.reconcile.settings import LoopSettings


def make_queue(**settings) -> WorkQueue:
    return WorkQueue(LoopSettings(**settings))


def drain(queue, now=0.0, **outcome) -> list:
    """Take and finish until nothing is ready."""
    taken = []
    while (key := queue.take(now)) is not None:
        taken.append(key)
        queue.finish(key, **outcome)
    return taken


def contents(queue) -> tuple[int, ...]:
    return (len(queue._entries), len(queue._ready), len(queue._timer_keys), len(queue._breaker), queue._running)


def test_first_in_first_out_and_once_each():
    queue = make_queue()
    for key in "abacab":
        queue.add(key)
    assert drain(queue) == ["a", "b", "c"]


def test_a_key_that_changes_all_the_time_waits_its_turn():
    queue = make_queue()
    for key in "abc":
        queue.add(key)
    order = []
    for _ in range(7):
        key = queue.take(0)
        order.append(key)
        if key == "a":
            queue.add("a")
        else:
            queue.add(key)
            queue.forget(key)
            queue.add(key)
        queue.finish(key)
    assert order == ["a", "b", "c", "a", "b", "c", "a"]


def test_a_running_key_is_not_given_out_and_runs_once_more():
    queue = make_queue()
    queue.add("a")
    assert queue.take(0) == "a"
    queue.add("a")
    queue.add("a")
    assert queue.take(0) is None
    queue.finish("a")
    assert drain(queue) == ["a"]


def test_timers_fire_in_order_of_time_then_of_request():
    queue = make_queue()
    for key, when in [("late", 3), ("one", 1), ("two", 2), ("also one", 1)]:
        queue.add_at(key, when)
    assert queue.next_due() == 1
    assert [drain(queue, now) for now in (0.9, 1, 1, 3)] == [[], ["one", "also one"], [], ["two", "late"]]
    assert queue.next_due() == math.inf


def test_the_earliest_request_holds_and_later_ones_go():
    queue = make_queue()
    for when in (5, 2, 9):
        queue.add_at("a", when)
    assert [drain(queue, now) for now in (2, 5, 9)] == [["a"], [], []]


def test_a_pass_replaces_what_the_last_one_asked_for():
    queue = make_queue()
    queue.add("a")
    assert drain(queue, 0, requeue_at=10) == ["a"]
    queue.add("a")
    assert drain(queue, 1) == ["a"]
    assert (queue.next_due(), contents(queue)[:3]) == (math.inf, (0, 0, 0))


def test_what_the_last_pass_asked_for_does_not_come_due_during_the_next():
    queue = make_queue()
    queue.add("a")
    assert drain(queue, 0, requeue_at=10) == ["a"]
    queue.add("a")
    assert (queue.take(9), queue.take(10)) == ("a", None)
    queue.finish("a")
    assert drain(queue, 10) == []


def test_what_a_caller_asked_for_outlives_a_pass_before_its_time():
    queue = make_queue()
    queue.add_at("a", 10)
    queue.add("a")
    assert drain(queue, 1, requeue_at=20) == ["a"]
    assert queue.next_due() == 10
    assert drain(queue, 10) == ["a"]
    assert queue.next_due() == math.inf


def test_a_change_cuts_a_back_off_short():
    queue = make_queue()
    queue.add("a")
    assert drain(queue, 0, requeue_at=60, failed=True) == ["a"]
    queue.add("a")
    assert drain(queue, 1) == ["a"]
    assert queue.failures("a") == 0


def test_failures_count_in_a_row():
    queue = make_queue()
    seen = []
    for failed in (True, True, False, True):
        queue.add("a")
        queue.take(0)
        queue.finish("a", failed=failed)
        seen.append(queue.failures("a"))
    assert seen == [1, 2, 0, 1]


def test_an_interrupted_pass_is_queued_again():
    queue = make_queue()
    queue.add("a")
    queue.add("b")
    queue.interrupt(queue.take(0))
    assert drain(queue) == ["b", "a"]


def test_changes_past_the_breaker_are_held_for_one_probe():
    queue = make_queue(breaker_passes=2, breaker_probe_s=30)
    ran = []
    for now in (0, 1, 2, 3, 32, 33):
        queue.add("a")
        ran += [(now, key) for key in drain(queue, now)]
    assert ran == [(0, "a"), (1, "a"), (32, "a")]
    assert queue.counts(33) == QueueCounts(queued=0, running=0, delayed=1, broken=(), open_breakers=("a",))
    assert drain(queue, 62) == ["a"]


def test_the_clock_still_wakes_a_key_whose_breaker_is_open():
    queue = make_queue(breaker_passes=1, breaker_probe_s=30)
    queue.add("a")
    assert drain(queue, 0, requeue_at=5) == ["a"]
    queue.add("a")
    assert [drain(queue, now) for now in (1, 5, 30, 31)] == [[], ["a"], [], ["a"]]


def test_counts():
    queue = make_queue()
    for key in ("running", "broken", "queued"):
        queue.add(key)
    queue.add_at("delayed", 9)
    queue.take(0)
    queue.finish(queue.take(0), requeue_at=5, failed=True)
    assert queue.counts(0) == QueueCounts(queued=1, running=1, delayed=2, broken=("broken",), open_breakers=())


def test_forgetting_while_running_drops_the_outcome_but_not_a_later_change():
    queue = make_queue()
    queue.add("a")
    queue.add_at("a", 7)
    queue.take(0)
    queue.forget("a")
    queue.finish("a", requeue_at=5, failed=True)
    assert contents(queue) == (0, 0, 0, 0, 0)
    queue.add("a")
    queue.take(0)
    queue.forget("a")
    queue.add("a")
    queue.finish("a", requeue_at=5, failed=True)
    assert drain(queue) == ["a"]
    assert queue.failures("a") == 0


def test_forgetting_an_unknown_key_is_nothing():
    queue = make_queue()
    queue.forget("a")
    assert contents(queue) == (0, 0, 0, 0, 0)


def test_abandoned_timers_are_swept():
    queue = make_queue()
    for number in range(1000):
        queue.add_at(number, 1e6 + number)
        queue.forget(number)
    assert contents(queue) == (0, 0, 0, 0, 0)
    assert len(queue._timers) < 100


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add_at", "take", "finish", "fail", "look", "interrupt", "forget", "wait"]),
        st.sampled_from("abc"),
        st.integers(0, 9),
    ),
    max_size=60,
)


def play(queue, steps) -> tuple[float, set[str]]:
    """Apply the steps, checking on the way that no key is given out twice. Returns the time and what still runs."""
    now, running = 0.0, set()
    for name, key, number in steps:
        match name:
            case "add":
                queue.add(key)
            case "add_at":
                queue.add_at(key, now + number)
            case "forget":
                queue.forget(key)
            case "wait":
                now += number
            case "take":
                taken = queue.take(now)
                assert taken not in running
                running |= {taken} - {None}
            case _ if key in running:
                running.remove(key)
                end(queue, name, key, now + number)
    return now, running


def end(queue, name, key, requeue_at) -> None:
    if name == "interrupt":
        queue.interrupt(key)
    else:
        queue.finish(key, requeue_at=math.inf if name == "finish" else requeue_at, failed=name == "fail")


@given(STEPS)
def test_whatever_happened_forgotten_keys_leave_nothing_behind(steps):
    queue = make_queue(breaker_passes=3, breaker_window_s=5, breaker_probe_s=7)
    _, running = play(queue, steps)
    for key in "abc":
        queue.forget(key)
    for key in running:
        queue.finish(key, requeue_at=1, failed=True)
    assert contents(queue) == (0, 0, 0, 0, 0)
    assert queue.next_due() == math.inf


@given(STEPS)
def test_whatever_happened_a_change_is_looked_at(steps):
    queue = make_queue(breaker_passes=3, breaker_window_s=5, breaker_probe_s=7)
    now, running = play(queue, steps)
    queue.add("a")
    for key in running:
        queue.finish(key)
    later = drain(queue, now) + drain(queue, now + 7)
    assert "a" in later
    assert not queue.busy
