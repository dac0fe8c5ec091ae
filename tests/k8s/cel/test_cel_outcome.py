from modelplane.k8s.cel.outcome import FALSE, TRUE, Evaluation, SelectorOutcome, as_evaluation
from modelplane.k8s.cel.values import NONE, Optional


def test_only_a_bool_is_an_answer():
    assert [as_evaluation(value) for value in (True, False, Optional(True))] == [TRUE, FALSE, TRUE]
    assert [as_evaluation(value).outcome for value in (1, "true", None, NONE)] == [SelectorOutcome.ERROR] * 4
    assert as_evaluation(1.5) == Evaluation(SelectorOutcome.ERROR, "the result is of type double, not bool")
