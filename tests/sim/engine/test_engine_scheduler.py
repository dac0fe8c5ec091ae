"""The rules of the batch, one by one, and what holds for every load."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.sim.engine.kv_events import AllBlocksClearedEvent, BlockRemovedEvent, BlockStoredEvent
from modelplane.sim.engine.sequence import RemoteCache, SequencePhase


def test_a_prompt_costs_its_tokens_and_each_later_token_a_step(rig):
    bench = rig()
    bench.submit("a", prompt=4, answer=3)
    bench.clock.run()
    # 1 s and 4 tokens; then steps of 1 s, one token, and 5 and 6 tokens read.
    assert bench.tokens["a"] == pytest.approx([1.040, 2.055, 3.071])
    assert (bench.scheduler.running, bench.scheduler.pool.free) == ([], 100)


def test_a_long_prompt_is_read_in_pieces_and_others_wait_for_them(rig):
    bench = rig(max_num_batched_tokens=10)
    bench.submit("short", prompt=2, answer=5)
    bench.clock.run(until=1.5)
    bench.submit("long", prompt=list(range(100, 125)), answer=1)
    bench.clock.run()
    # The short one decodes in every step; pieces of 10, 9 and 7 beside it, as the first step was under way.
    steps = [1.020, 2.033, 3.137, 4.242, 5.328]
    assert bench.tokens["short"] == pytest.approx(steps)
    assert bench.tokens["long"] == pytest.approx([5.328])


def test_places_are_given_in_order_of_arrival(rig):
    bench = rig(max_num_seqs=1)
    for key in ("a", "b", "c"):
        bench.submit(key, prompt=2, answer=1)
    assert (len(bench.scheduler.waiting), len(bench.scheduler.running)) == (3, 0)
    bench.clock.run(until=0.5)
    assert (len(bench.scheduler.waiting), len(bench.scheduler.running)) == (2, 1)
    bench.clock.run()
    assert [bench.tokens[key][0] for key in ("a", "b", "c")] == pytest.approx([1.02, 2.04, 3.06])


def test_a_small_prompt_does_not_overtake_a_large_one_that_waits_for_cache(rig):
    bench = rig(blocks=3, prefix_caching=False)
    bench.submit("first", prompt=8, answer=4)
    bench.submit("large", prompt=8, answer=1)
    bench.submit("small", prompt=1, answer=1)
    bench.clock.run()
    assert bench.tokens["first"][-1] < bench.tokens["large"][0] == bench.tokens["small"][0]


def test_equal_prefixes_are_computed_once(rig):
    bench = rig()
    bench.submit("a", prompt=10, answer=1)
    bench.clock.run()
    again = bench.submit("b", prompt=[*range(8), 77], answer=1)
    bench.clock.run()
    assert (again.cached, bench.stats.cache_queries, bench.stats.cache_hits) == (8, 19, 8)
    # One token is left to compute; it reads the nine.
    assert bench.tokens["b"] == pytest.approx([1.100 + 1.019])


def test_a_prompt_that_is_cached_whole_computes_its_last_block(rig):
    bench = rig()
    bench.submit("a", prompt=8, answer=1)
    bench.clock.run()
    again = bench.submit("b", prompt=8, answer=1)
    bench.clock.run()
    assert again.cached == 4


def test_what_was_answered_is_cached_for_the_next_turn(rig):
    bench = rig()
    bench.submit("a", prompt=3, answer=6)
    bench.clock.run()
    again = bench.submit("b", prompt=[*range(3), *range(500, 506), 9], answer=1)
    bench.clock.run()
    # The last token of an answer is never read, so eight of nine are there.
    assert again.cached == 8


@pytest.mark.parametrize("apart", [{"salt": "x"}, {"adapter": "x"}])
def test_salts_and_adapters_share_nothing(rig, apart):
    bench = rig(max_loras=1)
    bench.submit("a", prompt=8, answer=1)
    bench.clock.run()
    other = bench.submit("b", prompt=8, answer=1, **apart)
    bench.clock.run()
    assert other.cached == 0


def test_without_prefix_caching_nothing_is_found(rig):
    bench = rig(prefix_caching=False)
    for key in ("a", "b"):
        sequence = bench.submit(key, prompt=8, answer=1)
        bench.clock.run()
        assert sequence.cached == 0
    assert bench.events() == []


def test_the_last_admitted_gives_way_when_the_cache_is_full(rig):
    bench = rig(blocks=4)
    first = bench.submit("first", prompt=[1, 2, 3, 4, 5, 6, 7], answer=6)
    last = bench.submit("last", prompt=[11, 12, 13, 14, 15, 16, 17], answer=3)
    bench.clock.run()
    assert (first.preemptions, last.preemptions, bench.stats.preemptions) == (0, 1, 1)
    assert (len(bench.tokens["first"]), len(bench.tokens["last"])) == (6, 3)
    assert bench.tokens["first"][-1] < bench.tokens["last"][-1]
    assert bench.scheduler.pool.free == 4


def test_adapters_take_turns_and_let_others_pass(rig):
    bench = rig(max_loras=1)
    for key, adapter in (("a", "x"), ("b", "y"), ("c", "x"), ("d", None)):
        bench.submit(key, prompt=2, answer=2, adapter=adapter)
    bench.clock.run(until=0.5)
    assert [sequence.key for sequence in bench.scheduler.running] == ["a", "c", "d"]
    assert [sequence.key for sequence in bench.scheduler.waiting] == ["b"]
    bench.clock.run()
    assert len(bench.tokens["b"]) == 2


def test_leaving_frees_everything_at_once(rig):
    bench = rig(max_num_seqs=1)
    runs, waits = bench.submit("runs", answer=50), bench.submit("waits", answer=50)
    bench.clock.run(until=2.5)
    bench.batch.abort(waits)
    bench.batch.abort(runs)
    assert (runs.phase, waits.phase) == (SequencePhase.ABORTED, SequencePhase.ABORTED)
    assert (bench.scheduler.pool.free, bench.stats.finished_by["abort"]) == (100, 2)
    bench.clock.run()
    assert len(bench.tokens["runs"]) == 2
    bench.batch.abort(runs)
    assert bench.stats.finished_by["abort"] == 2


def test_an_embedding_ends_with_its_prompt(rig):
    bench = rig()
    sequence = bench.submit("a", prompt=6, answer=0)
    bench.clock.run()
    assert (sequence.phase, sequence.emitted, bench.clock.now()) == (SequencePhase.FINISHED, 0, pytest.approx(1.06))
    assert (bench.stats.prompt_tokens, bench.stats.generation_tokens) == (6, 0)


def test_events_report_stored_and_removed_blocks(rig):
    bench = rig(blocks=3)
    bench.submit("a", prompt=[1, 2, 3, 4, 5, 6, 7, 8, 9], answer=1)
    bench.clock.run()
    stored = bench.events()
    first, second = (event.block_hashes[0] for event in stored)
    assert stored == [
        BlockStoredEvent((first,), None, (1, 2, 3, 4), 4),
        BlockStoredEvent((second,), first, (5, 6, 7, 8), 4),
    ]
    bench.submit("b", prompt=[9] * 9, answer=1)
    bench.clock.run()
    # Sequence b fills two blocks; the unnamed one of a goes first, then the end of a's prefix.
    assert [event for event in bench.events() if isinstance(event, BlockRemovedEvent)] == [
        BlockRemovedEvent((second,)),
        BlockRemovedEvent((first,)),
    ]
    assert bench.scheduler.reset_prefix_cache()
    bench.log.publish()
    assert bench.events()[-1] == AllBlocksClearedEvent()
    assert [batch.seq for batch in bench.batches] == list(range(len(bench.batches)))


def remote(tokens, *, there=True, fetched=lambda: None):
    return RemoteCache(tokens=tokens, latency_s=0.5, seconds_per_token=0.01, is_there=lambda: there, fetched=fetched)


def test_a_copied_prompt_takes_the_copy_and_one_token(rig):
    bench, told = rig(), []
    sequence = bench.submit("a", prompt=10, answer=2, remote=remote(10, fetched=lambda: told.append(1)))
    bench.clock.run(until=0.1)
    assert (sequence.phase, len(bench.scheduler.loading), told) == (SequencePhase.LOADING, 1, [])
    bench.clock.run()
    # 0.5 s and 10 tokens of 10 ms; then the last token again, which reads all ten.
    assert bench.tokens["a"] == pytest.approx([0.6 + 1.020, 0.6 + 1.020 + 1.021])
    assert told == [1]
    assert (bench.stats.remote_queries, bench.stats.remote_hits) == (10, 10)


def test_what_is_cached_here_is_not_copied(rig):
    bench = rig()
    bench.submit("a", prompt=8, answer=1)
    bench.clock.run()
    bench.submit("b", prompt=10, answer=1, remote=remote(10))
    bench.clock.run()
    assert (bench.stats.remote_queries, bench.stats.remote_hits) == (2, 2)
    again = bench.submit("c", prompt=10, answer=1)
    bench.clock.run()
    assert again.cached == 8


@pytest.mark.parametrize(("recompute", "phase"), [(True, SequencePhase.FINISHED), (False, SequencePhase.FAILED)])
def test_a_cache_that_is_gone_fails_or_is_computed(rig, recompute, phase):
    bench = rig(recompute_lost_cache=recompute)
    sequence = bench.submit("a", prompt=10, answer=1, remote=remote(10, there=False))
    bench.clock.run()
    assert (sequence.phase, bench.scheduler.pool.free) == (phase, 100)
    assert bench.stats.finished_by["error"] == (not recompute)


def test_leaving_during_a_copy_frees_its_cache(rig):
    bench = rig()
    sequence = bench.submit("a", prompt=10, answer=1, remote=remote(10))
    bench.clock.run(until=0.1)
    bench.batch.abort(sequence)
    assert (bench.scheduler.pool.free, bench.scheduler.loading) == (100, [])


def test_a_prompt_is_kept_for_another_engine_until_its_lease_ends(rig):
    bench = rig(lease_s=30)
    sequence = bench.submit("a", prompt=10, answer=1, hold=True)
    bench.clock.run(until=5)
    assert (sequence.phase, bench.scheduler.pool.free, bench.scheduler.keeps("a")) == (SequencePhase.FINISHED, 97, True)
    bench.clock.run()
    assert (bench.scheduler.pool.free, bench.scheduler.keeps("a")) == (100, False)
    assert bench.clock.now() == pytest.approx(1.1 + 30)


def test_a_lease_ends_when_the_other_engine_has_fetched(rig):
    bench = rig()
    bench.submit("a", prompt=10, answer=1, hold=True)
    bench.clock.run(until=5)
    assert bench.scheduler.release_lease("a")
    assert not bench.scheduler.release_lease("a")
    assert bench.scheduler.pool.free == 100


def test_copies_that_fill_the_cache_give_way_to_the_first_in_the_queue(rig):
    bench = rig(blocks=4)
    for key in ("a", "b"):
        bench.submit(key, prompt=[ord(key)] * 8, answer=3, remote=remote(8))
    bench.clock.run()
    assert [len(bench.tokens[key]) for key in ("a", "b")] == [3, 3]
    assert bench.scheduler.pool.free == 4


LOADS = st.lists(
    st.tuples(
        st.integers(0, 6_000),  # arrives, in ms
        st.integers(1, 20),  # prompt
        st.integers(0, 12),  # answer
        st.integers(0, 2),  # which of three prefixes
        st.sampled_from([None, None, "x", "y"]),  # adapter
        st.sampled_from([False, False, False, True]),  # copied from another engine
        st.none() | st.integers(0, 9_000),  # leaves, in ms
    ),
    min_size=1,
    max_size=12,
)


def play(bench, load):
    """Submit and abort as the load says; the sequences in order of submission."""
    sequences = []
    for number, (at, prompt, answer, prefix, adapter, copied, leaves) in enumerate(
        sorted(load, key=lambda one: one[0])
    ):
        more = {"remote": remote(prompt)} if copied else {}
        sequence = bench.sequence(
            str(number), prompt=[prefix * 100 + n for n in range(prompt)], answer=answer, adapter=adapter, **more
        )
        sequences.append(sequence)
        bench.clock.call_at(at / 1000, lambda sequence=sequence: bench.batch.submit(sequence))
        if leaves is not None:
            bench.clock.call_at((at + leaves) / 1000, lambda sequence=sequence: bench.batch.abort(sequence))
    bench.clock.run()
    return sequences


LIMITS = st.fixed_dictionaries(
    {
        "max_num_seqs": st.integers(1, 5),
        "max_num_batched_tokens": st.integers(1, 24),
        "block_size": st.sampled_from([1, 4, 8]),
        "prefix_caching": st.booleans(),
        "max_loras": st.integers(1, 2),
    }
)


@settings(max_examples=100)
@given(LOADS, LIMITS, st.sampled_from([0.0, 3.0]))
def test_every_load_ends_with_nothing_held_and_everything_counted(rig, load, limits, tick):
    # The longest sequence just fits, so preemption is common.
    bench = rig(blocks=-(-32 // limits["block_size"]), tick=tick, **limits)
    sequences = play(bench, load)
    scheduler, stats = bench.scheduler, bench.stats
    assert [*scheduler.running, *scheduler.waiting, *scheduler.loading] == []
    assert scheduler.pool.free == scheduler.pool.total
    assert all(sequence.ended for sequence in sequences)
    finished = [sequence for sequence in sequences if sequence.phase is SequencePhase.FINISHED]
    assert all(sequence.emitted == len(sequence.answer) for sequence in finished)
    assert stats.generation_tokens == sum(sequence.emitted for sequence in sequences)
    assert sum(stats.finished_by.values()) == len(sequences)
    assert stats.cache_hits <= stats.cache_queries
    assert sum(stats.whole.counts) == stats.finished_by["stop"] == len(finished)
    assert sum(stats.between_tokens.counts) == sum(max(0, sequence.emitted - 1) for sequence in sequences)
    assert all(moments == sorted(moments) for moments in bench.tokens.values())


@settings(max_examples=50)
@given(LOADS, LIMITS)
def test_the_same_load_gives_the_same_moments(rig, load, limits):
    blocks = -(-32 // limits["block_size"])
    one, other = rig(blocks=blocks, **limits), rig(blocks=blocks, **limits)
    play(one, load)
    play(other, load)
    assert one.tokens == other.tokens
    assert one.events() == other.events()


@settings(max_examples=50)
@given(LOADS, LIMITS)
def test_first_steps_come_in_order_of_arrival(rig, load, limits):
    plain = [(at, prompt, answer, prefix, None, False, None) for at, prompt, answer, prefix, *_ in load]
    bench = rig(blocks=-(-32 // limits["block_size"]), **limits)
    moments = [sequence.scheduled for sequence in play(bench, plain)]
    assert moments == sorted(moments)


@settings(max_examples=50)
@given(LOADS, LIMITS)
def test_steps_planned_at_once_end_when_steps_planned_one_by_one_do(rig, load, limits):
    """What arrives during steps that were planned together waits for their end, so all arrive at the start here."""
    start = [(0, prompt, answer, prefix, None, False, None) for _, prompt, answer, prefix, *_ in load]
    blocks = -(-32 // limits["block_size"])
    one, many = rig(blocks=blocks, **limits), rig(blocks=blocks, tick=50.0, **limits)
    ends = [[sequence.last_token for sequence in play(bench, start)] for bench in (one, many)]
    assert ends[0] == pytest.approx(ends[1])
    assert many.clock.turns <= one.clock.turns


@settings(max_examples=50)
@given(LOADS, LIMITS)
def test_replaying_the_events_gives_the_cache(rig, load, limits):
    bench = rig(blocks=-(-32 // limits["block_size"]), **limits)
    play(bench, load)
    known = set()
    for event in bench.events():
        if isinstance(event, BlockStoredEvent):
            assert not known & set(event.block_hashes)
            assert event.parent_block_hash is None or event.parent_block_hash in known
            known |= set(event.block_hashes)
        elif isinstance(event, BlockRemovedEvent):
            assert known >= set(event.block_hashes)
            known -= set(event.block_hashes)
    assert all(bench.scheduler.pool.find([name]) for name in known)
