"""No policy of the benchmarks in virtual time beats `bench/load/bound.py`, nor does any routing of a few requests."""

import importlib
import itertools
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

BENCH = Path(__file__).resolve().parents[2] / "bench"


def load(name):
    sys.path.insert(0, str(BENCH))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCH))


ROUTING = load("picker_routing")
VIRTUAL = load("gpu.virtual")
BOUND = load("load.bound")
Shape = load("load.shapes").Shape
Workload = load("gpu.workloads").Workload
Timing = BOUND.Timing
ROUNDING_S = 1e-9
PLAIN = Timing(overhead=2.0, weights=10.0, per_token=0.1, per_pair=1e-5, per_kv_token=1e-3)
SHAPE = Shape(
    name="small",
    says="",
    engines=3,
    timing=PLAIN,
    cache_tokens=2_000,
    batch=4,
    budget=256,
    prefixes=4,
    prefix_tokens=320,
    question_tokens=40,
    answer_tokens=(2, 12),
    rate=30,
    seconds=2,
    skipped_s=0,
)
IDLE = msgspec.structs.replace(SHAPE, rate=0.5, seconds=15)
CROWDED = msgspec.structs.replace(SHAPE, cache_tokens=1_000, rate=100, seconds=1)
ANSWERS = msgspec.structs.replace(
    SHAPE, timing=replace(PLAIN, per_kv_token=0.1), answer_tokens=(9, 12), rate=10, seconds=5
)
SHAPES = {"small": SHAPE, "idle": IDLE, "crowded": CROWDED, "answers": ANSWERS}
timings = st.builds(
    Timing,
    overhead=st.floats(0, 5),
    weights=st.floats(0, 20),
    per_token=st.floats(0.001, 0.5),
    per_pair=st.floats(0, 1e-3),
    per_kv_token=st.floats(0, 1e-3),
    blend=st.floats(1.1, 8),
)


@st.composite
def shapes(draw):
    prefix, question, answer = draw(st.integers(1, 400)), draw(st.integers(1, 200)), draw(st.integers(1, 20))
    whole = prefix + question + 1 + answer + 16
    rate = draw(st.sampled_from((1, 20, 200, 2_000)))
    return msgspec.structs.replace(
        SHAPE,
        engines=draw(st.integers(1, 3)),
        timing=draw(timings),
        cache_tokens=whole + draw(st.sampled_from((0, 200, 5_000))),
        batch=draw(st.integers(1, 8)),
        budget=draw(st.integers(8, 600)),
        prefixes=draw(st.integers(0, 4)),
        prefix_tokens=prefix,
        question_tokens=question,
        answer_tokens=(draw(st.integers(1, answer)), answer),
        rate=rate,
        seconds=20 / rate,
    )


class Given(ROUTING.Policy):
    """Engines in an order that was given."""

    def __init__(self, engines):
        self._engines = itertools.cycle(engines)

    def choose(self, _question, _prompt):
        return next(self._engines)


def questions(shape, seed):
    return list(ROUTING.questions(ROUTING.Trial(shape, seed)))


def best_cases(questions, limits):
    return list(BOUND.best_cases(((question.at_s, question.prompt()) for question in questions), limits))


def assert_nobody_beats(samples, best, limits):
    firsts = [sample.first_s - sample.at_s for sample in samples]
    assert len(samples) == len(best)
    for first_s, sample, case in zip(firsts, samples, best, strict=True):
        assert first_s >= case.first_s - ROUNDING_S
        assert sample.cached <= case.cached
    for first_s, least_s in zip(sorted(firsts), BOUND.best_firsts_s(best, limits), strict=True):
        assert first_s >= least_s - ROUNDING_S


def play(shape, make, asked, seed=1):
    return ROUTING.measure(ROUTING.Trial(shape, seed), make, asked)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("policy", ROUTING.POLICIES)
def test_no_policy_beats_the_bound(shape, policy):
    for seed in range(2):
        asked, limits = questions(shape, seed), ROUTING.pool_limits(shape)
        samples = play(shape, ROUTING.POLICIES[policy], asked, seed)
        assert_nobody_beats(samples, best_cases(asked, limits), limits)


