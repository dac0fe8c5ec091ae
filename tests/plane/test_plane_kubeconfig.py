"""The kubeconfig of the embedded plane."""

import json
import os
import stat

import pytest

from modelplane.plane.kubeconfig import write_kubeconfig


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
@pytest.mark.parametrize("there", [None, "config", "config.new"])
def test_only_its_owner_reads_the_token(tmp_path, there):
    """Whatever the umask is, and whatever lies there already."""
    path = tmp_path / "config"
    if there:
        (tmp_path / there).touch(mode=0o666)
    write_kubeconfig(path, server="https://127.0.0.1:1", token="secret", certificate=b"c")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["users"][0]["user"] == {"token": "secret"}
    assert [each.name for each in tmp_path.iterdir()] == ["config"]
