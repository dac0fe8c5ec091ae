"""When events last occurred, and the order of that."""

import pytest

from modelplane.views.events import event_subject, event_version, last_seen

META = {"uid": "u", "resourceVersion": "7"}
CASES = [
    ("the last time", {"lastTimestamp": "1970-01-01T00:00:09Z", "eventTime": "1970-01-01T00:00:05Z"}, 9.0),
    ("of the new API", {"lastTimestamp": None, "eventTime": "1970-01-01T00:00:05.5Z"}, 5.5),
    ("when it was made", {"metadata": {**META, "creationTimestamp": "1970-01-01T00:00:03Z"}}, 3.0),
    ("what is no time is left out", {"lastTimestamp": "soon", "eventTime": "1970-01-01T00:00:05Z"}, 5.0),
    ("never", {}, 0.0),
]


@pytest.mark.parametrize(("event", "seconds"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_when_an_event_last_occurred(event, seconds):
    assert last_seen({"metadata": META, **event}) == (seconds, 7, "u/7")


def test_events_of_one_second_are_in_the_order_of_their_versions():
    made = [{"metadata": {"uid": uid, "resourceVersion": version}} for uid, version in (("a", "10"), ("b", "9"))]
    assert [event_version(event) for event in sorted(made, key=last_seen)] == ["b/9", "a/10"]
    assert last_seen({"metadata": {"uid": "u", "resourceVersion": "opaque"}}) == (0.0, 0, "u/opaque")


def test_what_an_event_is_about():
    event = {"involvedObject": {"kind": "ModelCache", "name": "c"}, "metadata": META}
    assert (event_subject(event), event_version(event)) == (("ModelCache", "c"), "u/7")
    assert event_subject({}) == ("", "")
