"""Every defect that was found once is held by a test that exists (tests/defects.yaml).

`tools/mutate.py --known` puts some of them back, and their tests must fail.
"""

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
DEFECTS = yaml.safe_load((ROOT / "tests" / "defects.yaml").read_text())
FOUND = {"safety": 13, "placement": 11, "picker": 15, "serving": 11, "experience": 20, "mission": 14}
"""How many each time."""


@cache
def defined(path):
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def test_every_defect_has_a_line():
    numbers = {group: {int(text.split()[0]) for text in lines} for group, lines in DEFECTS.items()}
    assert numbers == {group: set(range(1, most + 1)) for group, most in FOUND.items()}


@pytest.mark.parametrize("group", DEFECTS)
def test_what_holds_that_a_defect_is_gone_is_there(group):
    for defect, held_by in DEFECTS[group].items():
        path, _, name = held_by.partition("::")
        if name:
            assert name in defined(ROOT / "tests" / path), defect
        else:
            page, _, text = held_by.partition(": ")
            assert text in (ROOT / page).read_text(), defect


def known_mutants():
    return tomllib.loads((ROOT / "tools" / "mutants.toml").read_text())["known"]


def put_back():
    return [each for each in known_mutants() if "defect" in each]


@pytest.mark.parametrize("mutant", known_mutants(), ids=lambda each: each["module"])
def test_what_a_known_mutant_changes_is_in_its_module_once(mutant):
    assert (ROOT / "src/modelplane" / mutant["module"]).read_text().count(mutant["text"]) == 1


def test_a_defect_that_is_put_back_is_a_listed_one_and_its_test_exists():
    listed = {(group, text.split()[0]) for group, lines in DEFECTS.items() for text in lines}
    assert len(put_back()) >= 20
    for each in put_back():
        assert {tuple(defect.split()) for defect in each["defect"].split(", ")} <= listed, each["defect"]
        path, _, name = each["tests"].partition("::")
        assert not name or name in defined(ROOT / "tests" / path), each["tests"]
        assert (ROOT / "tests" / path).is_file(), each["tests"]
