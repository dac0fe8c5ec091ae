"""What CONTRIBUTING and the changelog promise holds for the tree."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

import modelplane

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
GENERATED = {"src/modelplane/api/models.py"}


class Example(NamedTuple):
    word: str
    """What pages and tests call it."""
    registered: frozenset[str]
    """The text, the class or the modules that a file mentions which knows it."""


def example(word, *modules, name=None):
    return Example(word, frozenset({name or word, *(f"modelplane.{module}" for module in modules)}))


EXAMPLES = {
    "a scorer of placement": example("headroom", name="HeadroomScorer"),
    "a scorer of the picker": example("context-length-aware", "epp.scheduling.scorers.context_length"),
    "an engine": example("SGLang", "compose.engines.sglang"),
    "a backend": example("KServe", "compose.backends.kserve", "sim.cluster.kserve"),
    "a gang scheduler": example("Kueue", "compose.gang.kueue", "compose.capacity.kueue", "sim.cluster.kueue"),
    "a cloud": example("AKS", "compose.clouds.aks"),
}
RECIPES = re.findall(r"^### (an? [\w ]+?) \((\d+) files\)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)


def listed(text):
    return re.findall(r"^- `([^`]+)`", text, re.MULTILINE)


@cache
def mentioned(path):
    """The module's own name, what it imports, its classes and its texts."""
    found = {".".join(path.relative_to(ROOT / "src").with_suffix("").parts)}
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Constant(value=str(name)) | ast.ClassDef(name=name):
                found.add(name)
            case ast.ImportFrom(module=str(source), names=names):
                found |= {source, *(alias.name for alias in names), *(f"{source}.{alias.name}" for alias in names)}
    return found


def test_every_recipe_has_an_example():
    assert [title for title, _, _ in RECIPES] == list(EXAMPLES)


@pytest.mark.parametrize(("title", "count", "text"), RECIPES, ids=[title for title, _, _ in RECIPES])
def test_a_recipe_lists_every_file_that_knows_its_example(title, count, text):
    wanted = EXAMPLES[title]
    required, _, _ = text.partition("To simulate it")
    assert len(listed(required)) == int(count)
    files = (ROOT / "src").rglob("*.py")
    sources = {str(path.relative_to(ROOT)) for path in files if not wanted.registered.isdisjoint(mentioned(path))}
    assert {path for path in listed(text) if path.startswith("src/")} == sources - GENERATED
    others = [path for path in listed(text) if not path.startswith("src/")]
    assert [path for path in others if wanted.word.lower() not in (ROOT / path).read_text().lower()] == []


def test_the_version_is_that_of_the_newest_section_or_the_next_one_while_something_is_unreleased():
    """Default images are tagged by it: those of a release must not be asked for what came later."""
    sections = re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE | re.DOTALL)
    (first, unreleased), *dated = sections
    assert first == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", heading) for heading, _ in dated)
    newest, now = (tuple(map(int, text.split("."))) for text in (dated[0][0].partition(" - ")[0], PROJECT["version"]))
    assert PROJECT["version"] == modelplane.__version__
    assert now > newest if unreleased.strip() else now == newest


def test_hooks_before_a_commit_run_what_make_lint_runs_and_need_no_network():
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    lint = (ROOT / "Makefile").read_text().replace("$(BIN)", ".venv/bin")
    assert repo["repo"] == "local"
    for hook in repo["hooks"]:
        assert hook["language"] == "system"
        assert f"@{hook['entry'].removesuffix(' --force-exclude').replace(' --check', '')}" in lint
