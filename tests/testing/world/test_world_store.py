from modelplane.api.objects import with_metadata
from modelplane.testing.world.clockwork import EPOCH_S, Clockwork
from modelplane.testing.world.store import OWNER, ApiStore, ObjectId, differs


def make(kind="ModelReplica", name="r", **body):
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "team"}, **body}


def new_store():
    return ApiStore(lambda: EPOCH_S)


def key(name, kind="ModelReplica"):
    return ObjectId(kind, "team", name)


def test_a_write_of_what_is_there_changes_nothing():
    store = new_store()
    first = store.apply(make(spec={"a": 1}), "me")
    assert store.apply(make(spec={"a": 1}), "me") is first
    assert not differs(first, make(spec={"a": 1}), {})
    others = [make(spec={"a": 2}), make(spec={"a": 1}, data={}), with_metadata(make(spec={"a": 1}), labels={"a": "b"})]
    assert all(differs(first, other, {}) for other in others)
    assert differs(first, make(spec={"a": 1}), {"a": "b"})
    assert store.version == 1


def test_the_generation_counts_changes_of_the_spec_and_the_version_all():
    store = new_store()
    store.apply(make(spec={"a": 1}), "me")
    store.write_status(key("r"), {"ready": True}, "me")
    found = store.apply(make(spec={"a": 2}), "me")
    assert (found["metadata"]["generation"], found["metadata"]["resourceVersion"]) == (2, "3")
    assert found["status"] == {"ready": True}


def test_what_a_composite_owns_goes_before_it():
    store = new_store()
    owner = store.apply(make("ModelDeployment", "d"), "me")["metadata"]["uid"]
    store.apply(make("Object", "o"), "me", {OWNER: owner})
    store.delete(key("d", "ModelDeployment"), "me")
    assert set(store.objects) == {key("d", "ModelDeployment"), key("o", "Object")}
    store.release(key("o", "Object"), "provider")
    assert store.objects == {}


def test_what_was_written_for_a_composite_that_is_gone_is_collected():
    store = new_store()
    store.apply(make("Backend", "b"), "me", {OWNER: "uid-gone"})
    store.collect_orphans()
    assert store.objects == {}


def test_events_run_in_order_of_time_and_then_of_scheduling():
    clock, ran = Clockwork(), []
    for name, at in (("c", 2), ("a", 1), ("b", 1)):
        clock.after(at, lambda name=name: ran.append((name, clock.elapsed)))
    clock.run_until(1.5)
    assert ran == [("a", 1), ("b", 1)]
    clock.run_until(9)
    assert (ran[-1], clock.elapsed) == (("c", 2), 9)
