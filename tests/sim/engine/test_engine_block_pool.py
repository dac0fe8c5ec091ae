import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from modelplane.sim.engine.block_pool import ROOT, BlockPool, block_hash, root_hash


def make_pool(total):
    evicted = []
    return BlockPool(total, evicted.append), evicted


def test_names_depend_on_the_tokens_and_on_everything_before_them():
    first = block_hash(ROOT, (1, 2))
    names = {first, block_hash(ROOT, (1, 3)), block_hash(first, (1, 2)), block_hash(ROOT, (2, 1))}
    assert len(names) == 4
    assert first == block_hash(ROOT, [1, 2]) == 14_942_340_086_647_654_523


@pytest.mark.parametrize("more", [{"adapter": "a", "salt": None}, {"adapter": None, "salt": "a"}])
def test_adapters_and_salts_start_chains_of_their_own(more):
    assert root_hash(**more) not in {ROOT, root_hash(adapter="a", salt="a")}
    assert root_hash(adapter=None, salt=None) == ROOT


def test_what_is_released_can_be_found_until_it_is_needed():
    pool, evicted = make_pool(2)
    blocks = pool.take(2)
    assert pool.name(blocks[0], 10)
    assert pool.name(blocks[1], 11)
    pool.release(blocks)
    assert pool.find([10, 11, 12]) == blocks
    # The end of a sequence goes before its beginning.
    assert (pool.take(1), evicted) == ([blocks[1]], [11])
    assert pool.find([10, 11]) == blocks[:1]


def test_the_longest_unused_goes_first_and_the_untouched_before_it():
    pool, evicted = make_pool(3)
    one, two = pool.take(1), pool.take(1)
    for block, name in ((one, 1), (two, 2)):
        pool.name(block[0], name)
        pool.release(block)
    pool.share(pool.find([1]))
    pool.release(one)
    assert (pool.take(2), evicted) == ([2, *two], [2])


def test_shared_blocks_are_free_when_the_last_holder_leaves():
    pool, _ = make_pool(3)
    blocks = pool.take(2)
    pool.share(blocks)
    pool.release(blocks)
    assert pool.free == 1
    pool.release(blocks)
    assert pool.free == 3


def test_room_is_what_is_left_after_sharing():
    pool, _ = make_pool(2)
    block = pool.take(1)
    pool.name(block[0], 1)
    pool.release(block)
    assert pool.can_take(2)
    assert not pool.can_take(2, block)
    pool.share(block)
    assert pool.can_take(1, block)


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_blocks_with_one_name_the_last_is_lost(first):
    pool, evicted = make_pool(2)
    blocks = pool.take(2)
    assert [pool.name(block, 1) for block in blocks] == [True, False]
    pool.release([blocks[first]])
    pool.take(1)
    assert (pool.find([1]), evicted) == ([blocks[1 - first]], [])
    pool.release([blocks[1 - first]])
    pool.take(1)
    assert (pool.find([1]), evicted) == ([], [1])


def test_the_cache_is_reset_only_when_no_block_is_in_use():
    pool, _ = make_pool(2)
    blocks = pool.take(1)
    pool.name(blocks[0], 1)
    assert not pool.forget()
    pool.release(blocks)
    assert pool.forget()
    assert pool.find([1]) == []
    assert pool.take(2)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=40))
def test_names_fit_sixty_four_bits(tokens):
    assert 0 <= block_hash(ROOT, tokens) < 2**64


class PoolMachine(RuleBasedStateMachine):
    """Whatever holders do, every block is held or free, and what is found is what was named."""

    def __init__(self):
        super().__init__()
        self.evicted = []
        self.pool = BlockPool(6, self.evicted.append)
        self.holders = []
        self.names = {}
        self.fresh = 0

    @rule(count=st.integers(1, 4))
    def take(self, count):
        if self.pool.can_take(count):
            blocks = self.pool.take(count)
            assert len(set(blocks)) == count
            assert not {block for held in self.holders for block in held} & set(blocks)
            self.names = {name: block for name, block in self.names.items() if block not in blocks}
            self.holders.append(blocks)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def name_one(self, data):
        block = data.draw(st.sampled_from(data.draw(st.sampled_from(self.holders))))
        if block not in self.names.values():
            self.fresh += 1
            assert self.pool.name(block, self.fresh)
            self.names[self.fresh] = block

    @precondition(lambda self: self.names)
    @rule(data=st.data())
    def share(self, data):
        found = self.pool.find([data.draw(st.sampled_from(sorted(self.names)))])
        assert len(found) == 1
        self.pool.share(found)
        self.holders.append(found)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def release(self, data):
        index = data.draw(st.integers(0, len(self.holders) - 1))
        self.pool.release(self.holders.pop(index))

    @invariant()
    def nothing_leaks(self):
        held = {block for blocks in self.holders for block in blocks}
        assert self.pool.free == 6 - len(held)
        assert {name: self.pool.find([name])[0] for name in self.names} == self.names


PoolMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25)
test_a_pool_never_leaks = PoolMachine.TestCase
