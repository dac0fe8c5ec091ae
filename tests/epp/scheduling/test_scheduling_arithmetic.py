import pytest

from modelplane.epp.scheduling.arithmetic import least_first, tokens_of, within_unit


@pytest.mark.parametrize(
    ("number", "least", "most", "score"),
    [(2.0, 2.0, 6.0, 1.0), (6.0, 2.0, 6.0, 0.0), (3.0, 2.0, 6.0, 0.75), (5.0, 5.0, 5.0, 1.0)],
)
def test_the_least_is_best(number, least, most, score):
    assert least_first(number, least, most) == score


@pytest.mark.parametrize(
    ("prompts", "token_ids", "tokens"),
    [
        ((), (), 0),
        ((b"",), (), 0),
        ((b"1",), (), 1),
        ((b"1234",), (), 1),
        ((b"12345",), (), 2),
        ((b"123", b"45678"), (), 2),
        ((b"1" * 400,), ((1, 2, 3), (4,)), 4),
    ],
    ids=["nothing", "empty", "one byte", "four bytes are a token", "one byte more", "several", "tokens"],
)
def test_tokens_of_prompts(prompts, token_ids, tokens):
    assert tokens_of(prompts, token_ids) == tokens


def test_numbers_within_the_unit():
    found = [within_unit(value) for value in (float("nan"), -1.0, 0.0, 0.5, 1.0, 1.5, 2.0)]
    assert found == [0.0, 0.0, 0.0, 0.5, 1.0, 1.0, 1.0]
