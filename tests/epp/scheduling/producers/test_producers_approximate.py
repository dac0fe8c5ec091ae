"""The approximate index against the plain rule: what a server was sent, compared block by block."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.producers.approximate import _PLACES, ApproximateIndex
from modelplane.epp.scheduling.producers.limits import PrefixLimits
from modelplane.epp.scheduling.requests import Request

BLOCK = 64 * 4


def text(*blocks: int) -> bytes:
    """A prompt of whole blocks, each identified by a number."""
    return b"".join(block.to_bytes(2, "little") * (BLOCK // 2) for block in blocks)


def ask(*prompts: bytes, model: str = "m", salt: str = "") -> Request:
    return Request("r", model, prompts=prompts, salt=salt)


def servers(count: int, load: EndpointMetrics | None = None) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(f"ns/pod-{i}", f"10.0.0.{i}:8000", metrics=load or EndpointMetrics()) for i in range(count))


def common(one: bytes, other: bytes) -> int:
    blocks = 0
    for start in range(0, len(one), BLOCK):
        if one[: start + BLOCK] != other[: start + BLOCK]:
            return blocks
        blocks += 1
    return blocks


@pytest.mark.parametrize(
    ("sent", "asked", "expected"),
    [
        ([], ask(text(1, 2)), [0, 0, 0]),
        ([(0, ask(text(1, 2)))], ask(text(1, 3)), [1, 0, 0]),
        ([(0, ask(text(1, 2)))], ask(text(1, 2)), [2, 0, 0]),
        ([(0, ask(text(1, 2))), (1, ask(text(1, 2, 3)))], ask(text(1, 2, 3, 4)), [2, 3, 0]),
        ([(0, ask(text(1, 2))), (1, ask(text(9, 2)))], ask(text(1, 2)), [2, 0, 0]),
        ([(0, ask(text(1, 2, 3))), (0, ask(text(1, 2, 8)))], ask(text(1, 2, 3)), [3, 0, 0]),
        ([(0, ask(text(1, 2), model="other"))], ask(text(1, 2)), [0, 0, 0]),
        ([(0, ask(text(1, 2), salt="s"))], ask(text(1, 2)), [0, 0, 0]),
        ([(0, ask(text(1, 2), text(3)))], ask(text(1), text(3, 4)), [2, 0, 0]),
        ([(0, ask(text(1, 2))), (1, ask(text(3)))], ask(text(1, 2), text(3)), [2, 1, 0]),
        ([(0, ask(text(1, 2)[:-8]))], ask(text(1, 2)[:-8]), [2, 0, 0]),
        ([(0, ask(text(1, 2)[:-8]))], ask(text(1, 2)), [1, 0, 0]),
        ([(0, ask(b""))], ask(b""), [0, 0, 0]),
    ],
    ids=[
        "nothing is known",
        "same beginning",
        "same prompt",
        "each server for itself",
        "a later block alone is no match",
        "a segment that was split still matches",
        "another model",
        "another salt",
        "several prompts are added up",
        "also where each is elsewhere",
        "a last block that is not full counts",
        "and differs from the full one",
        "no text",
    ],
)
def test_matches(sent, asked, expected):
    index, pool = ApproximateIndex(), servers(3)
    for place, request in sent:
        index.record(request, (pool[place],))
    assert list(index.match(asked, pool).matched) == expected


def test_the_match_follows_the_order_of_the_endpoints():
    index, pool = ApproximateIndex(), servers(3)
    index.record(ask(text(1, 2)), (pool[2],))
    found = [list(index.match(ask(text(1)), asked).matched) for asked in (pool, pool[::-1], [pool[2]], pool[:2], pool)]
    assert found == [[0, 0, 1], [1, 0, 0], [1], [0, 0], [0, 0, 1]]
    mixed = list(pool)
    before = list(index.match(ask(text(1)), mixed).matched)
    mixed.reverse()
    assert (before, list(index.match(ask(text(1)), mixed).matched)) == ([0, 0, 1], [1, 0, 0])


@pytest.mark.parametrize(
    ("limits", "told", "expected"),
    [
        (PrefixLimits(), 16, 64),
        (PrefixLimits(), 128, 128),
        (PrefixLimits(), 0, 64),
        (PrefixLimits(block_tokens=32, follow_servers=False), 128, 64),
        (PrefixLimits(block_tokens=256, follow_servers=False), 16, 256),
    ],
)
def test_block_size(limits, told, expected):
    pool = servers(1, EndpointMetrics(block_size=told))
    assert ApproximateIndex(limits).match(ask(text(1)), pool).block_size == expected


@pytest.mark.parametrize(
    ("limits", "blocks"),
    [
        (PrefixLimits(most_tokens=0, most_blocks=0), 10),
        (PrefixLimits(most_tokens=192, most_blocks=0), 3),
        (PrefixLimits(most_tokens=0, most_blocks=4), 4),
        (PrefixLimits(most_tokens=512, most_blocks=4), 8),
    ],
)
def test_no_more_of_a_prompt_than_wanted(limits, blocks):
    assert ApproximateIndex(limits).match(ask(text(*range(10))), ()).total_blocks == blocks


@pytest.mark.parametrize(
    ("learned", "held"),
    [
        pytest.param((), 8, id="nothing yet: 8 bytes a token"),
        pytest.param(((4_000_000, 1_000_000),), 4, id="4 bytes a token"),
        pytest.param(((6_000_000, 1_000_000),), 6, id="6 bytes a token"),
        pytest.param(((40, 10),), 7, id="a word is not enough to learn from"),
        pytest.param(((4 * 10**8, 10**8), (6 * 10**8, 10**8)), 5, id="later prompts count for more"),
    ],
)
def test_room_is_the_servers_own_by_what_a_token_has_in_bytes(learned, held):
    """16 blocks of 16 tokens, against blocks of 256 bytes in the index."""
    pool = servers(1, EndpointMetrics(block_size=16, blocks=16))
    index = ApproximateIndex()
    for prompt_bytes, tokens in learned:
        index.learn(prompt_bytes, tokens)
    index.record(ask(text(*range(10))), pool)
    assert (index.blocks_of(pool[0]), list(index.match(ask(text(*range(10))), pool).matched)) == (held, [held])


def test_the_longest_unused_goes_first_and_from_its_end():
    index, pool = ApproximateIndex(PrefixLimits(blocks_a_server=6)), servers(1)
    index.record(ask(text(1, 2, 3)), pool)
    index.record(ask(text(4, 5, 6)), pool)
    index.record(ask(text(1, 2, 3)), pool)
    index.record(ask(text(7)), pool)
    asked = [text(1, 2, 3), text(4, 5, 6), text(7)]
    assert [list(index.match(ask(prompt), pool).matched) for prompt in asked] == [[3], [2], [1]]


def test_a_prompt_that_is_sent_again_keeps_all_of_its_parts():
    """It is two parts by then, for another prompt left it half-way."""
    index, pool = ApproximateIndex(PrefixLimits(blocks_a_server=5)), servers(1)
    for prompt in (text(1, 2, 3), text(1, 2, 4), text(5), text(1, 2, 3), text(6)):
        index.record(ask(prompt), pool)
    asked = [text(1, 2, 3), text(1, 2, 4), text(5), text(6)]
    assert [list(index.match(ask(prompt), pool).matched) for prompt in asked] == [[3], [2], [1], [1]]


def test_what_was_learned_long_ago_weighs_half_from_ten_million_tokens_on():
    index = ApproximateIndex()
    index.learn(4 * 9_990_000, 9_990_000)
    index.learn(6 * 1_000_000, 1_000_000)
    first = (8 * 10_000 + 4 * 9_990_000 + 6 * 1_000_000, 11_000_000)
    assert index.bytes_a_token == first[0] / first[1]
    index.learn(2 * 1_000_000, 1_000_000)
    assert index.bytes_a_token == (first[0] / 2 + 2 * 1_000_000) / (first[1] / 2 + 1_000_000)


def test_a_landmark_of_several_blocks_goes_as_one():
    """The second prompt leaves the first after 32 blocks; its own landmark there stands for 2 blocks."""
    index, pool = ApproximateIndex(PrefixLimits(blocks_a_server=36)), servers(1)
    index.record(ask(text(*range(32), 100, 101)), pool)
    index.record(ask(text(*range(32), 200, 201)), pool)
    assert index.blocks_of(pool[0]) == 36
    index.record(ask(text(300)), pool)
    asked = [text(*range(32), 100, 101), text(*range(32), 200, 201), text(300)]
    assert [list(index.match(ask(prompt), pool).matched) for prompt in asked] == [[32], [34], [1]]
    assert index.blocks_of(pool[0]) == 35


def test_an_older_prompt_stays_beside_as_much_of_a_new_one_as_there_is_room_for():
    """The end of the new one stands for 2 blocks."""
    index, pool = ApproximateIndex(PrefixLimits(blocks_a_server=33)), servers(1)
    for prompt in (text(100), text(*range(33))):
        index.record(ask(prompt), pool)
    assert [list(index.match(ask(prompt), pool).matched) for prompt in (text(100), text(*range(33)))] == [[1], [32]]


def test_what_another_picker_sent_is_recorded_by_its_landmarks():
    mine, theirs, pool = ApproximateIndex(PrefixLimits(blocks_a_server=10**9)), ApproximateIndex(), servers(2)
    sent = theirs.match(ask(text(1, 2, 3)), pool)
    mine.record_chains(pool[1], sent.block_size, sent.chains)
    assert list(mine.match(ask(text(1, 2, 9)), pool).matched) == [0, 2]
    mine.record_chains(pool[0], sent.block_size, [range(10**4)])
    assert mine.landmarks == 3 + len(_PLACES)


def test_many_sets_of_holders_are_told_apart():
    """More than are remembered at once."""
    index, pool = ApproximateIndex(), servers(9)
    for prompt in range(1, 2**9):
        index.record(ask(text(prompt)), [each for at, each in enumerate(pool) if prompt & 1 << at])
    found = [list(index.match(ask(text(prompt)), pool).matched) for prompt in range(1, 2**9)]
    assert found == [[prompt >> at & 1 for at in range(9)] for prompt in range(1, 2**9)]


def test_an_endpoint_that_held_nothing_leaves_nothing():
    index, pool = ApproximateIndex(), servers(2)
    index.record(ask(b""), pool[:1])
    index.keep(pool[1:])
    index.record(ask(text(1)), pool[1:])
    newcomer = Endpoint("ns/new", "10.0.0.9:8000")
    index.record(ask(text(1)), (newcomer,))
    assert list(index.match(ask(text(1)), (*pool, newcomer)).matched) == [0, 1, 1]


def test_all_servers_together_are_bounded_and_the_largest_gives():
    index, pool = ApproximateIndex(PrefixLimits(most_landmarks=2000)), servers(3)
    index.record(ask(text(1)), pool[:1])
    for prompt in range(2, 80):
        index.record(ask(text(*range(prompt * 100, prompt * 100 + 30))), pool[1:2])
    assert index.landmarks <= 2000
    assert list(index.match(ask(text(1)), pool).matched) == [1, 0, 0]


def test_what_limits_an_index_where_nothing_is_set():
    assert PrefixLimits() == PrefixLimits(
        block_tokens=64, follow_servers=True, most_tokens=131_072, most_blocks=2048, blocks_a_server=31_250,
        most_landmarks=500_000,
    )  # fmt: skip


def test_landmarks_are_sixteen_for_each_doubling():
    doublings = [range(2**power * 17 // 16, 2 ** (power + 1) + 1, 2**power // 16) for power in range(5, 24)]
    expected = [*range(1, 33), *(place for doubling in doublings for place in doubling)]
    assert expected == _PLACES


def test_the_blocks_of_all_prompts_are_counted():
    requests = (ask(), ask(text(1, 2)), ask(text(1, 2), text(3)))
    assert [ApproximateIndex().match(request, servers(1)).total_blocks for request in requests] == [0, 2, 3]


def test_the_smallest_server_has_room_for_a_block():
    pool, index = servers(2, EndpointMetrics(block_size=1, blocks=1)), ApproximateIndex()
    index.record(ask(text(1, 2, 3)), pool[:1])
    assert [index.blocks_of(each) for each in pool] == [1, 0]


@pytest.mark.parametrize("length", range(2, 10))
def test_a_prompt_may_leave_another_after_any_block(length):
    for shared in range(1, length):
        index, pool = ApproximateIndex(), servers(1)
        one = text(*range(length))
        other = text(*range(shared), *range(100, 100 + length - shared))
        for prompt in (one, other):
            index.record(ask(prompt), pool)
        found = [list(index.match(ask(prompt), pool).matched) for prompt in (one, other)]
        assert (found, index.landmarks) == ([[length], [length]], 2 * length - shared)


def test_an_index_may_be_just_full():
    index, pool = ApproximateIndex(PrefixLimits(most_landmarks=3)), servers(1)
    index.record(ask(text(1, 2, 3)), pool)
    assert (index.landmarks, list(index.match(ask(text(1, 2, 3)), pool).matched)) == (3, [3])


def test_what_endpoints_held_that_went_is_released_a_part_at_a_time():
    index, pool, left = ApproximateIndex(PrefixLimits(blocks_a_server=10**9)), servers(2), []
    index.record_chains(pool[0], 64, [range(300)])
    index.keep(pool[1:])
    for _ in range(3):
        index.record(ask(b""), pool[1:])
        left.append(index.landmarks)
    assert left == [300 - 256, 0, 0]


def test_nothing_is_left_of_endpoints_that_went():
    index, pool = ApproximateIndex(), servers(3)
    for prompt in range(60):
        index.record(ask(text(prompt, *range(40))), pool)
    index.keep(pool[2:])
    assert list(index.match(ask(text(1)), pool).matched) == [0, 0, 1]
    for prompt in range(60):
        index.record(ask(text(prompt, *range(40))), pool[2:])
    newcomer = Endpoint("ns/new", "10.0.0.9:8000")
    index.record(ask(text(5)), (newcomer,))
    assert list(index.match(ask(text(5)), (*pool, newcomer)).matched) == [0, 0, 1, 1]
    index.keep(())
    for _ in range(40):
        index.record(ask(b""), (newcomer,))
    assert (index.landmarks, sum(map(len, index._held))) == (0, 0)


prompts = st.lists(st.lists(st.integers(0, 2), max_size=7), min_size=1, max_size=12)


@given(prompts, st.data())
def test_counts_are_those_of_the_longest_common_beginning(sent, data):
    index, pool = ApproximateIndex(), servers(3)
    known: list[list[bytes]] = [[], [], []]
    for blocks in sent:
        place = data.draw(st.integers(0, 2))
        index.record(ask(text(*blocks)), (pool[place],))
        known[place].append(text(*blocks))
    for blocks in sent:
        asked = text(*blocks)
        expected = [max((common(asked, one) for one in held), default=0) for held in known]
        assert list(index.match(ask(asked), pool).matched) == expected


@given(prompts, st.integers(1, 6), st.data())
def test_with_little_room_counts_are_never_above_the_truth_and_room_is_kept(sent, room, data):
    index, pool = ApproximateIndex(PrefixLimits(blocks_a_server=room)), servers(2)
    known: list[list[bytes]] = [[], []]
    for blocks in sent:
        place = data.draw(st.integers(0, 1))
        index.record(ask(text(*blocks)), (pool[place],))
        known[place].append(text(*blocks))
        assert index.blocks_of(pool[place]) <= room
        assert index.match(ask(text(*blocks)), pool).matched[place] == min(room, len(blocks))
        for other in sent:
            asked = text(*other)
            truth = [max((common(asked, one) for one in held), default=0) for held in known]
            assert all(map(int.__le__, index.match(ask(asked), pool).matched, truth))
            holders = [index._holders(landmark) for landmark in index.match(ask(asked), pool).chains[0]]
            assert all(after & before == after for before, after in pairwise(holders))
    assert sum(map(int.bit_count, chain_values(index))) == index.landmarks


def chain_values(index) -> list[int]:
    return [holders for shard in index._held for holders in shard.values()]


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 3)), min_size=1, max_size=6), st.integers(1, 400))
def test_long_prompts_are_rounded_down_by_less_than_a_sixteenth(cuts, length):
    index, pool = ApproximateIndex(), servers(1)
    base = text(*([7] * length))
    truth = 0
    for cut, other in cuts:
        prompt = base[: cut * BLOCK] + text(*([other] * 5))
        index.record(ask(prompt), pool)
        truth = max(truth, common(base, prompt))
    found = index.match(ask(base), pool).matched[0]
    assert truth - truth // 16 <= found <= truth
    assert found == truth or truth > 32
