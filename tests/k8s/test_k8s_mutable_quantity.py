"""What an expression does to the quantities it holds, as upstream 1.36 does it."""

from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.mutable_quantity import MutableQuantity
from modelplane.k8s.quantity import as_integer, canonical, parse_quantity


def mutable(text):
    return MutableQuantity(parse_quantity(text))


def test_comparing_with_a_big_number_turns_the_left_side_big():
    memory = mutable("80Gi")
    limit = mutable("1Pi")
    assert as_integer(memory.quantity) == 80 * 2**30
    assert memory.compare(limit) == -1
    assert memory.is_decimal
    assert as_integer(memory.quantity) is None
    assert canonical(memory.quantity) == "80Gi"


def test_comparing_leaves_the_right_side_alone():
    memory = mutable("80Gi")
    assert mutable("1Pi").compare(memory) == 1
    assert not memory.is_decimal


def test_comparing_two_fast_numbers_changes_nothing():
    left, right = mutable("1"), mutable("2")
    assert left.compare(right) == -1
    assert not left.is_decimal
    assert not right.is_decimal


def test_equality_has_no_effect():
    memory = mutable("1024Ti")
    other = mutable("1Pi")
    small = mutable("1")
    assert memory.equals(other)
    assert not small.equals(other)
    assert not small.is_decimal


def test_arithmetic_on_a_fast_number_leaves_it_alone():
    memory = mutable("1Gi")
    total = memory.add(mutable("1Gi"))
    assert canonical(total.quantity) == "2Gi"
    assert canonical(memory.quantity) == "1Gi"
    assert total.derived
    assert not memory.derived


def test_arithmetic_on_a_big_number_changes_it_and_shares_it():
    memory = mutable("1Pi")
    total = memory.add(mutable("1Pi"))
    assert canonical(memory.quantity) == "2Pi"
    assert total.quantity is memory.quantity
    total.subtract(mutable("1.5Pi"))
    assert canonical(memory.quantity) == "512Ti"
    assert canonical(total.quantity) == "512Ti"


def test_a_number_turned_big_behaves_like_one():
    memory = mutable("1Gi")
    memory.compare(mutable("1Pi"))
    memory.add(mutable("1Gi"))
    assert canonical(memory.quantity) == "2Gi"


def test_a_fast_number_that_overflows_gives_a_big_result():
    memory = mutable("999999999999999999")
    total = memory.add(mutable("9E"))
    assert total.is_decimal
    assert canonical(memory.quantity) == "999999999999999999"


def test_a_number_may_be_added_to_itself():
    memory = mutable("1Pi")
    memory.add(memory)
    assert canonical(memory.quantity) == "2Pi"


@given(st.sampled_from(["0", "1", "1.5", "80Gi", "1Pi", "1e20"]), st.sampled_from(["0", "1", "80Gi", "1Pi", "9Ei"]))
def test_an_effect_never_changes_an_order(left, right):
    first, second = mutable(left), mutable(right)
    before = first.compare(second)
    assert first.compare(second) == before
    assert second.compare(first) == -before
    assert first.equals(second) == (before == 0)
