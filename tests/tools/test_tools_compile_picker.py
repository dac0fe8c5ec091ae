"""What may be compiled, without a compiler: mypyc would take these modules and make something else of them."""

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

from modelplane.epp.server.compiled import is_compiled

PATH = Path(__file__).resolve().parents[2] / "tools" / "compile_picker.py"


def load():
    spec = importlib.util.spec_from_file_location("compile_picker", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = load()


@pytest.mark.parametrize("module", TOOL.MODULES)
def test_what_is_listed_can_be_compiled(module):
    assert list(TOOL.complaints(TOOL.source_of(module).read_text())) == []


@pytest.mark.parametrize("module", TOOL.MODULES)
def test_all_that_is_listed_runs_the_same_way(module):
    assert importlib.import_module(module).__file__.endswith(".py") is not is_compiled()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("class A:\n    pass\n", []),
        ("class A(msgspec.Struct):\n    a: int\n", ["line 1: A is a struct, a protocol or has keywords"]),
        ("class A(Struct):\n    a: int\n", ["line 1: A is a struct, a protocol or has keywords"]),
        ("class A(B[T], Protocol[T]):\n    a: int\n", ["line 1: A is a struct, a protocol or has keywords"]),
        ("\nclass A(Parameters, frozen=True):\n    a: int\n", ["line 2: A is a struct, a protocol or has keywords"]),
        (
            "def f():\n    try:\n        g()\n    except A as e:\n        pass\n    except B as e:\n        pass\n",
            ["line 6: e is A above; give B another name"],
        ),
        ("def f():\n    try:\n        g()\n    except A as e:\n        pass\n    except B as x:\n        pass\n", []),
        ("def f():\n    try:\n        g()\n    except A:\n        pass\n    except B:\n        pass\n", []),
        (
            (
                "def f():\n    try:\n        g()\n    except A as e:\n        pass\n"
                "def h():\n    try:\n        g()\n    except B as e:\n        pass\n"
            ),
            [],
        ),
        (
            "class A:\n    def f(self):\n        self._block = None\n        self._blocks = self._weak\n",
            ["line 3: _block is __block in C, which has another meaning there; give it another name"],
        ),
    ],
    ids=[
        "plain",
        "struct",
        "imported struct",
        "protocol",
        "keywords",
        "one name",
        "two names",
        "no names",
        "two functions",
        "word of C",
    ],
)
def test_what_is_refused(source, found):
    assert [complaint.removesuffix("; it belongs elsewhere") for complaint in TOOL.complaints(source)] == found


@pytest.mark.submission
def test_nothing_inherits_from_what_is_compiled():
    assert list(TOOL.heirs()) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (
            "from modelplane.epp.scheduling.context import SchedulingContext\nclass A(SchedulingContext):\n    pass\n",
            ["A inherits from SchedulingContext"],
        ),
        ("from modelplane.framework import Runner\nclass A(Runner[S, C]):\n    pass\n", ["A inherits from Runner"]),
        (
            "from modelplane.epp.scheduling.context import SchedulingContext as Base\nclass A(Base):\n    pass\n",
            ["A inherits from Base"],
        ),
        ("from elsewhere import SchedulingContext\nclass A(SchedulingContext):\n    pass\n", []),
        (
            "from modelplane.epp.scheduling.context import SchedulingContext\nclass A:\n    cycle: SchedulingContext\n",
            [],
        ),
    ],
    ids=["directly", "by a package", "by another name", "another one", "holds one"],
)
def test_who_inherits_from_what_is_compiled(source, found):
    assert list(TOOL._heirs_in(ast.parse(source))) == found


def test_a_build_of_other_sources_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(TOOL, "BUILT", tmp_path)
    (tmp_path / "made-of").write_text("something else")
    assert not TOOL.is_current()
    (tmp_path / "made-of").write_text(TOOL._fingerprint())
    assert TOOL.is_current()


def test_a_machine_without_a_compiler_is_told_so(monkeypatch, capsys):
    monkeypatch.setattr(TOOL.shutil, "which", lambda _name: None)
    monkeypatch.setattr(TOOL, "is_current", lambda: False)
    monkeypatch.setattr(TOOL.sys, "argv", ["compile_picker.py"])
    assert TOOL.main() == 1
    assert "there is no C compiler" in capsys.readouterr().err
