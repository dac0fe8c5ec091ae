"""Who makes room: the lowest priority first, then the newest, a few at a time."""

from modelplane.epp.flowcontrol import EvictionLimits, Evictor


def running(*requests: tuple[str, int]) -> Evictor:
    evictor = Evictor(EvictionLimits(at_once=2, grace_s=0.5, give_up_s=10.0))
    for key, priority in requests:
        evictor.sent(key, priority)
    return evictor


def test_the_lowest_goes_first_then_the_newest_and_only_sheddable_ones():
    evictor = running(("a", -1), ("b", -2), ("c", -1), ("d", 0), ("e", 3))
    assert evictor.decide(1, 0.0) == ["b", "c"]
    assert evictor.decide(1, 0.1) == []
    assert evictor.decide(1, 0.6) == ["a"]
    assert evictor.decide(1, 2.0) == []


def test_only_for_a_request_of_a_higher_priority():
    evictor = running(("a", -1), ("b", -3))
    assert evictor.decide(-3, 0.0) == []
    assert evictor.decide(-1, 0.0) == ["b"]


def test_what_has_ended_makes_room_for_another_decision():
    evictor = running(("a", -1), ("b", -1), ("c", -1))
    assert evictor.decide(0, 0.0) == ["c", "b"]
    assert [evictor.ended("c"), evictor.ended("c"), evictor.ended("unknown")] == [True, False, False]
    assert evictor.decide(0, 0.1) == ["a"]


def test_a_revocation_without_effect_is_given_up():
    evictor = running(("a", -1))
    assert evictor.decide(0, 0.0) == ["a"]
    assert evictor.decide(0, 11.0) == []
    assert evictor.ended("a") is False
