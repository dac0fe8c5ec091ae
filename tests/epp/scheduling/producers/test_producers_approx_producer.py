"""The plugin leaves the match in the slots, and records the endpoints that compute the prompt."""

import msgspec
import pytest

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.parameters import ApproxPrefixParameters
from modelplane.epp.scheduling.producers.approx_producer import TYPES, ApproxPrefixProducer, Tally, computing
from modelplane.epp.scheduling.producers.prefix import PREFIX, PREFIXES, TOKENS, any_held, prefix_of
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.scheduling.responses import EndpointResponse

POOL = tuple(Endpoint(f"ns/pod-{i}", f"10.0.0.{i}:8000") for i in range(4))
REQUEST = Request("r", "m", prompts=(b"x" * 600,))


def context_of(producer: ApproxPrefixProducer) -> SchedulingContext:
    context = SchedulingContext(REQUEST, POOL, 0.0, lambda: 0.0)
    producer.produce(context)
    return context


def test_the_primary_and_the_prefill_pick_are_recorded():
    producer = ApproxPrefixProducer("mine", ApproxPrefixParameters())
    decision = Decision(
        Outcome.PICKED, ((POOL[0], POOL[3]),), "decode", (("prefill", (POOL[2],)), ("encode", (POOL[1],)))
    )
    assert producer.pre_request(context_of(producer), decision) == ()
    context = context_of(producer)
    match = context.get(PREFIX)
    assert (match.total_blocks, match.block_size, list(match.matched), any_held(match)) == (3, 64, [3, 0, 3, 0], True)
    assert (prefix_of(context), prefix_of(context, "mine"), prefix_of(context, "other")) == (match, match, None)


def test_a_record_shows_the_first_hashes_of_a_long_prompt():
    producer = ApproxPrefixProducer("mine", ApproxPrefixParameters())
    context = SchedulingContext(Request("r", "m", prompts=(b"x" * 6000,)), POOL, 0.0, lambda: 0.0)
    producer.produce(context)
    captured = producer.capture(context)
    assert (captured.blocks, [len(chain) for chain in captured.hashes]) == (24, [16])
    assert list(map(repr, (PREFIX, PREFIXES, TOKENS))) == [
        "StateKey(prefix)",
        "StateKey(prefixes)",
        "StateKey(tokens)",
    ]


def test_a_match_that_was_captured_is_restored_without_the_index():
    producer = ApproxPrefixProducer("mine", ApproxPrefixParameters())
    assert producer.capture(SchedulingContext(REQUEST, POOL, 0.0, lambda: 0.0)) is None
    producer.pre_request(context_of(producer), Decision(Outcome.PICKED, ((POOL[1],),)))
    captured = producer.capture(context_of(producer))
    assert (captured.blocks, captured.block_size, captured.held, captured.weighted) == (3, 64, (0, 3, 0, 0), None)
    assert [[len(link) for link in chain] for chain in captured.hashes] == [[16, 16, 16]]
    replayed = SchedulingContext(REQUEST, POOL, 0.0, lambda: 0.0)
    ApproxPrefixProducer("mine", ApproxPrefixParameters()).restore(replayed, msgspec.to_builtins(captured))
    match = prefix_of(replayed, "mine")
    assert (match.total_blocks, match.block_size, list(match.matched)) == (3, 64, [0, 3, 0, 0])


def test_each_prompt_that_is_sent_is_passed_on():
    producer, seen = ApproxPrefixProducer("mine", ApproxPrefixParameters()), []
    producer.on_record = lambda endpoints, match: seen.append(([each.name for each in endpoints], match.total_blocks))
    decision = Decision(Outcome.PICKED, ((POOL[0],),), "decode", (("prefill", (POOL[2],)),))
    producer.pre_request(context_of(producer), decision)
    empty = SchedulingContext(Request("r", "m"), POOL, 0.0, lambda: 0.0)
    producer.produce(empty)
    producer.pre_request(empty, decision)
    assert seen == [(["ns/pod-0", "ns/pod-2"], 3)]


def test_the_matches_of_two_producers_are_kept_apart():
    context = SchedulingContext(REQUEST, POOL, 0.0, lambda: 0.0)
    for name, size in (("small", 64), ("large", 128)):
        ApproxPrefixProducer(name, ApproxPrefixParameters(auto_tune=False, block_size_tokens=size)).produce(context)
    assert [prefix_of(context, name).block_size for name in ("small", "large", "")] == [64, 128, 128]


