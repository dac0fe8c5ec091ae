"""The module for authors of plugins: it has every extension point, and nothing that they cannot use."""

import importlib.util
from inspect import getdoc, isclass
from pathlib import Path

import pytest

from modelplane.epp import plugins
from modelplane.epp.config.builtin import builtin_registry
from modelplane.epp.flowcontrol import fairness, ordering, saturation, usage
from modelplane.epp.scheduling import plugins as scheduling
from modelplane.epp.server.compiled import is_compiled
from modelplane.framework import plugins as framework

ROOT = Path(__file__).resolve().parents[2]
NOT_FOR_PLUGINS = {"Reporter", "ColumnReporter", "DecisionRecorder"}
"""Protocols of those who watch a run."""
PROTOCOL_OF_PART = {
    "parser": "Parser",
    "source": "DataSource",
    "detector": "SaturationDetector",
    "fairness": "FairnessPolicy",
    "ordering": "OrderingPolicy",
    "usage limit": "UsageLimitPolicy",
}
NOT_FROM_OUTSIDE = {
    "extractor": "a data source reads numbers of its own",
    "discovery": "endpoints come from the pool or from a file",
    "tokens": "settings of the tokenizer",
    "eviction": "one rule, which has two names",
    "identity": "settings of the director",
    "syncer": "settings of --peers",
    "verifier": "settings of the picker",
    "without effect": "types of the ecosystem that do nothing here",
}


def is_protocol(found):
    return isclass(found) and getattr(found, "_is_protocol", False)


@pytest.mark.parametrize("name", plugins.__all__)
def test_every_name_is_there(name):
    found = getattr(plugins, name)
    assert found is plugins.Profiles or found.__name__ == name
    assert getdoc(found) or is_compiled(), "mypyc keeps no docstrings"


def test_the_list_is_exact():
    offered = {name for name in vars(plugins) if not name.startswith("_")}
    assert plugins.__all__ == sorted(offered)


def test_every_extension_point_is_offered():
    rooms = (framework, scheduling, fairness, ordering, saturation, usage)
    points = {
        name
        for room in rooms
        for name, found in vars(room).items()
        if is_protocol(found) and found.__module__ == room.__name__ and not name.startswith("_")
    }
    assert len(points) > 20
    assert points - NOT_FOR_PLUGINS == {name for name in plugins.__all__ if is_protocol(getattr(plugins, name))} - {
        "Handle"
    }


def test_every_part_of_a_configuration_has_its_protocol_or_a_reason():
    parts = {part for kind in builtin_registry().values() for part in kind.parts}
    assert parts == {*PROTOCOL_OF_PART, *NOT_FROM_OUTSIDE}
    assert set(PROTOCOL_OF_PART.values()) <= set(plugins.__all__)


def compiled_modules():
    spec = importlib.util.spec_from_file_location("compile_picker", ROOT / "tools" / "compile_picker.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return set(tool.MODULES)


def test_what_authors_implement_or_inherit_from_is_never_compiled():
    inherited = {plugins.Parameters, plugins.NoParameters}
    implemented = {found for name in plugins.__all__ if is_protocol(found := getattr(plugins, name))}
    compiled = compiled_modules()
    assert plugins.SchedulingContext.__module__ in compiled
    assert {found.__name__ for found in inherited | implemented if found.__module__ in compiled} == set()
    assert plugins.__name__ not in compiled
