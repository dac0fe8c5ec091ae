"""Profiles of placement: what they are made of, who may add to them, what is refused, and who hears what is decided."""

import msgspec
import pytest

from modelplane.api.errors import InputError
from modelplane.framework import PluginFault, ProfileError, Refusal, RefusalCode, StepRecorder
from modelplane.framework.registry import NoParameters, plugin_type
from modelplane.placement.plugins import FilterStage
from modelplane.placement.profile import PluginUse, build_profile, builtin_types, default_spec, read_profile
from modelplane.placement.request import ScoreWeights, SpreadRule
from modelplane.placement.schedule import schedule
from modelplane.placement.snapshot import Fleet
from modelplane.testing.fleets import cluster, engine, hardware, kind, place, pool, request

OWN = [use.type for use in default_spec().plugins]


class Tier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tier: str


class OnTier:
    """A cluster filter of a third party, which reads a label that no other plugin does."""

    stage = FilterStage.CLUSTER

    def __init__(self, name, parameters):
        self.name = name
        self.tier = parameters.tier

    def reads(self, _state):
        return ("tier",)

    def refuse(self, _state, view):
        found = view.sample.labels.get("tier")
        return (
            None
            if found == self.tier
            else Refusal(self.name, RefusalCode.UNRESOLVABLE, "tier {}, not {}", (found, self.tier))
        )


class NoOld:
    """A pool filter."""

    stage = FilterStage.POOL

    def __init__(self, name, _parameters):
        self.name = name

    def refuse(self, _state, view):
        old = view.kind.hardware.kinds[0].device.attributes["gpu.nvidia.com"]["productName"] == "H100"
        return Refusal(self.name, RefusalCode.UNRESOLVABLE, "old") if old else None


class AtMostTwo:
    """A filter of offers whose answer changes as replicas are seated."""

    stage = FilterStage.OFFER

    def __init__(self, name, _parameters):
        self.name = name

    def refuse(self, state, _offer):
        return Refusal(self.name, RefusalCode.UNSCHEDULABLE, "two are enough") if state.load.total() >= 2 else None


class Together:
    """A scorer that likes a cluster the better the more replicas it has."""

    def __init__(self, name, _parameters):
        self.name = name

    def score(self, _state, offers):
        return [1 - 1 / (1 + offer.load) for offer in offers]


class WorstFirst:
    def __init__(self, name, _parameters):
        self.name = name

    def pick(self, _state, scored):
        return sorted(scored, key=lambda found: (found.total, found.candidate.places[0]))


class Broken:
    stage = FilterStage.OFFER

    def __init__(self, name, _parameters):
        self.name = name

    def refuse(self, _state, _offer):
        raise KeyError("region")


class Unmade:
    def __init__(self, _name, _parameters):
        raise InputError("zone is required")


class Stageless:
    def __init__(self, name, _parameters):
        self.name = name

    def refuse(self, _state, _candidate):
        return None


def registry():
    bare = {
        "no-old": NoOld,
        "at-most-two": AtMostTwo,
        "together": Together,
        "worst-first": WorstFirst,
        "broken": Broken,
        "stageless": Stageless,
        "unmade": Unmade,
    }
    types = [plugin_type(name, made, NoParameters) for name, made in bare.items()]
    return builtin_types().extended([plugin_type("on-tier", OnTier, Tier), *types])


def document(*usages, without=(), **fields):
    plugins = [{"type": name} for name in OWN if name not in without]
    return {"kind": "PlacementProfile", "plugins": [*plugins, *usages], **fields}


def profile(*usages, without=()):
    return read_profile(document(*usages, without=without), registry())


def where(decided):
    return [p.replica.cluster for p in decided.placements]


def test_every_filter_scorer_and_picker_of_placement_is_a_registered_plugin():
    assert [name for name, kind in builtin_types().items() if not kind.replaced_by] == OWN
    built = build_profile(default_spec())
    staged = (*built.cluster_filters, *built.pool_filters, *built.offer_filters)
    named = {plugin.name for plugin in staged} | {known.scorer.name for known in built.scorers} | {built.picker.name}
    older = {kind.name: kind.replaced_by for kind in builtin_types().values() if kind.replaced_by}
    # Devices and Capacity are applied where offers are made.
    assert (named, sorted(OWN)) == (set(older) - {"Devices", "Capacity"}, sorted(older.values()))
    assert (older["ClusterReady"], older["spread"]) == ("cluster-ready-filter", "spread-scorer")


def test_a_profile_may_use_the_names_of_instances_as_types():
    written = {
        "kind": "PlacementProfile",
        "plugins": [{"type": name} for name in ("Devices", "Capacity", "best-first")],
    }
    assert read_profile(written).picker.name == "best-first"


