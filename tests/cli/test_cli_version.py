"""`modelplane version`: of the program, and of any control plane that answers."""

import asyncio
import json
import ssl

import pytest
import yaml

from modelplane import __version__
from modelplane.cli import main
from modelplane.cli.running import RunningPlane
from modelplane.cli.version import PlaneVersion, plane_version, version_text
from modelplane.kube.kinds import GroupVersionResource
from tests.support.kube_api import KubeApi

CONFIGURATIONS = GroupVersionResource("pkg.crossplane.io", "v1", "configurations")
KNOWN = PlaneVersion("0.2.0", "v1.35.1")


def installed(package):
    return {"metadata": {"name": "modelplane"}, "spec": {"package": package}}


@pytest.mark.parametrize(
    ("git_version", "package", "expected"),
    [
        ("v1.36.0+modelplane.0.2.0-rc.1", None, PlaneVersion("0.2.0-rc.1", "v1.36.0+modelplane.0.2.0-rc.1")),
        ("v1.35.1", "registry.example.org:5000/team/modelplane:v0.2.0", KNOWN),
        ("v1.35.1", "registry.example.org/team/modelplane:v0.2.0@sha256:ab12", KNOWN),
        (
            "v1.35.1",
            "registry.example.org:5000/modelplane@sha256:ab12",
            PlaneVersion("", "v1.35.1", "registry.example.org:5000/modelplane@sha256:ab12 has no version"),
        ),
        (
            "v1.35.1",
            None,
            PlaneVersion(
                "",
                "v1.35.1",
                f"its Configuration modelplane cannot be read: {CONFIGURATIONS} modelplane not found",
            ),
        ),
    ],
)
def test_the_version_of_a_control_plane(git_version, package, expected):
    async def found():
        api = KubeApi()
        api.git_version = git_version
        if package is not None:
            api.put(CONFIGURATIONS, installed(package))
        async with api.serving():
            plane = RunningPlane(api.url, "", ssl.create_default_context())
            return await asyncio.to_thread(plane_version, plane)

    assert asyncio.run(found()) == expected


def test_one_may_be_forbidden_to_read_the_package():
    async def found():
        api = KubeApi()
        api.refusals["get"] = 403
        async with api.serving():
            plane = RunningPlane(api.url, "", ssl.create_default_context())
            return await asyncio.to_thread(plane_version, plane)

    why = "its Configuration modelplane cannot be read: told to refuse"
    assert asyncio.run(found()) == PlaneVersion("", "v1.35.1", why)


def test_without_a_plane_the_program_says_its_own_version(tmp_path, capsys):
    assert main(["version", "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        f"COMPONENT   VERSION\nclient      {__version__}\nplane       -\nkubernetes  -\n\n"
        f"no plane runs with the data folder {tmp_path}; `modelplane up --data {tmp_path}` starts one\n"
    )


def test_a_control_plane_that_does_not_answer_is_no_failure(tmp_path, capsys):
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    assert main(["version", "-o", "json", "--kubeconfig", str(tmp_path / "config")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.pop("message").startswith("the plane at https://127.0.0.1:1 is unreachable: ")
    assert found == {"client": __version__, "plane": None, "kubernetes": None}


def test_a_kubeconfig_that_is_none_is_refused(tmp_path, capsys):
    (tmp_path / "config").write_text("7")
    assert main(["version", "--kubeconfig", str(tmp_path / "config")]) == 1
    assert capsys.readouterr().err.startswith("modelplane version: ")


def test_every_form():
    expected = {"client": __version__, "plane": "0.2.0", "kubernetes": "v1.35.1"}
    assert (json.loads(version_text(KNOWN, "json")), yaml.safe_load(version_text(KNOWN, "yaml"))) == (
        expected,
        expected,
    )
    assert version_text(KNOWN, "text").splitlines()[2:] == ["plane       0.2.0", "kubernetes  v1.35.1"]
