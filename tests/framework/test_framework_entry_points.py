from importlib.metadata import EntryPoint

import pytest

from modelplane.framework import ProfileError
from modelplane.framework.entry_points import discover_types, load_types
from modelplane.framework.registry import NoParameters, plugin_type

ONE = plugin_type("one", lambda name, _: name, NoParameters)
SEVERAL = (ONE, plugin_type("two", lambda name, _: name, NoParameters))
NOTHING = ()
TEXT = "text"
NUMBER = 3
MIXED = (ONE, TEXT)


def several():
    return iter(SEVERAL)


def fails():
    raise RuntimeError("no licence")


def point(attribute, name="mine"):
    return EntryPoint(name, f"{__name__}:{attribute}", "a.group")


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (["ONE"], ["one"]),
        (["SEVERAL"], ["one", "two"]),
        (["several"], ["one", "two"]),
        (["SEVERAL", "ONE"], ["one", "one", "two"]),
    ],
)
def test_an_entry_point_names_types_or_a_function_that_returns_them(attributes, expected):
    points = [point(each, name) for each, name in zip(attributes, "ba", strict=False)]
    assert [found.name for found in load_types(points)] == expected


@pytest.mark.parametrize(
    ("attribute", "says"),
    [
        ("missing", r"entry point mine \(.*:missing\): AttributeError"),
        ("fails", r"entry point mine \(.*:fails\): RuntimeError: no licence"),
        ("NOTHING", "is neither a PluginType nor several of them"),
        ("TEXT", "is neither a PluginType nor several of them"),
        ("MIXED", "is neither a PluginType nor several of them"),
        ("NUMBER", "is neither a PluginType nor several of them"),
    ],
)
def test_an_entry_point_that_cannot_be_loaded_is_named(attribute, says):
    with pytest.raises(ProfileError, match=says):
        load_types([point(attribute)])


def test_an_unused_group_has_no_types():
    assert discover_types("modelplane.no.such.group") == []
