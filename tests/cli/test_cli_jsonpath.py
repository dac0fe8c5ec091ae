"""Paths as `kubectl wait --for jsonpath=` takes them."""

import pytest

from modelplane.api.errors import InputError
from modelplane.cli._jsonpath import read_jsonpath, text_of

ITEM = {
    "metadata": {"labels": {"a.b/c": "x"}},
    "spec": {"engines": [{"name": "p"}, {"name": "d", "port": 8000}], "paused": True},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Placed", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("{.spec.paused}", [True]),
        (".spec.paused", [True]),
        ("spec.paused", [True]),
        ("{.spec.engines[0].name}", ["p"]),
        ("{.spec.engines[-1].port}", [8000]),
        ("{.spec.engines[2]}", []),
        ("{.spec.engines[*].name}", ["p", "d"]),
        ("{.spec.engines[*].port}", [8000]),
        ("{.metadata.labels['a.b/c']}", ["x"]),
        ("{.metadata.labels.*}", None),
        (r"{.metadata.labels.a\.b/c}", None),
        ('{.status.conditions[?(@.type=="Placed")].status}', ["False"]),
        ("{.status.conditions[?(@.type=='None')].status}", []),
        ("{.spec.engines[?(@.port == '8000')].name}", ["d"]),
        ("{.spec.paused.deeper}", []),
        ("{.metadata.labels[*]}", ["x"]),
        ("{.a b}", None),
        ("{range .items[*]}", None),
        ("", None),
    ],
)
def test_what_a_path_finds(path, values):
    if values is None:
        with pytest.raises(InputError, match="is no JSONPath that is known here"):
            read_jsonpath(path)
    else:
        assert read_jsonpath(path)(ITEM) == values


def test_an_escaped_dot_belongs_to_the_name():
    assert read_jsonpath(r"{.a\.b}")({"a.b": 1}) == [1]


def test_values_are_compared_as_they_are_printed():
    assert [text_of(value) for value in (True, False, 3, "x")] == ["true", "false", "3", "x"]