def test_what_the_index_was_worth_is_counted():
    producer = ApproxPrefixProducer("mine", ApproxPrefixParameters())
    for endpoint in (POOL[0], POOL[0], POOL[1]):
        producer.pre_request(context_of(producer), Decision(Outcome.PICKED, ((endpoint,),)))
    assert (producer.hit_ratios.counts[0], producer.hit_ratios.counts[10], producer.hit_ratios.total) == (2, 1, 1.0)
    assert (sum(producer.hit_bytes.counts), producer.hit_bytes.total) == (3, 768.0)


def test_endpoints_that_left_are_forgotten():
    producer = ApproxPrefixProducer("mine", ApproxPrefixParameters())
    producer.pre_request(context_of(producer), Decision(Outcome.PICKED, ((POOL[0],),)))
    producer.endpoints_changed(POOL[1:])
    assert any_held(prefix_of(context_of(producer))) is False


@pytest.mark.parametrize(
    ("usage", "learned"),
    [
        pytest.param(ResponseUsage(prompt_tokens=10**6), 2.0, id="told"),
        pytest.param(ResponseUsage(prompt_tokens=1), 208.0, id="one token"),
        pytest.param(ResponseUsage(), 8.0, id="absent"),
        pytest.param(ResponseUsage(prompt_tokens=0), 8.0, id="no tokens"),
    ],
)
def test_bytes_per_token_are_learned_from_usage(usage, learned):
    producer = ApproxPrefixProducer("mine", ApproxPrefixParameters())
    asked = Request("r", "m", prompts=(b"x" * 2_000_000,))
    producer.response_complete(
        asked, Decision(Outcome.PICKED, ((POOL[0],),)), EndpointResponse(POOL[0], 200, 0.0, usage=usage)
    )
    assert producer.index.bytes_a_token == pytest.approx(learned, rel=0.05)


def test_nothing_is_known_before_a_producer_ran():
    assert prefix_of(SchedulingContext(REQUEST, POOL, 0.0, lambda: 0.0), "mine") is None


def test_the_old_block_size_is_in_characters():
    producer = ApproxPrefixProducer("p", ApproxPrefixParameters(auto_tune=False, block_size=1024))
    assert context_of(producer).get(PREFIX).block_size == 256


@pytest.mark.parametrize(
    "parameters", [{"blockSizeTokens": 0}, {"lruCapacityPerServer": -1}, {"unknown": 1}, {"autoTune": "yes"}]
)
def test_parameters_are_checked(parameters):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(parameters, ApproxPrefixParameters)


def test_what_is_produced():
    assert [(each.name, each.produces, each.consumes) for each in TYPES] == [
        ("approx-prefix-cache-producer", "prefix", ())
    ]


@pytest.mark.parametrize(
    ("others", "headers", "expected"),
    [
        ((), (), (0,)),
        ((("prefill", (2, 3)),), (), (0, 2)),
        ((("prefill", (0,)),), (), (0,)),
        ((("prefill", ()), ("encode", (1,))), (), (0,)),
        ((("first", (3,)), ("encode", (1,))), (("x-prefiller-host-port", POOL[3].address),), (0, 3)),
    ],
    ids=["one", "prefill", "the same", "none", "by its header"],
)
def test_who_computes_a_prompt(others, headers, expected):
    picks = tuple((name, tuple(POOL[at] for at in places)) for name, places in others)
    decision = Decision(Outcome.PICKED, ((POOL[0],),), "decode", picks, headers)
    assert computing(decision) == tuple(POOL[at] for at in expected)


def test_numbers_are_counted_up_to_each_bound():
    tally = Tally((0.0, 0.5, 1.0))
    for number in (0.0, 0.25, 0.5, 0.75, 1.0, 2.0):
        tally.add(number)
    assert (tally.counts, tally.total) == ([1, 2, 2, 1], 4.5)


def test_the_bounds_of_what_is_counted():
    producer = ApproxPrefixProducer("mine", ApproxPrefixParameters())
    assert producer.hit_ratios.bounds == tuple(tenth / 10 for tenth in range(11))
    assert producer.hit_bytes.bounds == (0.0, *(2.0**power for power in range(4, 17)))
    assert producer.reads_bodies is False
