"""What was found of an object is found once for the same object, and never for another."""

from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.identity import IdentityMemo


@given(st.lists(st.integers(0, 6), max_size=60), st.integers(1, 4))
def test_each_object_has_its_own_answer_however_few_are_kept(asked, most):
    objects = [[number] for number in range(7)]
    remembered = IdentityMemo(list.copy, most)
    for number in asked:
        assert remembered(objects[number]) == [number]


def test_the_same_object_is_looked_at_once_and_an_equal_one_by_itself():
    seen = []
    remembered = IdentityMemo(lambda item: seen.append(item) or len(seen), 8)
    first, equal = ["a"], ["a"]
    assert [remembered(first), remembered(first), remembered(equal)] == [1, 1, 2]