@pytest.mark.parametrize(
    ("written", "says"),
    [
        pytest.param(document(without=["capacity-filter"]), "place: Capacity cannot be left out", id="the ledger"),
        pytest.param(document(without=["best-first-picker"]), "one picker is needed, there are 0", id="no picker"),
        pytest.param(document({"type": "worst-first"}), "there are 2", id="two pickers"),
        pytest.param(document({"type": "price2"}), "plugin price2: no type price2; the types are", id="unknown type"),
        pytest.param(document({"type": "spread-scorer"}), "plugin spread-scorer is listed twice", id="twice"),
        pytest.param(document({"type": "no-old", "weight": 2}), "no-old has a weight and is not a scorer", id="weight"),
        pytest.param(
            document({"type": "stageless"}), "does not declare its stage: Cluster, Pool, Offer", id="no stage"
        ),
        pytest.param(document({"type": "on-tier"}), "plugin on-tier: parameters: .*`tier`", id="parameters"),
        pytest.param(document({"type": "unmade"}), "plugin unmade: zone is required", id="it cannot be made"),
        pytest.param(document({"type": "together", "weight": -1}), "the weight of together is -1", id="negative"),
        pytest.param(document({"type": "together", "wieght": 1}), "PlacementProfile: .*`wieght`", id="a slip"),
        pytest.param({**document(), "kind": "Profile"}, "this is a Profile, not a PlacementProfile", id="another kind"),
    ],
)
def test_what_is_wrong_with_a_profile_is_found_when_it_is_read(written, says):
    with pytest.raises(ProfileError, match=says):
        read_profile(written, registry())


def test_who_names_a_type_that_does_not_exist_is_told_which_do():
    with pytest.raises(ProfileError) as told:
        read_profile(document({"type": "price2"}), builtin_types())
    types = ", ".join(sorted(OWN))
    assert str(told.value) == f"plugin price2: no type price2; the types are {types}"


FLEET = Fleet.of(
    [
        cluster("a", pool("p", 1, price=10.0), labels={"tier": "gold"}),
        cluster("b", pool("p", 4, price=10.0), labels={"tier": "iron"}),
        cluster("c", pool("old", 4, hardware(kind(product="H100")), price=10.0), labels={"tier": "gold"}),
    ]
)
PACKING = profile({"type": "spread-scorer", "weight": 0}, without=["spread-scorer"])
ONE = place(1, engine(request(1)))


@pytest.mark.parametrize(
    ("built", "asked", "expected"),
    [
        pytest.param(profile(), place(2), ["b", "c"], id="usual"),
        pytest.param(profile({"type": "on-tier", "parameters": {"tier": "gold"}}), place(2), ["a", "c"], id="cluster"),
        pytest.param(profile({"type": "no-old"}), place(2), ["a", "b"], id="pool"),
        pytest.param(profile({"type": "at-most-two"}), place(3), ["b", "c"], id="offer"),
        pytest.param(profile({"type": "together", "weight": 9}), place(3), ["b", "b", "b"], id="score"),
        pytest.param(profile({"type": "worst-first"}, without=["best-first-picker"]), ONE, ["a"], id="picker"),
        pytest.param(
            profile({"type": "spread-scorer", "weight": 0}, without=["spread-scorer"]),
            place(3),
            ["b", "b", "c"],
            id="weights",
        ),
    ],
)
def test_plugins_of_others_take_part_in_the_decision(built, asked, expected):
    assert where(schedule(asked, FLEET, profile=built)) == expected


def test_what_a_deployment_says_of_a_weight_comes_before_the_profile():
    spread = place(3, weights=ScoreWeights(spread=100))
    assert where(schedule(spread, FLEET, profile=PACKING)) == ["a", "b", "c"]


def test_the_refusal_of_a_plugin_is_in_the_trace_with_its_numbers():
    decided = schedule(place(9), FLEET, profile=profile({"type": "on-tier", "parameters": {"tier": "tin"}}))
    assert {(c.cluster, c.filter, c.reason) for c in decided.trace.candidates()} == {
        ("a", "on-tier", "tier gold, not tin"),
        ("b", "on-tier", "tier iron, not tin"),
        ("c", "on-tier", "tier gold, not tin"),
    }


def test_a_plugin_that_breaks_is_a_fault_and_places_nothing_wrongly():
    with pytest.raises(PluginFault, match="plugin broken: raised KeyError"):
        schedule(ONE, FLEET, profile=profile({"type": "broken"}))


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(place(2), id="plain"),
        pytest.param(place(40, engine(request(8))), id="too many"),
        pytest.param(place(3, spread=(SpreadRule("tier", 1),)), id="spread"),
        pytest.param(place(2, engine(request(1)), engine(request(1), name="prefill")), id="several engines"),
    ],
)
def test_a_reporter_hears_of_every_place_that_the_trace_tells_of_and_changes_nothing(asked):
    recorder = StepRecorder()
    decided = schedule(asked, FLEET, reporter=recorder)
    heard = [subject for subject, *_ in (*recorder.refusals, *recorder.scores)]
    assert {name for subject in heard for name, _ in subject.places} == {"a", "b", "c"}
    assert len(recorder.picks) == len(decided.placements)
    silent = schedule(asked, FLEET)
    assert silent.trace.candidates() == decided.trace.candidates()
    assert silent.placements == decided.placements


def test_names_and_parameters_let_one_type_serve_twice():
    twice = [PluginUse("on-tier", f"on-{tier}", None, {"tier": tier}) for tier in ("gold", "iron")]
    built = build_profile(
        msgspec.structs.replace(default_spec(), plugins=(*default_spec().plugins, *twice)), registry()
    )
    assert schedule(ONE, FLEET, profile=built).pending == 1
