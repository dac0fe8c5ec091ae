"""Plugins that another package brings, installed as packages are."""

import sys

import pytest

from modelplane.cli._plugins import known_types, profile_of
from modelplane.framework import ProfileError
from modelplane.placement.profile import DEFAULT_PROFILE, own_types

CODE = """
from modelplane.placement.plugins import Stage
from modelplane.framework import NoParameters


class Anywhere:
    stage = Stage.CLUSTER

    def __init__(self, name, _parameters):
        self.name = name

    def refuse(self, _state, _view):
        return None


def register(registry):
    registry.register("anywhere", Anywhere, NoParameters)


def fails(registry):
    raise RuntimeError("no licence")


def again(registry):
    registry.register("Capacity", Anywhere, NoParameters)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    def package(function):
        (tmp_path / "acme_placement.py").write_text(CODE)
        about = tmp_path / "acme_placement-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-placement\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[modelplane.placement]\nacme = acme_placement:{function}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "acme_placement", raising=False)

    return package


def test_types_of_other_packages_are_known_and_can_be_named(install, tmp_path):
    install("register")
    assert set(known_types().type_names) == {*own_types().type_names, "anywhere"}
    profile = tmp_path / "profile.yaml"
    profile.write_text("kind: PlacementProfile\nplugins: [{type: anywhere}, {type: Devices}, {type: Capacity}, "
                       "{type: best-first}]")  # fmt: skip
    assert [plugin.name for plugin in profile_of(profile).cluster_filters] == ["anywhere"]
    assert profile_of(None) is DEFAULT_PROFILE


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("fails", r"plugins acme \(acme_placement:fails\): RuntimeError: no licence"),
        ("missing", r"plugins acme \(acme_placement:missing\): AttributeError"),
        ("again", "plugin type Capacity is registered twice"),
    ],
)
def test_a_package_that_goes_wrong_is_named(install, function, says):
    install(function)
    with pytest.raises(ProfileError, match=says):
        known_types()
