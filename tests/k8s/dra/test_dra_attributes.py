import pytest

from modelplane.k8s.dra.attributes import DeviceAttribute, base_kind, find_attribute, same_scalar

DRIVER = "gpu.example.com"


@pytest.mark.parametrize(
    ("published", "name", "found"),
    [
        ({"model": {"string": "a"}}, f"{DRIVER}/model", DeviceAttribute("string", "a", frozenset({"a"}))),
        ({f"{DRIVER}/model": {"int": 1}}, f"{DRIVER}/model", DeviceAttribute("int", 1, frozenset({1}))),
        (
            {"model": {"int": 2}, f"{DRIVER}/model": {"int": 1}},
            f"{DRIVER}/model",
            DeviceAttribute("int", 1, frozenset({1})),
        ),
        ({"model": {"string": "a"}}, "nic.example.com/model", None),
        ({"model": {"string": "a"}}, "model", DeviceAttribute("string", "a", frozenset({"a"}))),
        ({}, f"{DRIVER}/model", None),
        ({"model": {}}, f"{DRIVER}/model", DeviceAttribute("", None, frozenset())),
        (
            {"model": {"strings": ["a", "b"]}},
            f"{DRIVER}/model",
            DeviceAttribute("strings", None, frozenset({"a", "b"})),
        ),
        ({"model": {"strings": []}}, f"{DRIVER}/model", DeviceAttribute("", None, frozenset())),
        *[
            ({"x": {kind: value}}, "x", DeviceAttribute(kind, value, frozenset({value})))
            for kind, value in (("string", "a"), ("int", 1), ("bool", True), ("version", "1.0.0"))
        ],
        *[
            ({"x": {kind: list(values)}}, "x", DeviceAttribute(kind, None, frozenset(values)))
            for kind, values in (("strings", "ab"), ("ints", (1, 2)), ("bools", (True,)), ("versions", ("1.0.0",)))
        ],
        ({"v": {"version": "1.0.0+x"}}, f"{DRIVER}/v", DeviceAttribute("version", "1.0.0+x", frozenset({"1.0.0+x"}))),
    ],
)
def test_finding(published, name, found):
    assert find_attribute(published, DRIVER, name) == found


def read(value):
    return find_attribute({"x": value}, DRIVER, "x")


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ({"int": 1}, {"int": 1}, True),
        ({"int": 1}, {"int": 2}, False),
        ({"int": 1}, {"string": "1"}, False),
        ({"int": 1}, {"bool": True}, False),
        ({"version": "1.0.0"}, {"version": "1.0.0+x"}, False),
        ({"version": "1.0.0"}, {"string": "1.0.0"}, False),
        ({"strings": ["a"]}, {"strings": ["a"]}, False),
        ({}, {}, False),
    ],
)
def test_same_scalars(left, right, same):
    assert same_scalar(read(left), read(right)) is same


def test_base_kinds():
    assert [base_kind(read(value)) for value in ({"ints": [1]}, {"int": 1}, {})] == ["int", "int", ""]
