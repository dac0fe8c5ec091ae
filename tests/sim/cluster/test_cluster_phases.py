"""Which prefill engines a decode pod finds."""

import pytest

from modelplane.sim.cluster.phases import PHASE, Peers, Running, phase_of

OURS, KSERVE = "modelplane.ai/serving", "app.kubernetes.io/name"


def pod(role, serving="r", namespace="team", ip="", key=OURS):
    labels = {PHASE: role, **({key: serving} if serving else {})}
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
        ("127.0.0.1:2", "127.0.0.1:2"),
        ("127.0.0.1:9", None),
        ("10.128.0.4:8000", None),
        ("10.128.0.6:8000", None),
        ("nonsense", None),
    ],
)
def test_a_named_one_must_be_of_the_same_replica(named, expected):
    assert peers().prefillers("east", pod("decode"))(named) == expected


@pytest.mark.parametrize("key", [OURS, KSERVE])
def test_a_picker_that_names_none_wants_none(key):
    found = Peers()
    found.join(Running("127.0.0.1", 1), "east", pod("prefill", ip="10.128.0.2", key=key))
    assert found.prefillers("east", pod("decode", key=key))("") is None


def test_those_of_kserve_are_found_by_its_labels():
    found = Peers()
    for number in (1, 2):
        found.join(Running("127.0.0.1", number), "east", pod("prefill", ip=f"10.128.0.{number}", key=KSERVE))
    find = found.prefillers("east", pod("decode", key=KSERVE))
    assert [find(f"10.128.0.{number}:8000") for number in (1, 2, 3)] == ["127.0.0.1:1", "127.0.0.1:2", None]
    assert found.prefillers("south", pod("decode", key=KSERVE))("10.128.0.1:8000") is None
    assert found.prefillers("east", pod("decode", serving=""))("10.128.0.1:8000") is None


def test_one_that_left_is_not_found():
    found = peers()
    found.leave(Running("127.0.0.1", 2))
    assert found.prefillers("east", pod("decode"))("10.128.0.3:8000") is None


def test_a_pod_without_a_phase_has_none():
    assert phase_of({"metadata": {"name": "p"}}) == ""
