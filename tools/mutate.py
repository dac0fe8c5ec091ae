"""Breaks the deciding rooms on purpose and asks their tests: a mutant that no test kills shows what is not tested.

    python tools/mutate.py --sample 400 --seed 1     so many mutants of all, drawn by the seed
    python tools/mutate.py placement/review.py       every mutant of one module
    python tools/mutate.py placement/review.py --only "Or → And"      those whose line or change has the text
    python tools/mutate.py --known                   defects that tests once did not find (tools/mutants.toml)
    python tools/mutate.py --known --only "safety 3"   those of a defect of tests/defects.yaml, of a test, or of a text

A mutant changes one node of a module's syntax tree. It is judged in a process of its own by the test files that mirror
or mention the module, and with `--thorough` by the whole room's. Survivors with a reason are in tools/mutants.toml.
The processes that a test starts have the mutant, too.
"""

import argparse
import ast
import io
import os
import random
import re
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from multiprocessing import get_context
from pathlib import Path

import mutate_tree

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "modelplane"
ROOMS = ("k8s/dra", "framework", "placement", "epp/scheduling", "compose")
LISTED = ROOT / "tools" / "mutants.toml"
LEAST = 90.0
_SECONDS = 120
_SITE = """\
import sys
sys.path.append({tools!r})
import mutate
sys.path.remove({tools!r})
from pathlib import Path
mutate.install({module!r}, (Path(__file__).parent / "source").read_text())
"""
"""What a process of Python that a test starts runs first: its folder is on PYTHONPATH."""
_NOTHING_RAN = (4, 5)
"""How pytest ends where a test is not found, or none is left."""
_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Fate(StrEnum):
    KILLED = "killed"
    SURVIVED = "survived"
    EXPLAINED = "explained"


@dataclass(frozen=True, slots=True)
class Mutant:
    module: str
    """As `placement/review.py`."""
    change: str
    text: str
    """The line as it is, without its indentation."""
    source: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.module, self.text, self.change

    def __str__(self) -> str:
        return f"{self.module}: `{self.text}`: {self.change}"


Variant = tuple[str, Callable[[], None]]


def variants(node: ast.AST) -> Iterator[Variant]:
    """What may be changed of a node: a word for it, and the change in place."""
    match node:
        case ast.Constant():
            yield from _constants(node)
        case ast.Compare(ops=ops):
            for at, op in enumerate(ops):
                if type(op) in _SWAPS:
                    yield f"{_word(op)} → {_word(_swap(op))}", partial(_put, ops, at, _swap(op))
        case ast.BoolOp(op=op) | ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in _SWAPS:
            yield f"{_word(op)} → {_word(_swap(op))}", partial(setattr, node, "op", _swap(op))
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield "the condition is turned round", partial(setattr, node, "test", ast.UnaryOp(ast.Not(), test))
        case ast.comprehension(ifs=[_, *_]):
            yield "the filter is left out", partial(setattr, node, "ifs", [])
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "None is returned", partial(setattr, node, "value", ast.Constant(None))
        case ast.Call(func=ast.Name(id=name) as func) if name in _NAMES:
            yield f"{name} → {_NAMES[name]}", partial(setattr, func, "id", _NAMES[name])


def _constants(node: ast.Constant) -> Iterator[Variant]:
    match node.value:
        case bool() as value:
            other: object = not value
        case int() | float() as number:
            other = number + 1
        case str() as text if text:
            other = ""
        case _:
            return
    yield f"{node.value!r} → {other!r}", partial(setattr, node, "value", other)


def _word(op: ast.AST) -> str:
    return type(op).__name__


def _swap(op: ast.AST) -> ast.AST:
    return _SWAPS[type(op)]()


def _put(items: list[ast.cmpop], at: int, value: ast.AST) -> None:
    assert isinstance(value, ast.cmpop)
    items[at] = value


