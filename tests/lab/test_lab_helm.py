"""What the lab types of the pages about the chart, and how it makes the next release."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab.e2e.desk import REPLACED
from lab.e2e.helm import INSTALL, NEXT, RELEASE, UPGRADE, _install_lines, _uninstall_lines, in_chart, lines_of
from lab.next_release import FIELD, write_next
from modelplane import __version__

ROOT = Path(__file__).resolve().parents[2]
SHOW = """
import json
from modelplane import __version__
from modelplane.api.definitions import definitions
fields = {each.kind: sorted(each.schema["properties"]["spec"]["properties"]) for each in definitions().values()}
print(json.dumps([__version__, fields]))
"""
ADDED = (" --plain-http", " --take-ownership", " --force-conflicts")


def upgrade_lines(heading, version=""):
    return list(lines_of((ROOT / UPGRADE).read_text(), heading, version=version))


def test_every_command_about_the_chart_is_typed():
    assert [line.split()[:2] for line in _install_lines()] == [
        ["helm", "install"],
        *[["kubectl", verb] for verb in ("get", "wait", "wait", "get")],
    ]
    assert [line.split()[:2] for line in upgrade_lines("With the chart")] == [["helm", "upgrade"], ["kubectl", "wait"]]
    assert [line.split()[:2] for line in upgrade_lines("Going back")] == [["helm", "rollback"], ["kubectl", "wait"]]
    assert [line.split()[:2] for line in _uninstall_lines()] == [["helm", "uninstall"], *[["kubectl", "delete"]] * 2]
    assert RELEASE in (ROOT / INSTALL).read_text()


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        (INSTALL, _install_lines()),
        (UPGRADE, [*upgrade_lines("With the chart"), *upgrade_lines("Going back")]),
    ],
    ids=["install", "upgrade"],
)
def test_the_rest_is_as_written(page, lines):
    written = "\n".join(lines)
    for there, here in (*REPLACED.items(), *(("", words) for words in ADDED)):
        written = written.replace(here, there)
    for line in written.splitlines():
        assert line in (ROOT / page).read_text()


def test_the_page_installs_the_version_of_this_checkout():
    assert f"--version {__version__} " in _install_lines()[0]


def test_the_newer_version_stands_for_that_of_the_page():
    assert (
        in_chart("helm upgrade a oci://b --version 9.9.9 --c", NEXT)
        == f"helm upgrade a oci://b --version {NEXT} --c --plain-http"
    )
    assert f"--version {NEXT} " in upgrade_lines("With the chart", NEXT)[0]


def test_the_next_release_has_its_number_and_one_field_more(tmp_path):
    copy = write_next(ROOT, tmp_path / "next", (__version__, "9.8.7"))

    def known(folder):
        environment = {"PYTHONPATH": str(folder / "src"), "PATH": "/usr/bin"}
        done = subprocess.run([sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    version, fields = known(ROOT)
    fields["ModelDeployment"] = sorted([*fields["ModelDeployment"], FIELD])
    assert (version, known(copy)) == (__version__, ["9.8.7", fields])
