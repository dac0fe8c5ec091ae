"""What CONTRIBUTING and the changelog promise holds for the tree."""

import re
import tomllib
from pathlib import Path

import yaml

import modelplane

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_has_a_dated_section_in_the_changelog():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])
    assert PROJECT["version"] == modelplane.__version__ == headings[1].partition(" - ")[0]


def test_hooks_before_a_commit_run_what_make_lint_runs_and_need_no_network():
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    lint = (ROOT / "Makefile").read_text().replace("$(BIN)", ".venv/bin")
    assert repo["repo"] == "local"
    for hook in repo["hooks"]:
        assert hook["language"] == "system"
        assert f"@{hook['entry'].removesuffix(' --force-exclude').replace(' --check', '')}" in lint