def judged_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All but what decides nothing: annotations, decorators, arguments of classes, docstrings and texts of errors.

    Nor does what only type checkers read: a TypeVar, the type of a cast, a Literal.
    """
    yield tree
    if _is_typing(tree):
        return
    for name, value in ast.iter_fields(tree):
        if name in {"annotation", "returns", "decorator_list", "bases", "type_params"}:
            continue
        if isinstance(tree, ast.ClassDef) and name == "keywords":
            continue
        cast = (
            name == "args" and isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "cast"
        )
        for child in (value[1:] if cast else value) if isinstance(value, list) else [value]:
            told = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if isinstance(child, ast.AST) and not told and not isinstance(child, ast.Raise | ast.JoinedStr):
                yield from judged_nodes(child)


def _is_typing(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="TypeVar" | "NewType")) | ast.Subscript(value=ast.Name(id="Literal")):
            return True
    return False


def mutants_of(path: Path) -> Iterator[Mutant]:
    source = path.read_text()
    lines = source.splitlines()
    module = path.relative_to(SOURCE).as_posix()
    places = [(at, len(list(variants(node)))) for at, node in enumerate(judged_nodes(ast.parse(source)))]
    for at, number in places:
        for which in range(number):
            tree = ast.parse(source)
            node = next(each for index, each in enumerate(judged_nodes(tree)) if index == at)
            line = lines[_line_of(node) - 1].strip()
            change, apply = list(variants(node))[which]
            apply()
            yield Mutant(module, change, line, ast.unparse(ast.fix_missing_locations(tree)))


def _line_of(node: ast.AST) -> int:
    """A comprehension has no line of its own."""
    found: int = getattr(node, "lineno", 0) or getattr(getattr(node, "iter", None), "lineno", 1)
    return found


def test_files(module: str) -> list[Path]:
    """Those that mirror a module by their name, then those that mention it."""
    path = Path(module)
    room = ROOT / "tests" / path.parts[0]
    dotted = ".".join(("modelplane", *path.with_suffix("").parts))
    package, stem = dotted.rpartition(".")[::2]
    mention = re.compile(rf"{re.escape(dotted)}\b|from {re.escape(package)} import [^\n]*\b{stem}\b")
    # A package has a mirror, too; a room has a folder.
    names = [stem, *([] if path.parent.as_posix() in ROOMS else [path.parent.name])]
    mirror = [file for name in names for file in sorted(room.rglob(f"test_*_{name}.py"))]
    others = [
        file for file in sorted(room.rglob("test_*.py")) if file not in mirror and mention.search(file.read_text())
    ]
    return [*mirror, *others] or [room]


class _OtherText(SourceFileLoader):
    """Reads a module's text from here, and never from compiled files."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_data(self, path: str) -> bytes:
        del path
        return self._source.encode()

    def path_stats(self, path: str) -> Mapping[str, object]:
        raise OSError(path)


class _Mutated(MetaPathFinder):
    """Finds one module in another text."""

    def __init__(self, module: str, source: str) -> None:
        self._path = str(SOURCE / module)
        self._name = ".".join(("modelplane", *Path(module).with_suffix("").parts)).removesuffix(".__init__")
        self._source = source

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        del path, target
        if fullname != self._name:
            return None
        loader = _OtherText(fullname, self._path, self._source)
        return spec_from_file_location(fullname, self._path, loader=loader)


def install(module: str, source: str) -> None:
    """From now on this process imports the module from this text."""
    sys.meta_path.insert(0, _Mutated(module, source))


def is_killed(mutant: Mutant, files: Sequence[Path], *, slow: bool = True) -> bool:
    """In a process of its own, which has the libraries already and nothing of ours."""
    with tempfile.TemporaryDirectory() as site:
        Path(site, "source").write_text(mutant.source)
        Path(site, "sitecustomize.py").write_text(_SITE.format(tools=str(ROOT / "tools"), module=mutant.module))
        return _is_killed(mutant, files, site, slow=slow)


def _is_killed(mutant: Mutant, files: Sequence[Path], site: str, *, slow: bool) -> bool:
    child = os.fork()
    if child == 0:
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123  a stream to write to
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        os.environ["PYTHONPATH"] = os.pathsep.join([site, *filter(None, [os.environ.get("PYTHONPATH")])])
        os._exit(_outcome(mutant, files, slow=slow))
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if os.waitstatus_to_exitcode(status) in _NOTHING_RAN:
                raise RuntimeError(f"no test ran of {', '.join(map(str, files))}")
            return status != 0
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def _outcome(mutant: Mutant, files: Sequence[Path], *, slow: bool) -> int:
    """How pytest ends. Inside another pytest it raises what it would else report."""
    try:
        return _run_tests(mutant, files, slow=slow)
    except BaseException as error:  # noqa: BLE001  nothing may get out of this process
        return _NOTHING_RAN[0] if type(error).__name__ == "UsageError" else 1


def _forget_ours() -> None:
    """A parent that has imported the module would hand its own on to the child."""
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(ROOT)) and name != __name__:
            del sys.modules[name]


