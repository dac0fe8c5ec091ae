"""Every defect that was found once is held by a test that exists (tests/defects.yaml).

`tools/mutate.py --known` puts each of them back, and its test must fail.
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


def listed_mutants():
    return tomllib.loads((ROOT / "tools" / "mutants.toml").read_text())


def changed_file(mutant):
    return mutant["file"] if "file" in mutant else f"src/modelplane/{mutant['module']}"


@pytest.mark.parametrize("mutant", listed_mutants()["known"], ids=changed_file)
def test_what_a_known_mutant_changes_is_in_its_file_once(mutant):
    assert (ROOT / changed_file(mutant)).read_text().count(mutant["text"]) == 1


def held_by_tests():
    """Group, number and test of each defect. Those that a sentence of a page holds have none."""
    lines = ((group, *line) for group, found in DEFECTS.items() for line in found.items())
    return {(group, int(text.split()[0]), test) for group, text, test in lines if "::" in test}


def defects_of(listed):
    """The same, of mutants. A test may be narrowed to one of its rows."""
    return {
        (group, int(number), each["tests"].partition("[")[0])
        for each in listed
        if "defect" in each
        for group, number in [each["defect"].split()]
    }


def test_every_defect_that_a_test_holds_is_put_back():
    """A new defect comes with the mutant that brings it back (tools/mutants.toml)."""
    assert sorted(defects_of(listed_mutants()["known"])) == sorted(held_by_tests())
