import msgspec

from modelplane.crossplane.pod_index import PodIndex
from modelplane.kube import ChangeKind, InformerEvent, NamespacedName

CHAT, CODE = NamespacedName("mp-team", "chat"), NamespacedName("mp-team", "code")


def event(change, name, replica, **fields):
    packed = msgspec.json.encode({"metadata": {"labels": {"modelplane.ai/replica": replica}}, **fields})
    return InformerEvent(change, NamespacedName("mp-team", name), packed)


def test_a_replica_finds_its_pods_and_no_others():
    index = PodIndex("modelplane.ai/replica")
    events = [event(ChangeKind.ADDED, name, replica) for name, replica in (("a", "chat"), ("b", "chat"), ("c", "code"))]
    assert index.apply(events) == (CHAT, CODE)
    assert index.of(CHAT) == [events[0].value, events[1].value]
    newer = event(ChangeKind.CHANGED, "a", "chat", status={"phase": "Running"})
    assert index.apply([newer]) == (CHAT,)
    assert index.of(CHAT) == [newer.value, events[1].value]


def test_what_is_deleted_leaves_nothing_behind():
    index = PodIndex("modelplane.ai/replica")
    index.apply([event(ChangeKind.ADDED, "a", "chat")])
    assert index.apply([event(ChangeKind.DELETED, "a", "chat")]) == (CHAT,)
    assert index.apply([event(ChangeKind.DELETED, "a", "chat")]) == (CHAT,)
    assert index.of(CHAT) == []
    assert index._by_owner == {}
    assert index.apply([]) == ()
