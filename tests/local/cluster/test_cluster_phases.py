"""Which prefill engines a decode pod finds."""

import pytest

from modelplane.local.cluster.phases import PHASE, Peers, Running, phase_of


def pod(role, serving="r", namespace="team", ip=""):
    labels = {PHASE: role, **({"modelplane.ai/serving": serving} if serving else {})}
    return {"metadata": {"name": role, "namespace": namespace, "labels": labels}, "status": {"podIP": ip}}


def peers():
    found = Peers()
    found.join(Running("127.0.0.1", 1), "east", pod("prefill", ip="10.128.0.2"))
    found.join(Running("127.0.0.1", 2), "east", pod("prefill", ip="10.128.0.3"))
    found.join(Running("127.0.0.1", 3), "east", pod("prefill", serving="other", ip="10.128.0.4"))
    found.join(Running("127.0.0.1", 4), "east", pod("prefill", namespace="else", ip="10.128.0.5"))
    found.join(Running("127.0.0.1", 5), "west", pod("prefill", ip="10.128.0.2"))
    found.join(Running("127.0.0.1", 6), "east", pod("decode", ip="10.128.0.6"))
    return found


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("10.128.0.3:8000", "127.0.0.1:2"),
        ("10.128.0.4:8000", None),
        ("10.128.0.6:8000", None),
        ("nonsense", None),
    ],
)
def test_a_named_one_must_be_of_the_same_replica(named, expected):
    assert peers().prefillers("east", pod("decode"))(named) == expected


def test_without_a_name_they_take_turns():
    find = peers().prefillers("east", pod("decode"))
    assert {find("") for _ in range(4)} == {"127.0.0.1:1", "127.0.0.1:2"}


def test_one_that_left_is_not_found_and_none_is_none():
    found = peers()
    found.leave(Running("127.0.0.1", 1))
    assert {found.prefillers("east", pod("decode"))("") for _ in range(3)} == {"127.0.0.1:2"}
    assert found.prefillers("south", pod("decode"))("") is None
    assert found.prefillers("east", pod("decode", serving=""))("") is None


def test_a_pod_without_a_phase_has_none():
    assert phase_of({"metadata": {"name": "p"}}) == ""
