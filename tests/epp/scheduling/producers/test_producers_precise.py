"""The precise index against the plain rule: what each server holds, block by block, after any events."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.errors import InputError
from modelplane.epp.config.config import load
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.producers.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, KvEventBatch
from modelplane.epp.scheduling.producers.precise import _SWEPT_A_BATCH, BatchOutcome, PreciseIndex
from modelplane.epp.scheduling.producers.precise_producer import (
    TYPES,
    PrecisePrefixProducer,
    PrecisePrefixProducerParameters,
)
from modelplane.epp.scheduling.producers.prefix import PREFIX, TOKENS
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.scheduling.units import convert


def pool(count: int = 2) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(f"ns/pod-{i}", f"10.0.0.{i}:8000") for i in range(count))


class Feed:
    """Numbers the batches of one endpoint."""

    def __init__(self, index: PreciseIndex, endpoint: Endpoint) -> None:
        self.index, self.endpoint, self.next = index, endpoint, 0

    def tell(self, *events) -> BatchOutcome:
        self.next += 1
        return self.index.apply(self.endpoint, KvEventBatch(self.next - 1, events))


def stored(names, parent, tokens, **changes) -> BlockStored:
    return BlockStored(tuple(names), parent, tuple(tokens), 2, **changes)


def matched(index, endpoints, *prompts, **who) -> list[int]:
    return index.match(prompts, endpoints, **who).matched


def test_blocks_are_found_by_their_tokens_whatever_the_engines_call_them():
    index, (one, other) = PreciseIndex(), pool()
    Feed(index, one).tell(stored([901, 902], None, [1, 2, 3, 4]), stored([903], 902, [5, 6]))
    Feed(index, other).tell(stored([7], None, [1, 2]))
    found = index.match([[1, 2, 3, 4, 5, 6, 7]], (one, other))
    assert (found.total_blocks, found.block_size, found.matched, found.weighted) == (3, 2, [3, 1], None)
    assert matched(index, (other, one), [1, 2, 9, 9, 5, 6]) == [1, 1]
    assert matched(index, (one, other), [3, 4]) == [0, 0]
    assert matched(index, (one, other), [1, 2], [1, 2, 3, 4]) == [3, 2]
    assert matched(index, (one, other), [1]) == [0, 0]


def test_what_is_removed_makes_a_hole():
    index, (one, _) = PreciseIndex(), pool()
    feed = Feed(index, one)
    feed.tell(stored([1, 2, 3], None, [1, 2, 3, 4, 5, 6]))
    feed.tell(BlockRemoved((2, 77)))
    assert (matched(index, (one,), [1, 2, 3, 4, 5, 6]), index.blocks) == ([1], 2)
    feed.tell(stored([2], 1, [3, 4]))
    assert matched(index, (one,), [1, 2, 3, 4, 5, 6]) == [3]
    feed.tell(AllBlocksCleared())
    assert (matched(index, (one,), [1, 2]), index.blocks) == ([0], 0)


def test_a_block_whose_parent_is_unknown_cannot_be_placed():
    index, (one, _) = PreciseIndex(), pool()
    Feed(index, one).tell(stored([2, 3], 1, [3, 4, 5, 6]))
    assert (matched(index, (one,), [3, 4]), index.orphans, index.blocks) == ([0], 2, 0)


def test_slower_tiers_count_in_full_and_by_weight():
    index, (one, _) = PreciseIndex(), pool()
    feed = Feed(index, one)
    feed.tell(stored([1, 2], None, [1, 2, 3, 4]), stored([2], 1, [3, 4], medium="cpu"), BlockRemoved((2,)))
    found = index.match([[1, 2, 3, 4]], (one,))
    assert (found.matched, found.weighted) == ([2], [1.8])
    assert index.match([[9, 9]], (one,)).weighted is None
    feed.tell(BlockRemoved((2,), "cpu"))
    assert (matched(index, (one,), [1, 2, 3, 4]), index.blocks) == ([1], 1)


def test_caches_that_do_not_stand_for_the_whole_prompt_are_left_out():
    index, (one, _) = PreciseIndex(), pool()
    feed = Feed(index, one)
    feed.tell(stored([1], None, [1, 2], kind="full_attention"))
    feed.tell(
        stored([1], None, [1, 2], kind="sliding_window", group=1), stored([2], None, [8, 9], kind="mamba", group=2)
    )
    feed.tell(BlockRemoved((1,), group=1))
    assert [matched(index, (one,), prompt) for prompt in ([1, 2], [8, 9])] == [[1], [0]]


def test_adapters_and_salts_share_no_blocks():
    index, (one, _) = PreciseIndex(), pool()
    Feed(index, one).tell(
        stored([1], None, [1, 2], lora="law", extra_keys=(("law",),)),
        stored([2], None, [1, 2], extra_keys=(("pepper",),)),
        stored([3], None, [5, 6]),
    )
    asked = [
        ([1, 2], {"model": "law"}),
        ([1, 2], {"model": "base"}),
        ([1, 2], {"model": "base", "salt": "pepper"}),
        ([5, 6], {"model": "base"}),
        ([5, 6], {"model": "law"}),
    ]
    assert [matched(index, (one,), prompt, **who) for prompt, who in asked] == [[1], [0], [1], [1], [0]]


def test_after_a_gap_nothing_is_applied_until_it_is_filled():
    index, (one, _) = PreciseIndex(), pool()
    batches = [KvEventBatch(number, (stored([number], None, [number, number]),)) for number in range(6)]
    seen = [index.apply(one, batches[number]) for number in (1, 2, 4, 1, 3, 4)]
    assert [outcome.name for outcome in seen] == ["APPLIED", "APPLIED", "GAP", "REPEATED", "APPLIED", "APPLIED"]
    assert (index.expected(one), index.blocks) == (5, 4)
    index.reset(one)
    assert (index.expected(one), index.blocks, index.apply(one, batches[2])) == (None, 0, BatchOutcome.APPLIED)
    assert index.apply(one, batches[0]) is BatchOutcome.APPLIED
    assert (index.expected(one), index.blocks) == (1, 1)


def test_memory_is_bounded():
    index, (one, _) = PreciseIndex(most_blocks=3), pool()
    Feed(index, one).tell(stored([1, 2], None, [1, 2, 3, 4]), stored([3, 4], 2, [5, 6, 7, 8]), stored([5], 2, [9, 9]))
    assert (index.blocks, index.orphans, matched(index, (one,), [1, 2, 3, 4, 9, 9])) == (3, 2, [3])


def test_nothing_is_left_of_endpoints_that_went():
    index, (one, other) = PreciseIndex(), pool()
    feed = Feed(index, other)
    for endpoint in (Feed(index, one), feed):
        endpoint.tell(stored([1, 2], None, [1, 2, 3, 4]))
    index.keep((other,))
    assert matched(index, (one, other), [1, 2, 3, 4]) == [0, 2]
    feed.tell()
    newcomer = Endpoint("ns/new", "10.0.0.9:8000")
    Feed(index, newcomer).tell(stored([1], None, [8, 8]))
    assert (index.blocks, matched(index, (other, newcomer), [1, 2])) == (3, [1, 0])


def test_a_large_cache_of_an_endpoint_that_went_is_swept_by_several_batches():
    index, (one, other) = PreciseIndex(), pool()
    large = _SWEPT_A_BATCH + 1
    Feed(index, one).tell(stored(range(large), None, [7] * 2 * large))
    index.keep((other,))
    feed, counts = Feed(index, other), []
    for _ in range(3):
        feed.tell()
        counts.append(index.blocks)
    assert counts == [1, 0, 0]


def test_an_endpoint_without_events_is_reset_to_nothing():
    index, (one, other) = PreciseIndex(), pool()
    Feed(index, one).tell(stored([1], None, [1, 2]))
    index.reset(other)
    assert (index.expected(other), index.blocks, matched(index, [other, one], [1, 2])) == (None, 1, [0, 1])


def test_answers_follow_what_changes_around_the_same_endpoints():
    index, endpoints = PreciseIndex(block_tokens=4), pool()
    assert [index.match([[1, 2, 3, 4]], asked).total_blocks for asked in ((), endpoints, ())] == [1, 1, 1]
    feed = Feed(index, endpoints[1])
    feed.tell(stored([1], None, [1, 2]))
    assert (matched(index, endpoints, [1, 2, 3, 4]), index.match([[1, 2, 3, 4]], endpoints).total_blocks) == ([0, 1], 2)
    feed.tell(AllBlocksCleared(), BlockStored((1,), None, (1, 2, 3, 4), 4))
    assert index.match([[1, 2, 3, 4]], endpoints).total_blocks == 1
    assert matched(index, endpoints, [1, 2, 3, 4]) == [0, 1]


def test_a_list_of_endpoints_may_change_between_two_prompts():
    index, endpoints = PreciseIndex(), list(pool())
    Feed(index, endpoints[0]).tell(stored([1], None, [1, 2]))
    before = matched(index, endpoints, [1, 2])
    endpoints.reverse()
    assert (before, matched(index, endpoints, [1, 2])) == ([1, 0], [0, 1])


def test_sixteen_tokens_are_a_block_until_a_server_says_otherwise():
    assert PreciseIndex().match([[1] * 32], pool()).total_blocks == 2


def test_block_sizes_may_differ():
    index, (one, other) = PreciseIndex(), pool()
    Feed(index, one).tell(stored([1, 2], None, [1, 2, 3, 4]))
    Feed(index, other).tell(BlockStored((1,), None, (1, 2, 3, 4), 4))
    assert matched(index, (one, other), [1, 2, 3, 4]) == [2, 2]
    Feed(index, other).tell(AllBlocksCleared(), BlockStored((1, 2), None, tuple(range(8)), 4))
    assert matched(index, (one, other), range(8)) == [0, 4]
    assert index.match([[1] * 64], (Endpoint("n", "a", metrics=EndpointMetrics(block_size=32)),)).total_blocks == 2


blocks = st.integers(0, 2)
paths = st.lists(blocks, min_size=1, max_size=4)


@given(
    st.lists(st.tuples(st.sampled_from(["store", "remove"]), st.integers(0, 1), paths), max_size=30), st.lists(paths)
)
def test_counts_are_the_blocks_held_without_a_hole(steps, asked):
    index, endpoints = PreciseIndex(block_tokens=2), pool()
    feeds = [Feed(index, endpoint) for endpoint in endpoints]
    held: list[set[tuple[int, ...]]] = [set(), set()]

    def name(path) -> int:
        return hash(("block", *path)) & (2**64 - 1)

    for kind, place, path in steps:
        path_name, parent = name(path), tuple(path[:-1])
        if kind == "remove":
            feeds[place].tell(BlockRemoved((path_name,)))
            held[place].discard(tuple(path))
        else:
            feeds[place].tell(stored([path_name], name(parent) if parent else None, [path[-1]] * 2))
            if not parent or parent in held[place]:
                held[place].add(tuple(path))
    for path in asked:
        tokens = [block for block in path for _ in range(2)]
        expected = [
            next((n for n in range(len(path)) if tuple(path[: n + 1]) not in known), len(path)) for known in held
        ]
        assert matched(index, endpoints, tokens) == expected


def guess(index, endpoint, until_s, *prompts) -> None:
    index.guess(endpoint, index.match(prompts, (endpoint,)), until_s)


def test_a_prompt_shorter_than_a_block_leaves_nothing_to_assume():
    index, endpoints = PreciseIndex(block_tokens=2), pool()
    guess(index, endpoints[0], 9.0, [1])
    assert matched(index, endpoints, [1, 2]) == [0, 0]


def test_a_guess_ends_when_the_last_block_is_reported():
    index, endpoints = PreciseIndex(block_tokens=2), pool()
    feed, prompt = Feed(index, endpoints[0]), [1, 2, 3, 4, 5, 6]
    guess(index, endpoints[0], 9.0, prompt)
    feed.tell(stored([1], None, [1, 2]), BlockRemoved((1,)))
    assert matched(index, endpoints, prompt) == [3, 0], "the server is still to compute the rest of it"
    Feed(index, endpoints[1]).tell(stored([1, 2, 3], None, prompt), BlockRemoved((2,)))
    assert matched(index, endpoints, prompt) == [3, 1], "another server's report is not its own"
    feed.tell(stored([1, 2, 3], None, prompt))
    feed.tell(BlockRemoved((2,)))
    assert matched(index, endpoints, prompt) == [1, 1], "from here on the events are the truth"


def test_a_guess_outlives_another_with_the_same_blocks():
    index, endpoints = PreciseIndex(block_tokens=2), pool(1)
    guess(index, endpoints[0], 2.0, [1, 2, 3, 4])
    guess(index, endpoints[0], 3.0, [1, 2, 5, 6])
    guess(index, endpoints[0], 4.0, [1, 2, 3, 4])
    found = {}
    for now_s in (2.0, 3.0, 4.0):
        index.forget_guesses(now_s)
        found[now_s] = [matched(index, endpoints, [1, 2, *rest]) for rest in ([3, 4], [5, 6])]
    assert found == {2.0: [[2], [2]], 3.0: [[2], [1]], 4.0: [[0], [0]]}


@given(st.lists(st.tuples(st.sampled_from(["guess", "report", "wait"]), st.integers(0, 1), paths), max_size=30))
def test_guessed_is_what_was_sent_and_neither_reported_nor_expired(steps):
    index, endpoints = PreciseIndex(block_tokens=2), pool()
    feeds = [Feed(index, endpoint) for endpoint in endpoints]
    sent: list[dict[tuple[int, ...], float]] = [{}, {}]
    now_s = 0.0
    for kind, place, path in steps:
        tokens = [block for block in path for _ in range(2)]
        if kind == "guess":
            sent[place][tuple(path)] = now_s + 3.0
            guess(index, endpoints[place], now_s + 3.0, tokens)
        elif kind == "report":
            ends = [tuple(path[:n]) for n in range(1, len(path) + 1)]
            names = [hash(end) & (2**64 - 1) for end in ends]
            feeds[place].tell(stored(names, None, tokens), BlockRemoved(tuple(names)))
            sent[place] = {prompt: until_s for prompt, until_s in sent[place].items() if prompt not in ends}
        else:
            now_s += 1.0
        index.forget_guesses(now_s)
        live = [[prompt for prompt, until_s in some.items() if until_s > now_s] for some in sent]
        for asked in (path, [0, 1, 2]):
            held = [max((_shared(asked, prompt) for prompt in some), default=0) for some in live]
            assert matched(index, endpoints, [block for block in asked for _ in range(2)]) == held


def _shared(one, other) -> int:
    both = min(len(one), len(other))
    return next((n for n in range(both) if one[n] != other[n]), both)


def context_of(producer, endpoints, prompts, now_s=0.0) -> SchedulingContext:
    context = SchedulingContext(Request("r", "m"), endpoints, now_s, lambda: 0.0)
    if prompts is not None:
        context.put(TOKENS, prompts)
    producer.produce(context)
    return context


def test_without_tokens_there_is_no_match():
    producer = PrecisePrefixProducer("p")
    assert context_of(producer, pool(), None).get(PREFIX) is None


def test_a_prompt_that_was_just_sent_is_taken_as_held_for_a_while():
    parameters = convert({"tokenProcessorConfig": {"blockSizeTokens": 2}}, PrecisePrefixProducerParameters)
    producer, endpoints = PrecisePrefixProducer("p", parameters), pool()
    context = context_of(producer, endpoints, [[1, 2, 3, 4]])
    assert producer.pre_request(context, Decision(Outcome.PICKED, ((endpoints[1],),))) == ()
    found = [context_of(producer, endpoints, [[1, 2, 3, 4]], now_s).get(PREFIX).matched for now_s in (1.9, 2.0)]
    assert found == [[0, 2], [0, 0]]
    producer.pre_request(context_of(producer, endpoints, [[1, 2]], 5.0), Decision(Outcome.PICKED, ((endpoints[1],),)))
    producer.endpoints_changed(endpoints[:1])
    assert context_of(producer, endpoints, [[1, 2]], 5.0).get(PREFIX).matched == [0, 0]


def test_prompts_of_one_prefix_go_to_one_endpoint_before_it_reports_anything():
    config = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: precise-prefix-cache-producer
- type: active-request-scorer
- type: prefix-cache-scorer
- type: no-hit-lru-scorer
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: active-request-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: no-hit-lru-scorer, weight: 1}
"""
    scheduler, endpoints = Scheduler(load(config).build()), pool(4)
    scheduler.endpoints_changed(endpoints)
    picked: list[set[str]] = [set(), set()]
    for number in range(8):
        request = Request(f"r{number}", "m", token_ids=((number % 2,) * 480 + (number,) * 32,))
        decision = scheduler.schedule(request, endpoints, 0.1 * number, lambda: 0.0)
        picked[number % 2].add(decision.picked.name)
    assert [len(names) for names in (*picked, picked[0] | picked[1])] == [1, 1, 2]


