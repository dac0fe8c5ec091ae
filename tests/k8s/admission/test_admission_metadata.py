import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.admission.names import (
    fault_in_label_key,
    fault_in_label_value,
    fault_in_name,
    fault_in_namespace,
    fault_in_prefix,
    fault_in_segment,
)
from modelplane.k8s.admission.objectmeta import check_metadata

NAME_FORM = "must be lower case letters, digits, - and ., starting and ending with a letter or digit"
KEY_FORM = "must be letters, digits, -, _ and ., starting and ending with a letter or digit"
# Confusable, invisible, right-to-left, other digits, line breaks and what a shell or a path would act upon.
HOSTILE_NAMES = (
    "\u0430bc", "a\u200bb", "a\u202eb", "a\u2066b", "\uff41", "\u0661", "a\n", "\na", "a b", "a/b", "../a", "a\x00b",
    "a;b", "$(a)", "`a`", "a'b", 'a"b', "é", "ß", "A", "a_b", "a..b", ".a", "a.", "-a", "a-", "\U0001f600", "a%2fb",
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_names_are_refused_everywhere(name):
    assert fault_in_name(name)
    assert fault_in_namespace(name)
    assert [problem.field for problem in check_metadata({"name": name}, ("metadata",), longest_name=63)] == [
        "metadata.name"
    ]


@pytest.mark.parametrize(
    ("fault_in", "good", "bad"),
    [
        (fault_in_name, ["a", "0", "a.b-c.d", "a" * 253], ["", "a" * 254, "a_b", "a..b", "A"]),
        (fault_in_namespace, ["a", "a-b", "a" * 63], ["", "a.b", "a" * 64, "-a"]),
        (fault_in_prefix, ["a-", "a", "a.b-"], ["-", "a--.", "A-"]),
        (
            fault_in_label_key,
            ["a", "A_b.c-d", "a.b/c", "a" * 63, "x" * 253 + "/a"],
            ["", "/a", "a/", "a/b/c", "a" * 64, "x" * 254 + "/a", "A.b/c", "a b", "é", "a\n"],
        ),
        (fault_in_label_value, ["", "a", "A_b.c-d", "a" * 63], ["a" * 64, "-a", "a b", "a\n", "é"]),
        (fault_in_segment, ["a", "A b", "..."], [".", "..", "a/b", "a%b"]),
    ],
)
def test_syntax(fault_in, good, bad):
    assert [text for text in good if fault_in(text)] == []
    assert [text for text in bad if not fault_in(text)] == []


@pytest.mark.parametrize(
    ("metadata", "lines"),
    [
        ({"name": "a"}, []),
        ({"generateName": "a-"}, []),
        ({"name": "x" * 63}, []),
        (
            {
                "name": "a",
                "namespace": "b",
                "uid": "u",
                "resourceVersion": "1",
                "generation": 2,
                "creationTimestamp": "2024-01-02T03:04:05Z",
                "labels": {"a/b": "c"},
                "annotations": {"A/B": "anything\nat all"},
                "finalizers": ["a.b/c"],
                "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u"}],
                "managedFields": [{}],
            },
            [],
        ),
        ({}, ["m.name: is required; give a name, or generateName"]),
        ({"name": ""}, ["m.name: is required; give a name, or generateName"]),
        ({"name": "A"}, [f'm.name: "A" is not a valid name; {NAME_FORM}']),
        ({"name": "x" * 64}, [f'm.name: "{"x" * 64}" is not a valid name; must have at most 63 characters']),
        ({"name": 1}, ['m.name: is 1; must be a string; write it in quotes, "1"']),
        ({"generateName": "A-"}, [f'm.generateName: "A-" is not a valid generateName; {NAME_FORM}']),
        (
            {"name": "a", "namespace": "a.b"},
            [f'm.namespace: "a.b" is not a valid namespace; {NAME_FORM.replace(", - and .", " and -")}'],
        ),
        ({"name": "a", "uid": 0}, ['m.uid: is 0; must be a string; write it in quotes, "0"']),
        ({"name": "a", "uid": [1]}, ["m.uid: is a list of 1; must be a string"]),
        ({"name": "a", "generation": "1"}, ['m.generation: is "1"; must be an integer']),
        ({"name": "a", "labels": []}, ["m.labels: is a list of 0; must be an object whose values are strings"]),
        ({"name": "a", "labels": {"a b": "c"}}, [f'm.labels[a b]: "a b" is not a valid key of a label; {KEY_FORM}']),
        ({"name": "a", "labels": {"a": "b c"}}, [f'm.labels[a]: "b c" is not a valid value of a label; {KEY_FORM}']),
        ({"name": "a", "labels": {"a": True}}, ['m.labels[a]: is true; must be a string; write it in quotes, "true"']),
        (
            {"name": "a", "annotations": {"a b": ""}},
            [f'm.annotations[a b]: "a b" is not a valid key of an annotation; {KEY_FORM}'],
        ),
        (
            {"name": "a", "annotations": {"a": {}}},
            ["m.annotations[a]: is an object; must be a string"],
        ),
        (
            {"name": "a", "annotations": {"a": "é" * 131_072}},
            ["m.annotations: has 262145 bytes; at most 262144 in all are allowed"],
        ),
        ({"name": "a", "finalizers": "x"}, ['m.finalizers: is "x"; must be a list of strings']),
        (
            {"name": "a", "finalizers": ["a b", 1]},
            [
                f'm.finalizers[0]: "a b" is not a valid finalizer; {KEY_FORM}',
                'm.finalizers[1]: is 1; must be a string; write it in quotes, "1"',
            ],
        ),
        ({"name": "a", "ownerReferences": {}}, ["m.ownerReferences: is an object; must be a list of objects"]),
        (
            {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": ""}]},
            [
                "m.ownerReferences[0].name: is required; give a string",
                "m.ownerReferences[0].uid: is required; give a string",
            ],
        ),
        ([], ["m: is a list of 0; must be an object"]),
    ],
)
def test_metadata(metadata, lines):
    assert [str(problem) for problem in check_metadata(metadata, ("m",), longest_name=63)] == lines


@given(st.text(max_size=80))
def test_a_valid_name_is_short_ascii_on_one_line(name):
    if not fault_in_name(name, longest=63):
        assert name.isascii()
        assert name.isprintable()
        assert name == name.lower().strip("-. ")
        assert 0 < len(name) <= 63
