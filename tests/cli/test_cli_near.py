import pytest

from modelplane.api.errors import InputError, NotFoundError
from modelplane.cli._near import near_name, suggesting


@pytest.mark.parametrize(
    ("name", "names", "hint"),
    [
        ("qwen3", ["llama", "qwen3-8b"], "; did you mean qwen3-8b?"),
        ("eest", ["west", "east"], "; did you mean east?"),
        ("x", ["a", "b"], "; there is a, b"),
        ("x", list("abcdefg"), "; there is a, b, c, d, e and 2 more"),
        ("x", [], ""),
    ],
)
def test_a_name_that_nothing_has_comes_with_those_that_there_are(name, names, hint):
    assert near_name(name, names) == hint
    with pytest.raises(NotFoundError) as raised, suggesting(name, lambda: names):
        raise NotFoundError("not found")
    assert str(raised.value) == f"not found{hint}"


def test_names_that_one_may_not_list_are_left_out():
    def forbidden():
        raise InputError("forbidden")

    with pytest.raises(NotFoundError, match=r"^not found$"), suggesting("x", forbidden):
        raise NotFoundError("not found")
