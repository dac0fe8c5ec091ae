"""Builds what PyPI takes into dist/wheels: wheels with the request path compiled, the pure wheel, and the sdist.

    build_wheels.py [--python 3.12]... [--platform manylinux_2_17_aarch64]...

A wheel for another platform takes no machine of it: mypyc writes C, and zig compiles it, with the symbols of an old C
library (tools/wheel_targets.py). mypyc writes other C for another version of Python, so each version takes an
interpreter of it with its headers, python3.12 on the path or one of pyenv. A version without one has no compiled wheel,
a line says so, and pip takes the pure one there.

Each wheel is inspected before it counts: auditwheel names the oldest C library that it runs on, and for macOS the load
commands are read. What is installed for this is in requirements-wheels.lock, and goes into build/wheels.
"""

import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import compile_picker
from wheel_targets import TARGETS, Target, cp, macho_problems, pyconfig, size_checks

ROOT: Final = Path(__file__).resolve().parent.parent
DIST: Final = ROOT / "dist" / "wheels"
LOCK: Final = ROOT / "requirements-wheels.lock"
VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
_WORK: Final = ROOT / "build" / "wheels"
_FLAGS: Final = (
    *("-shared", "-fPIC", "-O2", "-g0", "-s", "-DNDEBUG", "-fwrapv", "-fvisibility=hidden", "-fno-sanitize=undefined"),
    "-w",  # the C is mypyc's, and nobody here can heed a warning
)
_DESCRIBE: Final = """
import json, sys, sysconfig
print(json.dumps([sys.executable, "%d.%d" % sys.version_info[:2], sysconfig.get_paths()["include"],
                  bool(sysconfig.get_config_var("Py_GIL_DISABLED"))]))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One that C can be written with, and compiled against the headers of."""

    version: str
    path: str
    headers: Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    platforms = [target.platform.split(".", maxsplit=1)[0] for target in TARGETS]
    parser.add_argument("--python", action="append", choices=VERSIONS, help="a version, may be repeated (all)")
    parser.add_argument(
        "--platform", action="append", choices=platforms, help="a platform, may be repeated (all of this system)"
    )
    chosen = parser.parse_args()
    problem = compile_picker.refused()
    if problem:
        raise SystemExit(f"build_wheels.py: {problem}")
    own = [it.platform.split(".")[0] for it in TARGETS if it.system == sys.platform]
    wanted = [it for it in TARGETS if it.platform.split(".")[0] in (chosen.platform or own)]
    before = _sources()
    shutil.rmtree(DIST, ignore_errors=True)
    _write_pure()
    for version in chosen.python or VERSIONS:
        found = interpreter(version)
        if found is None:
            print(f"{cp(version)}: pure, because no Python {version} with headers is on this machine")
            continue
        for target in buildable(wanted):
            _build(found, target)
    if _sources() != before:
        shutil.rmtree(DIST)
        raise SystemExit("build_wheels.py: sources changed while they were compiled; nothing of it is kept")
    return 0


def buildable(targets: Iterable[Target]) -> list[Target]:
    """A Mac's pyconfig.h has been compared with no other system's: there, only what is of it."""
    return [target for target in targets if sys.platform in {"linux", target.system}]


