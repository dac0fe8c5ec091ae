from modelplane.api.loader_exits import EXIT_REASONS, EXIT_TRY_AGAIN, PERMANENT, exit_code
from modelplane.api.reasons import Reason


def test_each_reason_has_its_code_and_others_have_one():
    assert {exit_code(reason) for reason in Reason} == set(EXIT_REASONS)
    assert [EXIT_REASONS[exit_code(reason)] for reason in EXIT_REASONS.values()] == list(EXIT_REASONS.values())
    assert exit_code(Reason.SECRET_MISSING) == 1


def test_only_one_code_may_be_better_next_time():
    assert set(EXIT_REASONS) - set(PERMANENT) == {EXIT_TRY_AGAIN}