def _run_tests(mutant: Mutant, files: Sequence[Path], *, slow: bool) -> int:
    import pytest

    _forget_ours()
    install(mutant.module, mutant.source)
    marks = [] if slow else ["-m", "not slow"]
    words = [
        "-q",
        "-x",
        "-n",
        "0",
        "-p",
        "no:randomly",
        "--hypothesis-profile",
        "core",
        "--no-header",
        "--tb=no",
        *marks,
    ]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return int(pytest.main([*words, *(str(file) for file in files)]))


def judge(mutant: Mutant, *, thorough: bool, reasons: dict[tuple[str, str, str], str]) -> Fate:
    if mutant.key in reasons:
        return Fate.EXPLAINED
    if is_killed(mutant, test_files(mutant.module)):
        return Fate.KILLED
    if thorough and is_killed(mutant, [ROOT / "tests" / Path(mutant.module).parts[0]], slow=False):
        return Fate.KILLED
    return Fate.SURVIVED


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    listed = tomllib.loads(LISTED.read_text())
    if options.known:
        chosen = [each for each in listed["known"] if options.only in " ".join(each.values())]
        pairs = list(known(chosen))
        with get_context("fork").Pool(options.processes) as pool:
            fates = pool.starmap(_judge_known, pairs, chunksize=1)
        return _report([(mutant, fate) for (mutant, _), fate in zip(pairs, fates, strict=True)], least=100.0)
    reasons = {(each["module"], each["text"], each["change"]): each["reason"] for each in listed.get("survivor", ())}
    found = [mutant for path in _paths(options.modules) for mutant in mutants_of(path) if options.only in str(mutant)]
    if options.sample and options.sample < len(found):
        found = random.Random(options.seed).sample(found, options.sample)  # noqa: S311  reproducible, not secret
    judging = partial(judge, thorough=options.thorough, reasons=reasons)
    with get_context("fork").Pool(options.processes) as pool:
        return _report(list(zip(found, pool.imap(judging, found), strict=True)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="as placement/review.py; all rooms without")
    parser.add_argument("--only", metavar="TEXT", default="", help="those that have it, as they are printed or listed")
    parser.add_argument("--sample", type=int, help="so many of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--known", action="store_true", help="the mutants of tools/mutants.toml")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="so many at a time")
    parser.add_argument("--thorough", action="store_true", help="ask the whole room before a mutant has survived")
    return parser


def _paths(modules: Sequence[str]) -> list[Path]:
    if modules:
        return [SOURCE / module for module in modules]
    return sorted(path for room in ROOMS for path in (SOURCE / room).rglob("*.py"))


def known(listed: Sequence[dict[str, str]]) -> Iterator[tuple[Mutant, list[Path]]]:
    """Of a `module` of ours, or of any `file` of the repository."""
    for each in listed:
        file = each["file"] if "file" in each else f"src/modelplane/{each['module']}"
        source = (ROOT / file).read_text()
        if source.count(each["text"]) != 1:
            raise SystemExit(f"mutants.toml: {file} has not once: {each['text']}")
        changed = source.replace(each["text"], each["change"])
        yield Mutant(each.get("module", file), each["change"], each["text"], changed), [ROOT / "tests" / each["tests"]]


def _judge_known(mutant: Mutant, files: Sequence[Path]) -> Fate:
    return Fate.KILLED if _is_known_killed(mutant, files) else Fate.SURVIVED


def _is_known_killed(mutant: Mutant, files: Sequence[Path]) -> bool:
    if (SOURCE / mutant.module).is_file():
        return is_killed(mutant, files)
    try:
        return mutate_tree.is_killed(ROOT, mutant.module, mutant.source, str(files[0].relative_to(ROOT)))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return False


def _report(judged: Sequence[tuple[Mutant, Fate]], *, least: float = LEAST) -> int:
    fates = [fate for _, fate in judged]
    for mutant in sorted(str(mutant) for mutant, fate in judged if fate is Fate.SURVIVED):
        print(f"survived  {mutant}")
    counts = ", ".join(f"{fates.count(fate)} {fate}" for fate in Fate)
    score = 100.0 * (len(fates) - fates.count(Fate.SURVIVED)) / max(len(fates), 1)
    print(f"{len(fates)} mutants: {counts}; {score:.1f} % killed or explained")
    return int(score < least)


if __name__ == "__main__":
    sys.exit(main())
