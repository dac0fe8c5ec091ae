import msgspec
from hypothesis import given
from hypothesis import strategies as st

from modelplane.apiserver.store.indexer import LruBodies, ObjectIndexer
from modelplane.reconcile.store import ObjectRef

NAMESPACES = ("", "a", "b")
NAMES = ("one", "three", "two")
LABELS = st.dictionaries(st.sampled_from("abcdefghijkl"), st.sampled_from(["", "x", "y"]), max_size=3)
REFS = st.builds(
    ObjectRef,
    st.sampled_from(["", "apps"]),
    st.sampled_from(["Pod", "Job"]),
    st.sampled_from(NAMESPACES),
    st.sampled_from(NAMES),
)
QUERIES = st.tuples(st.sampled_from(["Pod", "Job"]), st.sampled_from([None, *NAMESPACES]), st.none() | LABELS)


def make(ref, labels):
    metadata = {"name": ref.name, "namespace": ref.namespace, "labels": labels}
    return {"kind": ref.kind, "group": ref.group, "metadata": metadata}


def expected(objects, kind, namespace, labels):
    """What a list must answer, by scanning everything."""
    return tuple(
        manifest
        for ref, manifest in sorted(objects.items(), key=lambda item: item[0])
        if (ref.group, ref.kind) == ("apps", kind)
        and (namespace is None or ref.namespace == namespace)
        and (labels or {}).items() <= manifest["metadata"]["labels"].items()
    )


@given(st.lists(st.tuples(REFS, st.none() | LABELS, QUERIES), max_size=40))
def test_lists_answer_as_a_scan_of_everything_would(steps):
    mirror, objects = ObjectIndexer(), {}
    for ref, labels, (kind, namespace, wanted) in steps:
        if labels is not None:
            objects[ref] = make(ref, labels)
            mirror.put(ref, objects[ref])
        elif ref in objects:
            del objects[ref]
            mirror.remove(ref)
        found = mirror.list("apps", kind, namespace=namespace, labels=wanted)
        assert found == expected(objects, kind, namespace, wanted)
        assert mirror.get(ref) is objects.get(ref)
        assert len(mirror) == len(objects)
        assert mirror.kinds() == tuple(sorted({(each.group, each.kind) for each in objects}))


def test_queries_for_ever_new_labels_do_not_grow_it():
    mirror = ObjectIndexer()
    ref = ObjectRef("", "Pod", "a", "one")
    mirror.put(ref, make(ref, {"key-99": "x"}))
    found = [len(mirror.list("", "Pod", labels={f"key-{number}": "x"})) for number in range(100)]
    assert found == [0] * 99 + [1]
    assert len(mirror._kinds["", "Pod"]._by_label) == 8


def test_an_index_follows_labels_that_change():
    mirror = ObjectIndexer()
    ref = ObjectRef("", "Pod", "a", "one")
    mirror.put(ref, make(ref, {"app": "x"}))
    answers = [len(mirror.list("", "Pod", labels={"app": "x"}))]
    for labels in ({"app": "y"}, {"app": "x"}, {}):
        mirror.put(ref, make(ref, labels))
        answers.append(len(mirror.list("", "Pod", labels={"app": "x"})))
    assert answers == [1, 0, 1, 0]
    assert mirror._kinds["", "Pod"]._by_label == {"app": {}}


def test_removed_objects_leave_nothing_behind():
    mirror = ObjectIndexer()
    ref = ObjectRef("", "Pod", "a", "one")
    mirror.put(ref, make(ref, {"app": "x"}))
    assert len(mirror.list("", "Pod", labels={"app": "x"})) == 1
    mirror.remove(ref)
    assert mirror._kinds == {}


@given(st.integers(0, 3), st.lists(st.tuples(REFS, st.none() | LABELS, QUERIES), max_size=40))
def test_what_is_put_away_answers_the_same(decoded_max, steps):
    bodies, plain = ObjectIndexer(LruBodies(decoded_max)), ObjectIndexer()
    for ref, labels, (kind, namespace, wanted) in steps:
        for mirror in (bodies, plain):
            if labels is not None:
                mirror.put(ref, make(ref, labels))
            elif mirror.get(ref) is not None:
                mirror.remove(ref)
        assert bodies.get(ref) == plain.get(ref)
        assert bodies.list("apps", kind, namespace=namespace, labels=wanted) == plain.list(
            "apps", kind, namespace=namespace, labels=wanted
        )


def test_only_the_newest_stay_decoded():
    mirror = ObjectIndexer(LruBodies(2))
    refs = [ObjectRef("apps", "Pod", "a", str(number)) for number in range(4)]
    for ref in refs:
        mirror.put(ref, make(ref, {}))
    assert mirror.get(refs[3]) is mirror.get(refs[3])
    first = mirror.get(refs[0])
    assert first == make(refs[0], {})
    assert mirror.get(refs[0]) is first
    mirror.get(refs[1])
    mirror.get(refs[2])
    assert mirror.get(refs[0]) is not first


def test_a_long_list_does_not_drive_out_what_is_in_use():
    mirror = ObjectIndexer(LruBodies(1))
    refs = [ObjectRef("apps", "Pod", "a", f"{number:03}") for number in range(100)]
    for ref in refs:
        mirror.put(ref, make(ref, {}))
    used = mirror.get(refs[7])
    assert mirror.list("apps", "Pod") == tuple(make(ref, {}) for ref in refs)
    assert mirror.get(refs[7]) is used


@given(st.lists(st.tuples(REFS, LABELS), unique_by=lambda item: item[0], max_size=12), st.sampled_from(NAMES))
def test_a_scan_is_the_list_without_what_went_meanwhile(items, gone):
    mirror = ObjectIndexer(LruBodies(2))
    for ref, labels in items:
        mirror.load(ref, msgspec.json.encode(make(ref, labels)))
    wanted = [item for item in mirror.list("apps", "Pod") if item["metadata"]["name"] != gone]
    scan = mirror.scan("apps", "Pod")
    for ref, _ in items:
        if ref.name == gone and (ref.group, ref.kind) == ("apps", "Pod"):
            mirror.remove(ref)
    assert list(scan) == wanted
