import msgspec
import pytest

import modelplane.framework as front_door
from modelplane.framework import CycleState, ProfileError, Refusal, RefusalCode, Runner, StateKey, make_profile
from modelplane.framework.registry import (
    BuiltPlugins,
    DeclaredPlugin,
    NoParameters,
    Parameters,
    PluginEntry,
    Registry,
    build_plugins,
    declared_type,
    linked_type,
    plugin_type,
)


class Limit(Parameters, frozen=True):
    upper_limit: int


class Other(Parameters, frozen=True):
    other: str


class Low:
    def __init__(self, name, parameters):
        self.name = name
        self.limit = parameters.upper_limit

    def refuse(self, _state, candidate):
        return None if candidate <= self.limit else Refusal(self.name, RefusalCode.UNSCHEDULABLE, "too high")

    def score(self, _state, candidates):
        return [1 - candidate / 100 for candidate in candidates]


class First:
    def __init__(self, name, _parameters=None):
        self.name = name

    def pick(self, _state, scored):
        return sorted(scored, key=lambda found: -found.total)


def impossible(_name, _parameters):
    raise ValueError("no")


REGISTRY = Registry(
    [
        plugin_type("low", Low, Limit, produces="height"),
        plugin_type("first", First, NoParameters, consumes=("height",)),
        plugin_type("impossible", impossible, NoParameters),
        linked_type("wrapped", lambda name, given, handle: (name, handle.plugin(given.other)), Other),
        declared_type("parser", "parsing"),
    ]
)


def built(*entries, existing=None):
    problems = []
    made = build_plugins(entries, REGISTRY, lambda entry, sentence: problems.append((entry.name, sentence)), existing)
    return made, problems


def test_a_plugin_may_filter_and_score_and_a_profile_runs_it():
    made, problems = built(
        PluginEntry("low", "low", Limit(upper_limit=10)), PluginEntry("first", "first", NoParameters())
    )
    profile = make_profile("default", zip(made.instances.items(), (2.0, None), strict=True))
    assert [found.candidate for found in Runner(profile).run(None, [20, 7, 3]).ranked] == [3, 7]
    assert problems == []


def test_a_plugin_that_no_list_names_has_no_index():
    assert PluginEntry("low", "low", NoParameters()) == PluginEntry("low", "low", NoParameters(), at=-1)


def test_an_instance_is_made_after_those_it_refers_to():
    made, problems = built(
        PluginEntry("b", "wrapped", Other(other="a")),
        PluginEntry("a", "wrapped", Other(other="kept")),
        PluginEntry("kept", "first", NoParameters()),
        existing={"kept": "it"},
    )
    assert made == BuiltPlugins({"b": ("b", ("a", "it")), "a": ("a", "it"), "kept": "it"}, frozenset({"a", "kept"}))
    assert problems == []


@pytest.mark.parametrize(
    ("entries", "problems"),
    [
        ([PluginEntry("x", "wrapped", Other(other="y"))], [("x", "refers to plugin y, which is not listed")]),
        (
            [PluginEntry("x", "wrapped", Other(other="y")), PluginEntry("y", "wrapped", Other(other="x"))],
            [
                ("x", "plugins refer to each other in a cycle: x -> y -> x"),
                ("y", "plugins refer to each other in a cycle: y -> x -> y"),
            ],
        ),
        ([PluginEntry("x", "impossible", NoParameters())], [("x", "no")]),
    ],
)
def test_what_cannot_be_made_is_reported_for_each_entry(entries, problems):
    made, found = built(*entries)
    assert (made.instances, found) == ({}, problems)


def test_a_declared_plugin_is_its_parameters():
    made, _ = built(PluginEntry("mine", "parser", NoParameters()))
    assert made.instances == {"mine": DeclaredPlugin("mine", "parser", NoParameters())}
    assert REGISTRY["parser"].parts == {"parsing"}
    assert REGISTRY["parser"].serving_as("source").parts == {"parsing", "source"}


@pytest.mark.parametrize(
    ("plugins", "says"),
    [
        ([(("first", First("first")), None), (("x", object()), None)], "plugin x is neither a filter, a scorer nor a"),
        ([], "profile p: exactly one picker is needed, there are 0 .none."),
        (
            [(("first", First("first")), None), (("second", First("second")), None)],
            r"exactly one picker is needed, there are 2 \(first, second\)",
        ),
        ([(("first", First("first")), 2.0)], "profile p: first has a weight and is not a scorer"),
    ],
)
def test_what_is_wrong_with_a_profile_is_found_when_it_is_made(plugins, says):
    with pytest.raises(ProfileError, match=says):
        make_profile("p", plugins)


def test_a_type_name_is_taken_once():
    with pytest.raises(ProfileError, match="plugin type low is registered twice"):
        REGISTRY.extended([plugin_type("low", Low, Limit)])
    assert list(REGISTRY.extended([plugin_type("more", First, NoParameters)])) == [*REGISTRY, "more"]


def test_data_has_a_default_producer():
    assert (REGISTRY.producer_of("height"), REGISTRY.producer_of("weight"), len(REGISTRY)) == ("low", "", 5)


def test_parameters_are_camel_case_and_closed():
    assert msgspec.convert({"upperLimit": 3}, Limit) == Limit(upper_limit=3)
    with pytest.raises(msgspec.ValidationError, match="unknown field `more`"):
        msgspec.convert({"upperLimit": 3, "more": 1}, Limit)


def test_slots_are_typed_places_of_one_run():
    one, other = StateKey("count"), StateKey("count")
    state = CycleState()
    state.put(one, 3)
    assert (state.get(one), state.get(other), CycleState().get(one), repr(one)) == (3, None, None, "StateKey(count)")


def test_the_front_door_is_exact():
    assert sorted(front_door.__all__) == front_door.__all__
    assert all(hasattr(front_door, name) for name in front_door.__all__)