def _sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(compile_picker.SOURCES.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def interpreter(version: str) -> Interpreter | None:
    """The first of this version that has headers, and a GIL: without it, extension modules have another ABI."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [f"python{version}", *map(str, sorted(pyenv.glob(f"{version}.*/bin/python{version}")))]
    for candidate in candidates:
        said = _description(candidate)
        if said is not None:
            path, own, headers, free_threaded = json.loads(said)
            if own == version and not free_threaded and Path(headers, "pyconfig.h").is_file():
                return Interpreter(version, path, Path(headers))
    return None


def _description(candidate: str) -> str | None:
    try:
        done = subprocess.run([candidate, "-c", _DESCRIBE], capture_output=True, text=True, check=True)  # noqa: S603  named above
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout


def _write_pure() -> None:
    from flit_core import buildapi  # type: ignore[import-untyped]  # it has none

    DIST.mkdir(parents=True)
    with contextlib.chdir(ROOT):
        for write in (buildapi.build_wheel, buildapi.build_sdist):
            print(DIST / write(str(DIST)))


def _build(python: Interpreter, target: Target) -> None:
    units = json.loads((_write_c(python, target) / "units.json").read_text())
    headers = (
        _WORK / f"headers-{python.version}-{target.triple}"
    )  # in one place, so that zig knows what it has compiled
    write_headers(python.headers, target, headers)
    _compile_all(target, [str(headers / "sizes.c")], [], ["-c", "-o", str(headers / "sizes.o")])
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(compile_picker.SOURCES / "modelplane", made / "modelplane", ignore=ignored)
        jobs = [partial(_compile_unit, python.version, target, unit, headers, made) for unit in units]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for done in [pool.submit(job) for job in jobs]:
                done.result()
        wheel = compile_picker.wheel_of(made, target.tag(python.version), DIST)
    problems = inspect(wheel, target)
    if problems:
        wheel.unlink()
        raise SystemExit(f"build_wheels.py: {wheel.name}: {'; '.join(problems)}")
    print(f"{wheel}  {len(units)} modules", flush=True)


def write_headers(own: Path, target: Target, folder: Path) -> None:
    """Python's, with the target's pyconfig.h, which Python.h only takes from beside itself."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(own, folder)
    config = pyconfig((own / "pyconfig.h").read_text(), target)
    (folder / "pyconfig.h").write_text(config)
    (folder / "sizes.c").write_text(size_checks(config))


def _compile_unit(version: str, target: Target, unit: dict[str, object], headers: Path, made: Path) -> None:
    name, sources, includes = str(unit["name"]), unit["sources"], unit["includes"]
    assert isinstance(sources, list)
    assert isinstance(includes, list)
    path = made / f"{name.replace('.', '/')}{target.module_suffix(version)}"
    path.parent.mkdir(parents=True, exist_ok=True)
    _compile_all(target, sources, [str(headers), str(headers / "internal"), *includes], [*_FLAGS, "-o", str(path)])


def _compile_all(target: Target, sources: Sequence[str], includes: Sequence[str], flags: Sequence[str]) -> None:
    zig = [str(_environment(sys.executable, "tools", without=())), "-m", "ziglang", "cc", "-target", target.triple]
    folders = [word for folder in includes for word in ("-I", folder)]
    caches = {f"ZIG_{name}_CACHE_DIR": str(_WORK / "zig") for name in ("GLOBAL", "LOCAL")}
    _run(*zig, *flags, *target.flags, *folders, *sources, environment=os.environ | caches)


def _write_c(python: Interpreter, target: Target) -> Path:
    """For each version and platform: mypyc writes the suffix of modules, and decides by the version and the system."""
    folder = _WORK / f"c-{python.version}-{target.triple}"
    stamp, key = folder / "made-of", f"{_sources()} {hashlib.sha256(LOCK.read_bytes()).hexdigest()}"
    if stamp.is_file() and stamp.read_text() == key:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    mypyc = _environment(python.path, f"mypyc-{python.version}", without=("ziglang", "auditwheel", "pyelftools"))
    tool = str(ROOT / "tools" / "compile_picker.py")
    options = ["--platform", target.system, "--suffix", target.module_suffix(python.version)]
    _run(str(mypyc), tool, "--c", str(folder), *options, "--packages", sys.executable)
    stamp.write_text(key)
    return folder


def _environment(python: str, name: str, without: Sequence[str]) -> Path:
    """The Python of an environment with what the lock names."""
    folder, wanted = _WORK / name, without_packages(LOCK.read_text(), without)
    installed, program = folder / "installed.lock", folder / "bin" / "python"
    if not installed.is_file() or installed.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        print(f"{name}: installing what requirements-wheels.lock has for it")
        _run(python, "-m", "venv", str(folder))
        (folder / "wanted.lock").write_text(wanted)
        pip = [str(program), "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--require-hashes"]
        _run(*pip, "-r", str(folder / "wanted.lock"))
        (folder / "wanted.lock").rename(installed)
    return program


def without_packages(lock: str, names: Sequence[str]) -> str:
    """A requirement begins at the margin; its hashes are indented."""
    kept, keeping = [], True
    for line in lock.splitlines(keepends=True):
        if not line.startswith(" "):
            keeping = line.split("==")[0] not in names
        if keeping:
            kept.append(line)
    return "".join(kept)


def inspect(wheel: Path, target: Target) -> list[str]:
    """What is wrong with a wheel, by its files."""
    if target.system == "darwin":
        modules = extension_modules(wheel)
        return [f"{name}: {problem}" for name, data in modules.items() for problem in macho_problems(data)]
    tools = _environment(sys.executable, "tools", without=())
    command = [str(tools), "-m", "auditwheel", "show", "--json", str(wheel)]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603  written above
    overall = said["overall_tag"]
    return [] if overall in target.platform.split(".") else [f"auditwheel says that it is for {overall}"]


def wheel_for(version: str, machine: str) -> Path | None:
    """The one that was built of the sources as they are, for Linux."""
    for wheel in DIST.glob(f"modelplane-*-{cp(version)}-{cp(version)}-manylinux*_{machine}.whl"):
        with zipfile.ZipFile(wheel) as archive:
            held = {name: archive.read(name) for name in archive.namelist() if name.endswith(".py")}
        files = compile_picker.SOURCES.rglob("*.py")
        if held == {path.relative_to(compile_picker.SOURCES).as_posix(): path.read_bytes() for path in files}:
            return wheel
    return None


def extension_modules(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in sorted(archive.namelist()) if name.endswith(".so")}


def _run(*command: str, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603  written above
    if done.returncode:
        raise SystemExit(
            f"build_wheels.py: {' '.join(command[:6])} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )


if __name__ == "__main__":
    sys.exit(main())
