import pytest

from modelplane.api.objects import int_at, items_at, labels_of, manifest, mapping_at, name_of, text_at, value_at

POD = {"metadata": {"name": "a", "labels": {"app": "chat", "n": 1}}, "spec": {"replicas": 2, "items": [{"x": 1}, "y"]}}


def test_a_manifest_leaves_out_what_is_empty():
    assert manifest("v1", "Pod", "a", spec={}) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {},
    }
    assert manifest("v1", "Pod", "a", namespace="team", labels={"k": "v"})["metadata"] == {
        "name": "a",
        "namespace": "team",
        "labels": {"k": "v"},
    }


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (name_of, "a"),
        (labels_of, {"app": "chat", "n": "1"}),
        (lambda item: text_at(item, "spec", "replicas"), ""),
        (lambda item: int_at(item, "spec", "replicas"), 2),
        (lambda item: int_at(item, "spec", "absent", default=7), 7),
        (lambda item: mapping_at(item, "spec", "replicas"), {}),
        (lambda item: list(items_at(item, "spec", "items")), [{"x": 1}]),
        (lambda item: list(items_at(item, "metadata", "name")), []),
        (lambda item: value_at(item, "metadata", "name", "deeper"), None),
    ],
)
def test_an_accessor_answers_an_empty_value_for_another_shape(read, expected):
    assert read(POD) == expected


def test_true_is_no_number():
    assert int_at({"spec": {"replicas": True}}, "spec", "replicas", default=3) == 3
