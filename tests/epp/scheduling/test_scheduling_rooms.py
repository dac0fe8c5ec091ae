"""Plugins know what they share and not each other."""

import ast
from pathlib import Path

import pytest

import modelplane.epp.scheduling

ROOT = Path(modelplane.epp.scheduling.__file__).parent
FOLDERS = ("filters", "scorers", "pickers", "handlers", "admitters", "pre_request")
PLUGINS = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.py")) if path.stem != "__init__"]


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_a_plugin_imports_no_other(path):
    rooms = tuple(f"modelplane.epp.scheduling.{folder}." for folder in FOLDERS)
    assert [name for name in imported(path) if name.startswith(rooms)] == []


def test_there_are_plugins_to_check():
    assert len(PLUGINS) > 30
