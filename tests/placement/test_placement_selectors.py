"""What a selector says of a device, and what that took."""

import pytest

from modelplane.k8s.cel import Evaluation, SelectorOutcome
from modelplane.placement.selectors import evaluate, evaluate_with_work
from modelplane.testing.fleets import device

NO_BOOL = "must evaluate to bool or the unknown type, not int"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("true", Evaluation(SelectorOutcome.TRUE), id="yes"),
        pytest.param("false", Evaluation(SelectorOutcome.FALSE), id="no"),
        pytest.param(f"{'true':<20000}", Evaluation(SelectorOutcome.TRUE), id="longer than a new one may be"),
        pytest.param("1", Evaluation(SelectorOutcome.ERROR, NO_BOOL), id="one that does not compile"),
    ],
)
def test_what_a_selector_says_of_a_device(text, expected):
    assert evaluate(text, device()) == expected


def test_what_does_not_compile_takes_no_work():
    assert evaluate_with_work("1", device())[1] == 0
