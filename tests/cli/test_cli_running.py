"""Which data folder a command means."""

from pathlib import Path

import pytest

from modelplane.cli.running import chosen_data, default_data, foreign_kubeconfig, no_plane


@pytest.fixture
def plane(tmp_path):
    folder = tmp_path / "plane"
    folder.mkdir()
    (folder / "plane.db").touch()
    return folder


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    for name in ("KUBECONFIG", "MODELPLANE_DATA", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_the_environment_names_a_folder(plane, monkeypatch, tmp_path):
    assert chosen_data() is None
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'kubeconfig'}:{plane / 'kubeconfig'}")
    assert chosen_data() == plane
    monkeypatch.setenv("MODELPLANE_DATA", "elsewhere")
    assert chosen_data() == Path("elsewhere")


@pytest.mark.parametrize("name", ["", "plane/config", "kubeconfig"])
def test_a_kubeconfig_of_something_else_names_none(plane, monkeypatch, name):
    monkeypatch.setenv("KUBECONFIG", str(plane.parent / name) if name else "")
    assert chosen_data() is None


def test_the_default_is_in_the_state_of_the_user(monkeypatch):
    assert default_data() == Path.home() / ".local/state/modelplane"
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_data() == Path("/state/modelplane")


def test_a_kubeconfig_of_another_control_plane_is_told_apart(plane, monkeypatch, tmp_path):
    other = tmp_path / "config"
    other.touch()
    (plane / "kubeconfig").touch()
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{plane / 'kubeconfig'}:{other}")
    assert (foreign_kubeconfig(), chosen_data()) == (other, plane)


def test_where_none_runs_another_can_be_named(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    sentence = "no plane runs with the data folder /state/modelplane; "
    assert no_plane(tmp_path) == f"no plane runs with the data folder {tmp_path}"
    assert no_plane(default_data()) == f"{sentence}--data DIR or $MODELPLANE_DATA names another"
    (tmp_path / "config").touch()
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert no_plane(default_data()) == (
        f"{sentence}--kubeconfig {tmp_path / 'config'} reads the control plane of that file"
    )