@pytest.mark.parametrize(
    ("given", "block_size", "ttl_s"),
    [
        ({}, 16, 2.0),
        ({"speculativeTTL": "500ms"}, 16, 0.5),
        ({"tokenProcessorConfig": {"blockSizeTokens": 64, "hashAlgorithm": "cbor-fnv"}}, 64, 2.0),
        ({"tokenProcessorConfig": {"blockSize": 32, "hashAlgorithm": "xxh64"}}, 32, 2.0),
        ({"indexerConfig": {"tokenProcessorConfig": {"blockSizeTokens": 8}}}, 8, 2.0),
    ],
)
def test_parameters(given, block_size, ttl_s):
    found = convert(given, PrecisePrefixProducerParameters)
    assert (found.block_size, found.speculative_ttl) == (block_size, ttl_s)


def test_weights_of_tiers_are_configured():
    tiers = [{"name": "gpu", "weight": 1.0}, {"name": "cpu", "weight": 0.5}]
    producer = PrecisePrefixProducer(
        "p", convert({"indexerConfig": {"kvCacheBackendConfigs": tiers}}, PrecisePrefixProducerParameters)
    )
    (one, _) = pool()
    Feed(producer.index, one).tell(stored([1], None, [1, 2], medium="cpu"))
    assert producer.index.match([[1, 2]], (one,)).weighted == [0.5]


