"""Plugins that another package brings, installed as packages are."""

import sys

import pytest

from modelplane.cli._plugins import full_registry, profile_of
from modelplane.framework import ProfileError
from modelplane.placement.profile import DEFAULT_PROFILE, builtin_types

CODE = """
from modelplane.placement.plugins import FilterStage
from modelplane.framework.registry import NoParameters, plugin_type


class Anywhere:
    stage = FilterStage.CLUSTER

    def __init__(self, name, _parameters):
        self.name = name

    def refuse(self, _state, _view):
        return None


TYPES = (plugin_type("anywhere", Anywhere, NoParameters),)
AGAIN = plugin_type("capacity-filter", Anywhere, NoParameters)


def fails():
    raise RuntimeError("no licence")
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    def package(attribute, group="modelplane.placement.plugins"):
        (tmp_path / "acme_placement.py").write_text(CODE)
        about = tmp_path / "acme_placement-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-placement\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[{group}]\nacme = acme_placement:{attribute}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "acme_placement", raising=False)

    return package


@pytest.mark.parametrize("group", ["modelplane.placement.plugins", "modelplane.placement"])
def test_types_of_other_packages_are_known_and_can_be_named(install, tmp_path, group):
    install("TYPES", group)
    assert set(full_registry()) == {*builtin_types(), "anywhere"}
    profile = tmp_path / "profile.yaml"
    profile.write_text("kind: PlacementProfile\nplugins: [{type: anywhere}, {type: devices-filter}, "
                       "{type: capacity-filter}, {type: best-first-picker}]")  # fmt: skip
    assert [plugin.name for plugin in profile_of(profile).cluster_filters] == ["anywhere"]
    assert profile_of(None) is DEFAULT_PROFILE


@pytest.mark.parametrize(
    ("attribute", "says"),
    [
        ("fails", r"entry point acme \(acme_placement:fails\): RuntimeError: no licence"),
        ("missing", r"entry point acme \(acme_placement:missing\): AttributeError"),
        ("AGAIN", "plugin type capacity-filter is registered twice"),
    ],
)
def test_a_package_that_goes_wrong_is_named(install, attribute, says):
    install(attribute)
    with pytest.raises(ProfileError, match=says):
        full_registry()
