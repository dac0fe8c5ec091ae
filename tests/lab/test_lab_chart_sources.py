"""Charts of our table are had from modules, and from clones by the hash of their folder."""

import subprocess

import pytest

from lab.chart_sources import SOURCES, ChartSource, Release, chart_files, had_sources, repositories_of
from lab.components import CERT_MANAGER, Module
from modelplane.catalog.stack import load_stack

COMPONENTS = {component.name: component for component in load_stack().components}


def git(folder, *arguments):
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clones(tmp_path):
    folder = tmp_path / "owner" / "name"
    (folder / "charts" / "one").mkdir(parents=True)
    (folder / "charts" / "one" / "Chart.yaml").write_text("name: one\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return tmp_path


def test_a_chart_is_found_by_the_hash_of_its_folder(clones):
    tree = git(clones / "owner" / "name", "rev-parse", "HEAD:charts/one")
    (clones / "owner" / "name" / "charts" / "one" / "Chart.yaml").write_text("name: changed\n")
    source = ChartSource("keda", Release("owner/name", "v1.2.3", tree))
    assert had_sources(clones, [source]) == (source,)
    assert chart_files(source, clones) == {"Chart.yaml": b"name: one\n"}


def test_the_first_that_can_be_had_counts(clones):
    tree = git(clones / "owner" / "name", "rev-parse", "HEAD:charts/one")
    here = ChartSource("kai", Release("owner/name", "v1", tree))
    changed = ChartSource("kai", Release("owner/name", "v2", "0" * 40))
    elsewhere = ChartSource("kai", Release("owner/other", "v2", tree))
    module = ChartSource("kai", CERT_MANAGER, "folder")
    assert had_sources(clones, [changed, elsewhere, here, module]) == (here,)
    assert had_sources(clones, [changed, elsewhere, module]) == (module,)
    assert had_sources(None, [here]) == ()


@pytest.mark.parametrize(
    ("tag", "version"),
    [
        ("v1.8.3", "1.8.3"),
        ("cluster-autoscaler-chart-9.57.0", "9.57.0"),
        ("v0.1.0-alpha.12-rc1", "0.1.0-alpha.12-rc1"),
    ],
)
def test_the_version_of_a_tag(tag, version):
    assert ChartSource("keda", Release("owner/name", tag, "")).version == version


def test_every_chart_is_of_a_component_and_its_row_says_so():
    """The table says of each chart with what it was compared: the best that can be had."""
    charts = {name for name, each in COMPONENTS.items() if each.chart is not None}
    best = {source.component: source for source in reversed(SOURCES)}
    assert best.keys() == charts
    for name, source in best.items():
        row = COMPONENTS[name]
        same = row.chart.version.removeprefix("v") == source.version
        of = "module" if isinstance(source.origin, Module) else "repository"
        assert same == row.source.startswith(f"chart of the {of} of this version"), name
        assert same or f"v{source.version}" in row.source, name


def test_clones_are_where_the_environment_says(tmp_path):
    assert repositories_of({}) is None
    assert repositories_of({"MODELPLANE_LAB_REPOSITORIES": str(tmp_path)}) == tmp_path
