import msgspec
import pytest

import modelplane.framework as front_door
from modelplane.framework import PluginSpec, ProfileError, ProfileSpec, Registry, RunState, Slot, run
from modelplane.framework.registry import NoParameters


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: int


class Low:
    def __init__(self, name, parameters):
        self.name = name
        self.limit = parameters.limit

    def refuse(self, _state, candidate):
        return (
            None
            if candidate <= self.limit
            else front_door.Refusal(self.name, front_door.RefusalCode.UNSCHEDULABLE, "too high")
        )

    def score(self, _state, candidates):
        return [1 - candidate / 100 for candidate in candidates]


class First:
    def __init__(self, name, _parameters):
        self.name = name

    def pick(self, _state, scored):
        return sorted(scored, key=lambda found: -found.total)


def registry():
    made = Registry()
    made.register("low", Low, Limit)
    made.register("first", First, NoParameters)
    made.register("nothing", lambda name, _: name, NoParameters)
    return made


LOW = PluginSpec("low", parameters={"limit": 10})
FIRST = PluginSpec("first")


def test_a_plugin_may_filter_and_score_and_a_profile_runs_it():
    built = registry().build([LOW, FIRST], [ProfileSpec("default", (("low", 2.0), ("first", None)))])
    result = run(built["default"], None, [20, 7, 3])
    assert [found.candidate for found in result.ranked] == [3, 7]


@pytest.mark.parametrize(
    ("plugins", "profiles", "says"),
    [
        ([PluginSpec("high")], [], "plugin high: no type high; the types are first, low, nothing"),
        ([PluginSpec("low", parameters={"limit": "x"})], [], "plugin low: parameters: Expected `int`"),
        ([PluginSpec("low", parameters={"limit": 1, "more": 2})], [], "plugin low: parameters: .*unknown field `more`"),
        ([LOW, LOW], [], "plugin low is listed twice"),
        ([PluginSpec("nothing")], [], "plugin nothing: type nothing is neither a filter, a scorer nor a picker"),
        ([LOW], [ProfileSpec("p", (("low", None),))], "exactly one picker is needed, there are 0"),
        (
            [FIRST, PluginSpec("first", "second")],
            [ProfileSpec("p", (("first", None), ("second", None)))],
            r"exactly one picker is needed, there are 2 \(first, second\)",
        ),
        ([FIRST], [ProfileSpec("p", (("other", None),))], "profile p: no plugin is named other"),
        ([FIRST], [ProfileSpec("p", (("first", 2.0),))], "profile p: first has a weight and is not a scorer"),
        ([FIRST], [ProfileSpec("p", (("first", None),))] * 2, "profile p is listed twice"),
    ],
)
def test_what_is_wrong_is_found_when_the_program_starts(plugins, profiles, says):
    with pytest.raises(ProfileError, match=says):
        registry().build(plugins, profiles)


def test_a_type_name_is_taken_once():
    made = registry()
    with pytest.raises(ProfileError, match="plugin type low is registered twice"):
        made.register("low", Low, Limit)


def test_two_instances_of_one_type_have_names_of_their_own():
    specs = [PluginSpec("low", "strict", {"limit": 1}), PluginSpec("low", "lax", {"limit": 50}), FIRST]
    built = registry().build(
        specs,
        [ProfileSpec("a", (("strict", None), ("first", None))), ProfileSpec("b", (("lax", None), ("first", None)))],
    )
    assert [len(run(built[name], None, [1, 20]).ranked) for name in ("a", "b")] == [1, 2]


def test_slots_are_typed_places_of_one_run():
    one, other = Slot("count"), Slot("count")
    state = RunState()
    state.put(one, 3)
    assert (state.get(one), state.get(other), RunState().get(one), repr(one)) == (3, None, None, "Slot(count)")


def test_the_front_door_is_exact():
    assert sorted(front_door.__all__) == front_door.__all__
    assert all(hasattr(front_door, name) for name in front_door.__all__)
