"""The chart renders what `modelplane install` applies, whatever is chosen."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from modelplane.cli import main
from modelplane.compose.clouds import CLOUDS
from modelplane.crossplane.dashboard_objects import DASHBOARD, PAGE_PORT, TOKEN_SECRET
from modelplane.crossplane.packaging import PackageSource, installation
from tests.support.oci_registry import helm

ROOT = Path(__file__).resolve().parents[2]
REQUIRED = {"packages": "a.example/x", "providers": "b.example/y"}
CHOICES = {
    "nothing": ({}, ()),
    "helm": ({"helm": True}, ("--helm",)),
    "one cloud": ({"clouds": ["GKE"]}, ("--cloud=GKE",)),
    "all clouds": ({"clouds": ["AKS", "EKS", "GKE"]}, ("--cloud=AKS", "--cloud=EKS", "--cloud=GKE")),
    "a cloud with a provider of its own version": ({"clouds": ["Nebius"]}, ("--cloud=Nebius",)),
    "monitors": ({"monitors": True}, ("--monitors",)),
    "not observed": ({"observe": False}, ("--no-observe",)),
    "no gateway": ({"gateway": False}, ("--no-gateway",)),
    "a mirror": ({"images": "c.example/i", "pullSecret": "123"}, ("--images=c.example/i", "--pull-secret=123")),
    "metrics": ({"trafficMetrics": ["http://a/m", "https://b/m"]}, ("--traffic-metrics=http://a/m", "--traffic-metrics=https://b/m")),
    "no dashboard": ({"dashboard": False}, ("--no-dashboard",)),
    "no dashboard to pull": ({"dashboard": False, "pullSecret": "p"}, ("--no-dashboard", "--pull-secret=p")),
    "a hub": ({"hub": "hub.example.org"}, ("--hub=hub.example.org",)),
    "an older version": ({"version": "0.1.9"}, ("--version=0.1.9",)),
    "everything": (
        {"helm": True, "clouds": ["EKS"], "observe": False, "pullSecret": "p", "trafficMetrics": ["http://a/m"]},
        ("--helm", "--cloud=EKS", "--no-observe", "--pull-secret=p", "--traffic-metrics=http://a/m"),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def chart(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chart")
    command = [sys.executable, str(ROOT / "tools" / "build_chart.py"), "--output", str(folder)]
    subprocess.run(command, check=True, capture_output=True, env={"PYTHONPATH": str(ROOT / "src")})
    return folder / "modelplane"


def template(chart, values, tmp_path):
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    command = [helm(), "template", "release", str(chart), "-f", str(tmp_path / "values.yaml")]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={"HOME": str(tmp_path)})


def by_key(objects):
    made = {(each["kind"], each["metadata"]["name"]): each for each in objects if each}
    return dict(sorted(made.items()))


@pytest.mark.parametrize(("values", "words"), CHOICES.values(), ids=CHOICES)
def test_helm_renders_what_the_command_prints(chart, values, words, tmp_path, capsys):
    rendered = template(chart, {**REQUIRED, **values}, tmp_path)
    assert rendered.returncode == 0, rendered.stderr
    required = [f"--{name}={value}" for name, value in REQUIRED.items()]
    assert main(["install", *required, "--dry-run", *words]) == 0
    printed = by_key(yaml.safe_load_all(capsys.readouterr().out))
    assert by_key(yaml.safe_load_all(rendered.stdout)) == printed


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"packages": "", "providers": "b.example/y"}, "/packages"),
        ({"packages": "team", "providers": "b.example/y"}, "/packages"),
        ({**REQUIRED, "clouds": ["IBM"]}, "/clouds/0"),
        ({**REQUIRED, "observed": True}, "observed"),
        ({**REQUIRED, "dashboard": "no"}, "/dashboard"),
        ({**REQUIRED, "trafficMetrics": ["a/m"]}, "/trafficMetrics/0"),
    ],
)
def test_values_that_mean_nothing_are_refused_by_name(chart, values, words, tmp_path):
    refused = template(chart, values, tmp_path)
    assert refused.returncode != 0
    assert words in refused.stderr


def test_every_object_has_a_file_and_values_are_explained(chart):
    whole = installation(
        PackageSource("a.b/c", "a.b/d", "1", helm=True, clouds=tuple(CLOUDS), hub="h.example", monitors=True)
    )
    assert len(list((chart / "templates").glob("*.yaml"))) == len(whole)
    values = (chart / "values.yaml").read_text()
    properties = yaml.safe_load((chart / "values.schema.json").read_text())["properties"]
    assert set(yaml.safe_load(values)) == set(properties) - {"global"}
    assert values.count("#") >= 9


def test_notes_name_the_objects_of_the_dashboard(chart):
    notes = (chart / "templates" / "NOTES.txt").read_text()
    assert notes.count(TOKEN_SECRET) == 2
    assert f"service/{DASHBOARD} {PAGE_PORT}" in notes
