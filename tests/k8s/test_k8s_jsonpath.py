"""Paths as printer columns and `kubectl wait --for jsonpath=` take them."""

import pytest

from modelplane.k8s.jsonpath import find

CONDITIONS = {"conditions": [{"type": "Synced", "status": "False"}, {"type": "Ready", "status": "True", "n": 3}]}


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        (".a.b", {"a": {"b": 1}}, [1]),
        ("{.a}", {"a": 1}, [1]),
        ("$.a", {"a": 1}, [1]),
        (".a.b", {"a": [1]}, []),
        (".a[*].b", {"a": [{"b": 1}, {}, {"b": 2}]}, [1, 2]),
        (".a.*", {"a": {"x": 1, "y": 2}}, [1, 2]),
        (".a[1]", {"a": [1, 2]}, [2]),
        (".a[-1]", {"a": [1, 2]}, [2]),
        (".a[5]", {"a": [1, 2]}, []),
        (".a['b.c']", {"a": {"b.c": 1}}, [1]),
        (r".a.b\.c", {"a": {"b.c": 1}}, [1]),
        (".conditions[?(@.type=='Ready')].status", CONDITIONS, ["True"]),
        ('.conditions[?(@.type == "Ready")].status', CONDITIONS, ["True"]),
        (".conditions[?(@.type!='Ready')].status", CONDITIONS, ["False"]),
        (".conditions[?(@.n>=3)].type", CONDITIONS, ["Ready"]),
        (".conditions[?(@.n<3)].type", CONDITIONS, []),
        (".conditions[?(@.n)].type", CONDITIONS, ["Ready"]),
        (".conditions[?(@.type=='Nope')].status", CONDITIONS, []),
        ("spec.paused", {"spec": {"paused": True}}, [True]),
        (".spec.paused.deeper", {"spec": {"paused": True}}, []),
        (".labels[*]", {"labels": {"a.b/c": "x"}}, ["x"]),
        (r".labels.a\.b/c", {"labels": {"a.b/c": "x"}}, ["x"]),
    ],
)
def test_paths(path, value, found):
    assert find(path, value) == found


@pytest.mark.parametrize("path", [".a[", "{.a b}", "{range .items[*]}"])
def test_a_path_that_cannot_be_read_is_refused(path):
    with pytest.raises(ValueError, match="cannot be read as a JSONPath"):
        find(path, {})