@settings(max_examples=60, deadline=None)
@given(shapes(), st.integers(0, 1_000), st.sampled_from(list(ROUTING.POLICIES)))
def test_no_policy_beats_the_bound_on_any_shape(shape, seed, policy):
    asked, limits = questions(shape, seed), ROUTING.pool_limits(shape)
    assert_nobody_beats(play(shape, ROUTING.POLICIES[policy], asked, seed), best_cases(asked, limits), limits)


@settings(max_examples=100, deadline=None)
@given(shapes(), st.integers(0, 1_000), st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_no_routing_beats_the_bound(shape, seed, engines):
    asked, limits = questions(shape, seed), ROUTING.pool_limits(shape)
    chosen = [engine % shape.engines for engine in engines]
    samples = play(shape, lambda *_: Given(chosen), asked)
    assert_nobody_beats(samples, best_cases(asked, limits), limits)


def test_none_of_all_routings_of_eight_requests_beats_the_bound():
    shape = msgspec.structs.replace(SHAPE, engines=2, prefixes=2, rate=60)
    asked, limits = questions(shape, 5)[:8], ROUTING.pool_limits(shape)
    best = best_cases(asked, limits)
    for engines in itertools.product(range(2), repeat=len(asked)):
        assert_nobody_beats(play(shape, lambda *_, engines=engines: Given(engines), asked), best, limits)


workloads = st.builds(
    Workload,
    name=st.just("mix"),
    says=st.just(""),
    prefixes=st.integers(0, 4),
    prefix_tokens=st.integers(16, 6_000),
    skew=st.floats(0, 1),
    cold=st.floats(0, 1),
    question_tokens=st.integers(1, 400),
    answer_tokens=st.just((1, 20)),
)


@settings(max_examples=40, deadline=None)
@given(workloads, st.integers(1, 100), st.sampled_from((10, 100, 400)), st.sampled_from(VIRTUAL.USUAL))
def test_no_policy_beats_the_bound_of_engines_that_share_a_gpu(workload, seed, rate, policy):
    shape = msgspec.structs.replace(VIRTUAL.shape_of(workload, rate), seconds=30 / rate, batch=8)
    trial, limits = VIRTUAL.Trial(shape, seed), VIRTUAL.pool_limits(shape)
    asked = list(VIRTUAL.questions(workload, trial))
    samples = VIRTUAL.play(trial, VIRTUAL.POLICIES[policy], asked)
    assert_nobody_beats(samples, VIRTUAL.bound(shape, asked), limits)


@pytest.mark.submission
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # newer Pythons: forks beside threads
def test_who_knows_what_comes_is_ahead_of_the_default_and_below_the_bound():
    shape = msgspec.structs.replace(VIRTUAL.shape_of(VIRTUAL.WORKLOADS["mix"], 60), seconds=0.4)
    trial = VIRTUAL.Trial(shape, 7)
    asked = list(VIRTUAL.questions(VIRTUAL.WORKLOADS["mix"], trial))
    known, usual = (VIRTUAL.play(trial, VIRTUAL.POLICIES[name], asked) for name in ("foresight", "default"))
    assert squares(known) < 0.95 * squares(usual)
    assert_nobody_beats(known, VIRTUAL.bound(shape, asked), VIRTUAL.pool_limits(shape))


def squares(samples):
    return sum((sample.first_s - sample.at_s) ** 2 for sample in samples)


def arrivals(*times, prefixes):
    """A letter of a prefix is 160 tokens."""
    prompts = [[*begin(prefix), number, *range(39)] for number, prefix in enumerate(prefixes)]
    return [ROUTING.Question(at_s, b"", ids, 4) for at_s, ids in zip(times, prompts, strict=True)]


def begin(prefix):
    return [ord(letter) for letter in prefix for _ in range(160)]


@st.composite
def conversations(draw):
    """Prompts that begin as others do, some of them with what was answered before."""
    asked, at_s = [], 0.0
    for number in range(draw(st.integers(1, 8))):
        before = draw(st.sampled_from([None, *asked]))
        known = begin(draw(st.text("ab", max_size=3))) if before is None else [*before.ids, *range(before.answer)]
        asked.append(ROUTING.Question(at_s, b"", [*known, 1_000 + number, *range(draw(st.integers(0, 40)))], 20))
        at_s += draw(st.sampled_from((0.0, 0.001, 0.02, 0.5)))
    return asked


@settings(max_examples=100, deadline=None)
@given(conversations(), timings, st.sampled_from((100, 250, 8_192)), st.lists(st.integers(0, 1), min_size=1))
def test_no_routing_of_conversations_beats_the_bound(asked, timing, budget, engines):
    shape = msgspec.structs.replace(SHAPE, engines=2, timing=timing, budget=budget, cache_tokens=5_000)
    limits = ROUTING.pool_limits(shape)
    samples = play(shape, lambda *_: Given(engines), asked)
    assert_nobody_beats(samples, best_cases(asked, limits), limits)


@pytest.mark.parametrize("budget", [8_192, 120])
def test_an_idle_engine_is_as_good_as_the_bound(budget):
    """A prompt is computed in one step, or in three equal ones."""
    shape = msgspec.structs.replace(SHAPE, engines=1, cache_tokens=50_000, budget=budget)
    asked, limits = arrivals(0.0, 1.0, 2.0, 3.0, prefixes=("aa", "bb", "aa", "bb")), ROUTING.pool_limits(shape)
    samples, best = play(shape, ROUTING.POLICIES["greedy"], asked), best_cases(asked, limits)
    assert [sample.first_s - sample.at_s for sample in samples] == pytest.approx([case.first_s for case in best])
    assert [sample.cached for sample in samples] == [case.cached for case in best] == [0, 0, 320, 320]


def test_a_prefix_that_is_being_computed_is_waited_for():
    shape = msgspec.structs.replace(SHAPE, budget=8_192, cache_tokens=50_000)
    limits = ROUTING.pool_limits(shape)
    whole_s, rest_s = limits.compute_s(0, 360), limits.compute_s(320, 360)
    asked = arrivals(0.0, 0.001, 0.03, 1.0, prefixes=["aa"] * 4)
    alone, soon, later, much_later = (case.first_s - limits.way_s for case in best_cases(asked, limits))
    assert (alone, soon, much_later) == pytest.approx((whole_s, whole_s - 0.001, rest_s))
    assert later == pytest.approx(max(whole_s - 0.03, rest_s))


def test_a_prefix_that_grows_is_computed_from_where_it_grew():
    shape = msgspec.structs.replace(SHAPE, budget=8_192, cache_tokens=50_000)
    limits = ROUTING.pool_limits(shape)
    *_, last = best_cases(arrivals(0.0, 1.0, 1.0, prefixes=("a", "ab", "ab")), limits)
    assert last.cached == 320
    assert last.first_s - limits.way_s == pytest.approx(limits.compute_s(160, 360))


def test_an_answer_can_be_found():
    first = ROUTING.Question(0.0, b"", list(range(100, 112)), 20)
    second = ROUTING.Question(9.0, b"", [*first.ids, *range(20), 7], 1)
    limits = ROUTING.pool_limits(msgspec.structs.replace(SHAPE, engines=1))
    samples = play(msgspec.structs.replace(SHAPE, engines=1), ROUTING.POLICIES["greedy"], [first, second])
    assert [case.cached for case in best_cases([first, second], limits)] == [0, 32]
    assert samples[1].cached == 16


def waits(shape, seconds):
    asked, limits = questions(msgspec.structs.replace(shape, seconds=seconds), 1), ROUTING.pool_limits(shape)
    best = best_cases(asked, limits)
    return BOUND.best_firsts_s(best, limits)[-1] / max(case.first_s for case in best)


def test_more_prompts_than_engines_can_compute_have_to_wait():
    shape = msgspec.structs.replace(SHAPE, prefixes=0, question_tokens=500, answer_tokens=(1, 1), rate=60)
    assert waits(msgspec.structs.replace(shape, rate=20), 5) == 1.0
    assert waits(shape, 5) > 3.0
    assert waits(shape, 10) > 1.6 * waits(shape, 5)


def test_more_answers_than_there_are_places_have_to_wait():
    shape = msgspec.structs.replace(SHAPE, prefixes=0, question_tokens=10, answer_tokens=(50, 50), rate=40)
    assert waits(msgspec.structs.replace(shape, rate=10), 5) == 1.0
    assert waits(shape, 5) > 20.0


def test_longer_answers_than_engines_can_compute_have_to_wait():
    """A full batch costs more than its places: each answer reads its own context."""
    assert waits(msgspec.structs.replace(ANSWERS, answer_tokens=(1, 1)), 5) == 1.0
    assert waits(ANSWERS, 5) > 3.0
