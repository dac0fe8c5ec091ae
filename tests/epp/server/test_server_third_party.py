from importlib.metadata import EntryPoint

import pytest

from modelplane.api.errors import InputError
from modelplane.epp.scheduling.catalogue import Catalogue, PluginType
from modelplane.epp.server.third_party import GROUP, full_catalogue, load_types


def point(value, name="mine"):
    return EntryPoint(name, value, GROUP)


def test_types_are_found_by_their_entry_points():
    found = load_types(
        [point("modelplane.epp.scheduling.scorers.queue:TYPES"), point("modelplane.epp.scheduling.handlers:TYPES", "a")]
    )
    assert all(isinstance(each, PluginType) for each in found)
    assert found[-1].name == "queue-scorer"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("modelplane.nope:TYPES", r"entry point mine \(modelplane.nope:TYPES\): ModuleNotFoundError"),
        ("modelplane.epp.scheduling.catalogue:Catalogue", "is neither a PluginType nor several of them"),
        ("modelplane.epp.scheduling.catalogue:CAMEL", "is neither a PluginType nor several of them"),
    ],
)
def test_what_cannot_be_loaded_is_refused_by_name(value, says):
    with pytest.raises(InputError, match=says):
        load_types([point(value)])


def test_the_full_catalogue_has_our_own_types():
    assert isinstance(full_catalogue(), Catalogue)
    assert "max-score-picker" in full_catalogue()
