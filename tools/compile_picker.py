"""Compiles the endpoint picker's request path with mypyc: the same sources, for machines that have a C compiler.

    compile_picker.py             build/compiled: the package, with extension modules beside what they are made of
    compile_picker.py --wheel     the same, and a wheel of it in dist/ for this platform and version of Python
    compile_picker.py --check     whether build/compiled is of the sources as they are
    compile_picker.py --c FOLDER  only the C of it, and in units.json what is made of which file (tools/build_wheels.py)

Whoever puts build/compiled first on the path (PYTHONPATH), or installs the wheel, runs compiled; nobody else does. What
is given up and why it is worth it: design/0005-compiled-picker.md.

mypyc compiles what it does not support into something else, without a word, where it comes to classes of msgspec
(keywords of the class are lost: what was frozen is not), to protocols (nothing is an instance of them any more) and to
errors of two types under one name in one function (the second one fails). An attribute gets an underscore in C, and
some of the names that come of it are words of a compiler. Modules with any of these are refused here, in `complaints`,
and by a test that needs no compiler.
"""

import argparse
import ast
import base64
import contextlib
import hashlib
import importlib.machinery
import json
import re
import shutil
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = ROOT / "src"
BUILT: Final = ROOT / "build" / "compiled"
_SCRATCH: Final = ROOT / "build" / "compiling"
_STAMP: Final = "made-of"
_OUT_OF_PLACE: Final = frozenset(("msgspec.Struct", "Struct", "typing.Protocol", "Protocol"))
_TAKEN_IN_C: Final = re.compile(
    r"(Alignas|Alignof|Atomic|Bool|Complex|Generic|Imaginary|Noreturn)"
    r"|_(alignof|asm|attribute|auto_type|complex|const|imag|inline|label|null|real|restrict|signed|thread|typeof|volatile)(__)?"
    r"|_(always_inline|bitwise|block|cold|dead|deprecated|exported|linux|nonnull|null_terminated|null_unspecified|nullable"
    r"|pure|single|strong|unavailable|unix|unused|used|weak|wur)"
)
"""With an underscore before it a keyword of C or of its compilers, or a macro: clang's, and those of the C libraries of
Linux and macOS that come with Python.h.
"""
_FLAGS: Final = ("-fvisibility=hidden", "-fno-plt") if sys.platform == "linux" else ()
"""Functions call each other and those of Python without a detour by a table: as many places less to fetch anew."""
MODULES: Final = (
    "modelplane.api.identity",
    "modelplane.epp.datalayer.scrape.connections",
    "modelplane.epp.datalayer.scrape.extractor",
    "modelplane.epp.datalayer.scrape.responses",
    "modelplane.epp.datalayer.scrape.scraper",
    "modelplane.epp.scheduling.arithmetic",
    "modelplane.epp.scheduling.context",
    "modelplane.epp.scheduling.decisions",
    "modelplane.epp.scheduling.endpoints",
    "modelplane.epp.scheduling.filters.failing",
    "modelplane.epp.scheduling.handlers.single",
    "modelplane.epp.scheduling.headers",
    "modelplane.epp.scheduling.pickers.max_score",
    "modelplane.epp.scheduling.producers.approx_producer",
    "modelplane.epp.scheduling.producers.approximate",
    "modelplane.epp.scheduling.producers.hashing",
    "modelplane.epp.scheduling.producers.in_flight",
    "modelplane.epp.scheduling.producers.matches",
    "modelplane.epp.scheduling.producers.no_hit_lru",
    "modelplane.epp.scheduling.producers.no_hit_tokens",
    "modelplane.epp.scheduling.producers.prefix",
    "modelplane.epp.scheduling.producers.sessions",
    "modelplane.epp.scheduling.requests",
    "modelplane.epp.scheduling.responses",
    "modelplane.epp.scheduling.results",
    "modelplane.epp.scheduling.sampling",
    "modelplane.epp.scheduling.scheduler",
    "modelplane.epp.scheduling.scorers.active_requests",
    "modelplane.epp.scheduling.scorers.prefix_cache",
    "modelplane.epp.scheduling.static_filter",
    "modelplane.epp.scheduling.subsets",
    "modelplane.epp.server.director",
    "modelplane.epp.server.exchange",
    "modelplane.epp.server.messages",
    "modelplane.epp.server.observe.decision_steps",
    "modelplane.epp.server.observe.metrics",
    "modelplane.epp.server.observe.observer",
    "modelplane.epp.server.parsing.bodies",
    "modelplane.epp.server.parsing.paths",
    "modelplane.epp.server.parsing.text",
    "modelplane.epp.server.processor",
    "modelplane.epp.server.request_reader",
    "modelplane.epp.server.routing_result",
    "modelplane.epp.server.immediate_response",
    "modelplane.epp.server.messages_fast",
    "modelplane.epp.transport.direct_reads",
    "modelplane.epp.transport.h2.closed_streams",
    "modelplane.epp.transport.h2.connection",
    "modelplane.epp.transport.h2.control",
    "modelplane.epp.transport.h2.fast_path",
    "modelplane.epp.transport.h2.flood_guard",
    "modelplane.epp.transport.h2.frames",
    "modelplane.epp.transport.h2.hpack",
    "modelplane.epp.transport.h2.huffman",
    "modelplane.epp.transport.h2.outbound",
    "modelplane.epp.transport.h2.reader",
    "modelplane.epp.transport.h2.receive_window",
    "modelplane.epp.transport.h2.server",
    "modelplane.epp.transport.h2.stream",
    "modelplane.epp.transport.h2.stream_table",
    "modelplane.epp.transport.wire",
    "modelplane.framework.filtering",
    "modelplane.framework.ranking",
    "modelplane.framework.runner",
    "modelplane.framework.sparse_vector",
    "modelplane.framework.cycle_state",
    "modelplane.router.callers",
    "modelplane.router.catalog",
    "modelplane.router.choosing",
    "modelplane.router.decisions",
    "modelplane.router.director",
    "modelplane.router.endpoint_metrics",
    "modelplane.router.exchange",
    "modelplane.router.filters",
    "modelplane.router.health",
    "modelplane.router.messages",
    "modelplane.router.processor",
    "modelplane.router.retries",
    "modelplane.router.rewriting",
    "modelplane.router.routed_context",
    "modelplane.router.routed_request",
    "modelplane.router.shares",
    "modelplane.router.stalls",
    "modelplane.router.summaries",
    "modelplane.router.usage",
    "modelplane.router.wall_clock",
)
"""What each request passes through. Values (msgspec structs) stay out: their classes are C as they are."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", action="store_true", help="make a wheel of it, too")
    parser.add_argument("--check", action="store_true", help="build nothing; exit 1 where a build would")
    parser.add_argument("--c", type=Path, metavar="FOLDER", help="only write C for this version of Python there")
    parser.add_argument("--platform", default=sys.platform, help="with --c: sys.platform of where it will run")
    parser.add_argument("--suffix", help="with --c: how names of extension modules end there")
    parser.add_argument("--packages", default=sys.executable, help="with --c: a Python with what the sources import")
    chosen = parser.parse_args()
    if chosen.check:
        return 0 if is_current() else 1
    if chosen.c is not None:
        if chosen.suffix:
            importlib.machinery.EXTENSION_SUFFIXES[:] = [chosen.suffix]  # mypyc writes the first into the C
        write_c(chosen.c, f"--platform={chosen.platform}", f"--python-executable={chosen.packages}")
        return 0
    if not is_current():
        problem = obstacle()
        if problem:
            print(f"cannot compile: {problem}. The picker runs without; see docs/picker.md.", file=sys.stderr)
            return 1
        build()
    print(f"compiled: PYTHONPATH={BUILT.relative_to(ROOT)} runs it")
    if chosen.wheel:
        print(f"wheel: {write_wheel().relative_to(ROOT)}")
    return 0


def complaints(source: str) -> Iterator[str]:
    """What mypyc would make something else of."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).split("[")[0] for base in node.bases}
            if node.keywords or bases & _OUT_OF_PLACE:
                yield f"line {node.lineno}: {node.name} is a struct, a protocol or has keywords; it belongs elsewhere"
            yield from _taken_names(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _one_name_for_two(node)


def _taken_names(owner: ast.ClassDef) -> Iterator[str]:
    """Attributes are fields of a C struct, each with an underscore before its name."""
    for node in ast.walk(owner):
        if not (isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store)):
            continue
        name = node.attr if isinstance(node, ast.Attribute) else node.id
        if _TAKEN_IN_C.fullmatch(name):
            yield f"line {node.lineno}: {name} is _{name} in C, which has another meaning there; give it another name"


def _one_name_for_two(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    types: dict[str, str] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler) and node.name and node.type is not None:
            caught = ast.unparse(node.type)
            if types.setdefault(node.name, caught) != caught:
                yield f"line {node.lineno}: {node.name} is {types[node.name]} above; give {caught} another name"


def heirs() -> Iterator[str]:
    """Classes of plain modules that inherit from compiled ones, which no interpreter lets them."""
    compiled = {source_of(module) for module in MODULES}
    for path in sorted(SOURCES.rglob("*.py")):
        if path not in compiled and "class " in path.read_text():
            for heir in _heirs_in(ast.parse(path.read_text())):
                yield f"{path.relative_to(SOURCES)}: {heir}, which is compiled"


def _heirs_in(tree: ast.Module) -> Iterator[str]:
    names = {name for node in tree.body if isinstance(node, ast.ImportFrom) for name in _compiled_names(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for base in names & {ast.unparse(base).split("[")[0] for base in node.bases}:
                yield f"{node.name} inherits from {base}"


def _compiled_names(imported: ast.ImportFrom) -> Iterator[str]:
    """Of what is imported, the names that a compiled module defines, also where a package hands them on."""
    for module in MODULES:
        if imported.module is not None and (module == imported.module or module.startswith(f"{imported.module}.")):
            defined = _classes_of(module)
            yield from (alias.asname or alias.name for alias in imported.names if alias.name in defined)


@cache
def _classes_of(module: str) -> frozenset[str]:
    tree = ast.parse(source_of(module).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.ClassDef))


def source_of(module: str) -> Path:
    return SOURCES / f"{module.replace('.', '/')}.py"


def is_current() -> bool:
    stamp = BUILT / _STAMP
    return stamp.is_file() and stamp.read_text() == _fingerprint()


def _fingerprint() -> str:
    found = hashlib.sha256(f"{sys.version} {version('mypy')} {MODULES} {_FLAGS}".encode())
    for path in sorted(SOURCES.rglob("*.py")):
        found.update(str(path.relative_to(SOURCES)).encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def obstacle() -> str:
    """What this machine lacks, or what the sources have too much of."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler ({compiler}) on this machine"
    if not Path(sysconfig.get_paths()["include"], "Python.h").is_file():
        return "the headers of Python (Python.h) are not on this machine"
    with contextlib.suppress(ImportError):
        import setuptools  # type: ignore[import-untyped]  # noqa: F401  it has none; only whether it is there

        return refused()
    return "there is no setuptools here, which mypyc builds with, and with which newer versions of Python do not come"


def refused() -> str:
    """What of the sources mypyc would make something else of, or nothing at all."""
    for module in MODULES:
        for problem in complaints(source_of(module).read_text()):
            return f"{source_of(module).relative_to(ROOT)}, {problem}"
    return next(heirs(), "")


def build() -> None:
    for folder in (BUILT, _SCRATCH):
        shutil.rmtree(folder, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCES / "modelplane", BUILT / "modelplane", ignore=ignored)
    _compile()
    (BUILT / _STAMP).write_text(_fingerprint())
    shutil.rmtree(_SCRATCH)


def _compile() -> None:
    import setuptools

    with contextlib.chdir(BUILT):
        extensions = _extensions(_SCRATCH)
        for extension in extensions:
            extension.extra_compile_args = [*extension.extra_compile_args, *_FLAGS]
        words = ["--quiet", "build_ext", "--inplace", "--build-temp", str(_SCRATCH), "--build-lib", str(_SCRATCH)]
        setuptools.setup(name="modelplane", packages=[], ext_modules=extensions, script_args=words)


def write_c(folder: Path, *options: str) -> None:
    """For the version of Python that runs this: mypyc writes other C for another."""
    with contextlib.chdir(SOURCES):
        extensions = _extensions(folder.resolve(), *options)
    units = [{"name": it.name, "sources": it.sources, "includes": it.include_dirs} for it in extensions]
    (folder / "units.json").write_text(json.dumps(units, indent=1))


def _extensions(folder: Path, *options: str) -> list[Any]:
    """What there is to compile, with its C in the folder. Sources are read from where we are."""
    from mypyc.build import mypycify

    paths = [str(source_of(module).relative_to(SOURCES)) for module in MODULES]
    # Types are checked in full by `make lint`; in the order in which mypyc reads modules, mypy does not find the type
    # of one list of plugins, which is compiled nowhere.
    words = [f"--config-file={ROOT / 'pyproject.toml'}", "--disable-error-code=has-type", *options]
    return mypycify(
        [*words, f"--cache-dir={folder / 'types'}", *paths],
        opt_level="2",
        debug_level="0",
        target_dir=str(folder),
        group_name="modelplane_picker",
    )


def write_wheel() -> Path:
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = f"{tag}-{tag}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    return wheel_of(BUILT, tag, ROOT / "dist")


def wheel_of(folder: Path, tag: str, output: Path) -> Path:
    """A wheel of what is in the folder, for what the tag says (compressed: platforms with dots between them)."""
    from flit_core import buildapi  # type: ignore[import-untyped]  # it has none

    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        with contextlib.chdir(ROOT):
            info = Path(scratch, buildapi.prepare_metadata_for_build_wheel(scratch))
        versions, platforms = tag.rsplit("-", 1)
        tags = "".join(f"Tag: {versions}-{platform}\n" for platform in platforms.split("."))
        (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: modelplane\nRoot-Is-Purelib: false\n{tags}")
        wheel = output / f"{info.name.removesuffix('.dist-info')}-{tag}.whl"
        _zip(wheel, info, folder)
    return wheel


def _zip(wheel: Path, info: Path, folder: Path) -> None:
    programs = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".pyc"]
    files = [(path, path.relative_to(folder)) for path in programs if path.name != _STAMP]
    files += [(path, path.relative_to(info.parent)) for path in sorted(info.rglob("*")) if path.is_file()]
    lines = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, name in files:
            data = path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name.as_posix()},sha256={digest},{len(data)}\n")
            archive.writestr(_entry(name.as_posix()), data)
        record = f"{info.name}/RECORD"
        archive.writestr(_entry(record), "".join([*lines, f"{record},,\n"]))


def _entry(name: str) -> zipfile.ZipInfo:
    """Without the time: the same content is the same wheel."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
    return entry


if __name__ == "__main__":
    raise SystemExit(main())
