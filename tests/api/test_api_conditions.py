from modelplane.api.conditions import ConditionStatus, ConditionType, fails, holds, summarise, unknown
from modelplane.api.reasons import Reason

PLACED = holds(ConditionType.REPLICAS_SCHEDULED, Reason.ALL_PLACED)
STARTING = fails(ConditionType.REPLICAS_READY, Reason.STARTING, "1 of 2 replicas serve")
UNREAD = unknown(ConditionType.ROUTE_READY, Reason.UNRESOLVED, "not read yet")


def test_ready_takes_its_words_from_the_first_shortfall():
    ready = summarise([PLACED, STARTING, UNREAD])
    assert (ready.type, ready.status, ready.reason, ready.message) == (
        "Ready",
        ConditionStatus.FALSE,
        "Starting",
        "1 of 2 replicas serve",
    )


def test_what_is_unresolved_is_unknown_and_never_false():
    assert summarise([PLACED, UNREAD]).status is ConditionStatus.UNKNOWN


def test_ready_when_everything_holds():
    assert summarise([PLACED], "fine") == holds(ConditionType.READY, Reason.AVAILABLE, "fine")


def test_reasons_are_single_words_with_a_meaning_each():
    assert all(reason.value.isidentifier() and reason.meaning.endswith(".") for reason in Reason)
    assert len({reason.value for reason in Reason}) == len(Reason)