@pytest.mark.parametrize(
    ("tiers", "says"),
    [
        ([("GPU", 0.5)], "blocks on the GPU count in full; its weight must be 1"),
        ([("cpu", 0.5), ("disk", 0.2)], "tiers other than gpu must have one weight"),
    ],
)
def test_weights_of_tiers_that_cannot_be_followed_are_refused(tiers, says):
    configs = [{"name": name, "weight": weight} for name, weight in tiers]
    parameters = convert({"indexerConfig": {"kvCacheBackendConfigs": configs}}, PrecisePrefixProducerParameters)
    with pytest.raises(InputError, match=f"^indexerConfig.kvCacheBackendConfigs: {says}$"):
        PrecisePrefixProducer("p", parameters)


def test_a_match_that_was_captured_is_restored_without_the_index():
    producer, (one, other) = PrecisePrefixProducer("p"), pool()
    Feed(producer.index, one).tell(stored([1], None, [1, 2], medium="cpu"))
    captured = msgspec.to_builtins(producer.capture(context_of(producer, (one, other), [[1, 2, 3, 4]])))
    assert {**captured, "hashes": None} == {
        "blocks": 2,
        "blockSize": 2,
        "held": (1, 0),
        "weighted": (0.8, 0.0),
        "hashes": None,
    }
    replayed = SchedulingContext(Request("r", "m"), (one, other), 0.0, lambda: 0.0)
    PrecisePrefixProducer("p").restore(replayed, captured)
    found = replayed.get(PREFIX)
    assert (found.total_blocks, found.block_size, found.matched, found.weighted) == (2, 2, (1, 0), (0.8, 0.0))


def test_without_speculation_nothing_is_guessed():
    parameters = convert({"speculativeIndexing": False}, PrecisePrefixProducerParameters)
    producer, endpoints = PrecisePrefixProducer("p", parameters), pool()
    producer.pre_request(context_of(producer, endpoints, [[1] * 32]), Decision(Outcome.PICKED, ((endpoints[1],),)))
    assert context_of(producer, endpoints, [[1] * 32]).get(PREFIX).matched == [0, 0]


def test_what_is_produced():
    assert [(each.name, each.produces, each.consumes) for each in TYPES] == [
        ("precise-prefix-cache-producer", "prefix", ())
    ]
