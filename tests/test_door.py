"""The door: what `import modelplane` offers, and that it costs nothing until it is used."""

import ast
import pkgutil
import subprocess
import sys
from importlib import import_module
from inspect import getdoc
from pathlib import Path

import pytest

import modelplane

SOURCE = Path(modelplane.__file__).read_text()
NAMES = sorted(set(modelplane.__all__) - {"__version__"})


def test_the_list_is_exactly_what_is_offered():
    given = {name for name in vars(import_module("modelplane")) if not name.startswith("_")}
    rooms = {module.name for module in pkgutil.iter_modules(modelplane.__path__)}
    helpers = {"TYPE_CHECKING", "import_module"}
    assert modelplane.__all__ == sorted(modelplane.__all__)
    assert set(NAMES) == {*modelplane._HOMES, "errors"}
    assert given - rooms - helpers <= set(NAMES)
    assert not rooms & set(NAMES), "a package of this name would hide it"
    assert set(dir(modelplane)) >= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_and_documented(name):
    found = getattr(modelplane, name)
    assert getdoc(found)
    assert name in modelplane.__doc__


def test_types_and_values_come_from_the_same_places():
    (typed,) = (node for node in ast.parse(SOURCE).body if isinstance(node, ast.If))
    homes = {}
    for node in typed.body:
        for alias in node.names:
            renamed = f":{alias.name}" if alias.asname else ""
            homes[alias.asname or alias.name] = node.module.removeprefix("modelplane.") + renamed
    assert homes == modelplane._HOMES


def test_a_name_that_is_not_offered_is_an_error():
    with pytest.raises(AttributeError, match="no attribute 'Reconciler'"):
        modelplane.Reconciler  # noqa: B018  the access is what is tried


def test_importing_it_imports_no_wing():
    program = "import sys, modelplane; print(sorted(name for name in sys.modules if name.startswith('modelplane')))"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert ast.literal_eval(found.stdout) == [
        "modelplane",
        "modelplane.api",
        "modelplane.api.errors",
        "modelplane.api.version",
    ]


def test_type_checkers_of_others_read_the_types():
    assert (Path(modelplane.__file__).parent / "py.typed").exists()
