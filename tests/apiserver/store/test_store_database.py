from itertools import count

import pytest

from modelplane.api.errors import ConflictError, InvalidObject, NotFoundError
from modelplane.apiserver.store.database import Database, Expired, StoreSettings, random_uid
from modelplane.reconcile.store import ChangeType, ObjectRef, Store, StoreChange
from modelplane.testing.clock import VirtualClock

ADDED, MODIFIED, DELETED = ChangeType.ADDED, ChangeType.MODIFIED, ChangeType.DELETED


def pod(name="one", *, namespace="a", metadata=None, **fields):
    own = {"namespace": namespace, **({"name": name} if name else {}), **(metadata or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, **fields}


def ref(name="one", namespace="a"):
    return ObjectRef("", "Pod", namespace, name)


def make_ids():
    numbers = count(1)
    return lambda: f"uid-{next(numbers)}"


def open_database(path, **options):
    return Database(path, clock=VirtualClock(), new_id=make_ids(), **options)


@pytest.fixture(name="database", params=["memory", "file"])
def database_in_memory_and_on_disk(request, tmp_path):
    path = tmp_path / "plane.db" if request.param == "file" else None
    with open_database(path) as database:
        yield database


@pytest.fixture(name="store")
def store_of_the_plane(database):
    return database.store("plane")


def hear(store):
    on_change = []
    store.subscribe(lambda change: on_change.append((change.revision, change.type, change.ref.name)))
    return on_change


def in_one_batch(store, steps):
    with store.batch():
        for step in steps:
            step()


def test_it_is_a_store(store):
    protocol: Store = store
    assert (protocol.revision, protocol.get(ref()), protocol.list("", "Pod")) == (0, None, ())


def test_create_get_and_list(store):
    created = store.create(pod(spec={"n": 1}))
    own = {"uid": "uid-1", "generation": 1, "creationTimestamp": "2025-06-15T15:06:40Z", "resourceVersion": "1"}
    assert created == pod(metadata=own, spec={"n": 1})
    assert store.get(ref()) is created
    store.create(pod("two", namespace="b", metadata={"labels": {"app": "x"}}))
    names = [
        [each["metadata"]["name"] for each in found]
        for found in (
            store.list("", "Pod"),
            store.list("", "Pod", namespace="a"),
            store.list("", "Pod", labels={"app": "x"}),
            store.list("apps", "Pod"),
        )
    ]
    assert names == [["one", "two"], ["one"], ["two"], []]
    assert (len(store), store.kinds(), store.revision) == (2, (("", "Pod"),), 2)


def test_what_exists_is_not_created_again(store):
    store.create(pod())
    with pytest.raises(ConflictError, match=r"^Pod a/one already exists$"):
        store.create(pod())
    assert store.revision == 1


def test_generated_names(store):
    names = {store.create(pod(None, metadata={"generateName": "llama-"}))["metadata"]["name"] for _ in range(50)}
    assert len(names) == 50
    assert all(name.startswith("llama-") and len(name) == 11 for name in names)


def test_a_generated_name_avoids_those_taken():
    ids = iter(["name", "uid-1", "name", "name", "other", "uid-2", *["name"] * 8])
    store = Database(None, clock=VirtualClock(), new_id=lambda: next(ids)).store("plane")
    one, two = (store.create(pod(None, metadata={"generateName": "x-"}))["metadata"] for _ in range(2))
    assert one["name"] != two["name"]
    assert (one["uid"], two["uid"]) == ("uid-1", "uid-2")
    with pytest.raises(ConflictError, match="no free name for Pod x- after 8 attempts"):
        store.create(pod(None, metadata={"generateName": "x-"}))


def test_a_name_is_needed(store):
    with pytest.raises(InvalidObject, match="name or generateName is required"):
        store.create(pod(None))


@pytest.mark.parametrize("method", ["replace", "replace_status"])
def test_what_is_absent_cannot_be_replaced(store, method):
    with pytest.raises(NotFoundError, match=r"^Pod a/one not found$"):
        getattr(store, method)(pod())


def test_the_life_of_an_object(store):
    on_change = hear(store)
    at_first = store.create(pod(spec={"n": 1}, status={"ready": False}))
    same = store.replace(at_first)
    more = store.replace({**at_first, "spec": {"n": 2}})
    ready = store.replace_status({**more, "status": {"ready": True}, "spec": {"n": 99}})
    assert same is at_first
    assert [each["metadata"]["resourceVersion"] for each in (at_first, more, ready)] == ["1", "2", "3"]
    assert [each["metadata"]["generation"] for each in (at_first, more, ready)] == [1, 2, 2]
    assert (ready["spec"], ready["status"]) == ({"n": 2}, {"ready": True})
    with pytest.raises(ConflictError, match="is 1 but the object is at 3"):
        store.replace({**at_first, "spec": {"n": 3}})
    store.delete(ref())
    assert store.get(ref()) is None
    assert on_change == [(1, ADDED, "one"), (2, MODIFIED, "one"), (3, MODIFIED, "one"), (4, DELETED, "one")]


def test_a_name_used_again_is_another_object(store):
    first = store.create(pod())
    store.delete(ref(), uid=first["metadata"]["uid"])
    second = store.create(pod())
    with pytest.raises(ConflictError, match=r"metadata.uid is uid-1"):
        store.delete(ref(), uid=first["metadata"]["uid"])
    with pytest.raises(ConflictError):
        store.replace({**second, "metadata": {**second["metadata"], "uid": "uid-1"}})
    with pytest.raises(NotFoundError):
        store.delete(ref("other"))
    assert store.get(ref()) is second


def test_finalizers_hold_an_object_until_the_last_is_gone(store, database):
    held = store.create(pod(metadata={"finalizers": ["a/b"]}))
    on_change = hear(store)
    database.clock.advance(60)
    store.delete(ref())
    store.delete(ref())
    marked = store.get(ref())
    assert marked["metadata"] == held["metadata"] | {
        "deletionGracePeriodSeconds": 0,
        "deletionTimestamp": "2025-06-15T15:07:40Z",
        "generation": 2,
        "resourceVersion": "2",
    }
    store.replace_status({**marked, "status": {"phase": "Ending"}})
    freed = {name: value for name, value in marked["metadata"].items() if name not in {"finalizers", "resourceVersion"}}
    gone = store.replace({**marked, "metadata": freed})
    assert (store.get(ref()), gone["status"], gone["metadata"]["resourceVersion"]) == (None, {"phase": "Ending"}, "4")
    assert on_change == [(2, MODIFIED, "one"), (3, MODIFIED, "one"), (4, DELETED, "one")]


def test_a_change_carries_both_sides(store):
    on_change = []
    store.subscribe(on_change.append)
    one = store.create(pod())
    two = store.replace(pod(spec={"n": 1}))
    store.delete(ref())
    last = {**two, "metadata": {**two["metadata"], "resourceVersion": "3"}}
    assert on_change == [
        StoreChange(ADDED, ref(), one, None, 1),
        StoreChange(MODIFIED, ref(), two, one, 2),
        StoreChange(DELETED, ref(), last, two, 3),
    ]
    assert store.changes_since(1) == tuple(on_change[1:])
    assert store.changes_since(4) == Expired(oldest=0)


def test_a_batch_is_notified_when_complete_and_reads_its_writes(store, database):
    on_change = hear(store)
    other = hear(database.store("east"))
    with database.batch():
        store.create(pod())
        store.create(pod("two"))
        store.delete(ref())
        database.store("east").create(pod("far"))
        assert (store.get(ref()), store.get(ref("two"))["metadata"]["name"]) == (None, "two")
        assert (on_change, store.changes_since(0)) == ([], ())
    assert on_change == [(1, ADDED, "one"), (2, ADDED, "two"), (3, DELETED, "one")]
    assert other == [(1, ADDED, "far")]


def test_a_failed_batch_leaves_everything_as_it_was(store, database):
    before = store.create(pod(spec={"n": 1}))
    store.create(pod("two"))
    on_change = hear(store)
    steps = [
        lambda: store.replace(pod(spec={"n": 2})),
        lambda: store.delete(ref("two")),
        lambda: store.create(pod("three")),
        lambda: store.create(pod("three")),
    ]
    with pytest.raises(ConflictError):
        in_one_batch(store, steps)
    assert (store.get(ref()), store.revision, len(store), on_change) == (before, 2, 2, [])
    assert store.create(pod("four"))["metadata"]["resourceVersion"] == "3"
    assert not database.in_batch()


def test_an_inner_batch_fails_alone(store):
    with store.batch():
        store.create(pod("one"))
        with pytest.raises(ConflictError):
            in_one_batch(store, [lambda: store.create(pod("two")), lambda: store.create(pod("one"))])
        store.create(pod("three"))
    assert [each["metadata"]["name"] for each in store.list("", "Pod")] == ["one", "three"]
    assert store.revision == 2


def test_listeners_may_write_and_all_are_notified_in_one_order(store):
    on_change = []

    def chain(change):
        if change.ref.name == "one" and change.type is ADDED:
            store.create(pod("two"))
            store.create(pod("three"))

    def note(name):
        return lambda change: on_change.append((name, change.revision))

    store.subscribe(note("first"))
    store.subscribe(chain)
    store.subscribe(note("last"))
    store.create(pod())
    assert on_change == [(name, revision) for revision in (1, 2, 3) for name in ("first", "last")]


def test_a_subscriber_gets_later_changes_and_may_unsubscribe(store):
    late, leaving = [], []

    def join(change):
        if change.revision == 1:
            store.create(pod("two"))
            store.subscribe(lambda each: late.append(each.revision))

    end = store.subscribe(lambda each: leaving.append(each.revision))
    store.subscribe(join)
    store.subscribe(lambda _: end())
    store.create(pod())
    store.create(pod("three"))
    end()
    assert (late, leaving) == ([3], [1])


def test_an_unsubscribed_listener_does_not_get_the_same_change(store):
    on_change, ends = [], []
    store.subscribe(lambda _: ends.pop()() if ends else None)
    ends.append(store.subscribe(on_change.append))
    store.create(pod())
    assert on_change == []


def test_a_batch_allows_no_subscription(store):
    with pytest.raises(RuntimeError, match="outside of a batch"), store.batch():
        store.subscribe(print)


def test_a_listener_that_fails_is_reported_and_breaks_nothing(tmp_path):
    failures = []

    def hear_failure(change, error):
        failures.append((change.revision, error))

    with open_database(tmp_path / "x.db", listener_failed=hear_failure) as database:
        store = database.store("plane")
        store.subscribe(lambda _: 1 / 0)
        on_change = hear(store)
        store.create(pod())
    assert [(revision, type(error)) for revision, error in failures] == [(1, ZeroDivisionError)]
    assert on_change == [(1, ADDED, "one")]


def test_by_default_a_failing_listener_is_logged(caplog):
    store = open_database(None).store("plane")
    store.subscribe(lambda _: 1 / 0)
    store.create(pod())
    assert "a store listener failed on ADDED Pod a/one: ZeroDivisionError" in caplog.text


def test_stores_are_separate_and_can_be_dropped(database):
    for name in ("plane", "east"):
        database.store(name).create(pod())
    east = database.store("east")
    assert database.stores() == ("east", "plane")
    database.drop("east")
    assert (database.stores(), len(database.store("plane"))) == (("plane",), 1)
    with pytest.raises(NotFoundError, match="the store named east was dropped"):
        east.create(pod("two"))
    assert (len(database.store("east")), database.store("east").revision) == (0, 0)
    with pytest.raises(NotFoundError, match="store west not found"):
        database.drop("west")
    with pytest.raises(RuntimeError, match="inside a batch"), database.batch():
        database.drop("plane")


def test_everything_is_there_after_reopening(tmp_path):
    path = tmp_path / "plane.db"
    with open_database(path) as database:
        plane, east = database.store("plane"), database.store("east")
        plane.create(pod("gone"))
        kept = plane.create(pod("kept", metadata={"labels": {"app": "x"}}, spec={"n": 1}))
        east.create(pod("far"))
        plane.delete(ref("gone"))
        database.store("empty")
    with open_database(path) as database:
        plane = database.store("plane")
        assert database.stores() == ("east", "empty", "plane")
        assert (plane.list("", "Pod", labels={"app": "x"}), plane.revision) == ((kept,), 3)
        assert [database.store(name).revision for name in ("east", "empty")] == [1, 0]
        assert (plane.changes_since(3), plane.changes_since(2)) == ((), Expired(oldest=3))
        assert plane.create(pod("next"))["metadata"]["resourceVersion"] == "4"


def test_a_dropped_store_stays_dropped(tmp_path):
    with open_database(tmp_path / "plane.db") as database:
        database.store("east").create(pod())
        database.drop("east")
    with open_database(tmp_path / "plane.db") as database:
        assert database.stores() == ()


def test_history_is_bounded():
    store = open_database(None, settings=StoreSettings(history_limit=2)).store("plane")
    for name in "abcd":
        store.create(pod(name))
    assert store.changes_since(1) == Expired(oldest=2)
    assert [change.ref.name for change in store.changes_since(2)] == ["c", "d"]


def test_uids_are_not_repeated():
    assert len({random_uid() for _ in range(1000)}) == 1000


def test_equal_parts_of_specs_are_held_once():
    store = Database(None, clock=VirtualClock()).store("plane")

    def pod(name, node):
        spec = {"containers": [{"name": "c", "args": ["a"]}], "nodeName": node}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team"}, "spec": spec}

    one, two = store.create(pod("one", "a")), store.create(pod("two", "b"))
    moved = store.replace(pod("two", "c"))
    assert one["spec"]["containers"] is two["spec"]["containers"] is moved["spec"]["containers"]
    assert (one["spec"]["nodeName"], moved["spec"]["nodeName"]) == ("a", "c")


def test_what_is_put_away_comes_back_as_it_was(tmp_path):
    settings = StoreSettings(decoded_objects=1)
    names = ("one", "three", "two")
    with open_database(tmp_path / "x.db", settings=settings) as database:
        store = database.store("cluster/east")
        written = [store.create(pod(name, spec={"a": [1, 1.0, True, None]})) for name in names]
        assert store.list("", "Pod") == tuple(written)
        written[0] = store.replace_status({**written[0], "status": {"phase": "Running"}})
    with open_database(tmp_path / "x.db", settings=settings) as database:
        store = database.store("cluster/east")
        assert [store.get(ref(name)) for name in names] == written
        with pytest.raises(ConflictError):
            store.replace({**written[0], "metadata": {**written[0]["metadata"], "resourceVersion": "1"}})
        store.delete(ref("one"))
        assert store.list("", "Pod") == tuple(written[1:])
