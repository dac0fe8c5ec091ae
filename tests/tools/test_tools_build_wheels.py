"""What wheels are for and hold. What takes a compiler runs where `make wheels` has been run, on what it built."""

import asyncio
import importlib.util
import json
import re
import struct
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

from tests.support.picker_process import pick, serving

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def load(name):
    sys.path.insert(0, str(TOOLS))
    try:
        spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(TOOLS))
    return module


TARGETS = load("wheel_targets")
TOOL = load("build_wheels")
X86, ARM, MAC = TARGETS.TARGETS


def locked(name):
    text = (ROOT / name).read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("target", "tag", "suffix"),
    [
        (X86, "cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64", ".cpython-312-x86_64-linux-gnu.so"),
        (ARM, "cp312-cp312-manylinux_2_17_aarch64.manylinux2014_aarch64", ".cpython-312-aarch64-linux-gnu.so"),
        (MAC, "cp312-cp312-macosx_11_0_arm64", ".cpython-312-darwin.so"),
    ],
    ids=["x86-64", "aarch64", "mac"],
)
def test_what_a_wheel_and_its_modules_are_called(target, tag, suffix):
    assert (target.tag("3.12"), target.module_suffix("3.12")) == (tag, suffix)


def test_mypyc_is_the_one_that_checks_types():
    wheels, dev = locked("requirements-wheels.lock"), locked("requirements-dev.lock")
    assert {name: wheels[name] for name in wheels.keys() & dev.keys()} == {
        name: dev[name] for name in wheels.keys() & dev.keys()
    }
    assert {"mypy", "ziglang", "auditwheel", "setuptools"} <= wheels.keys()
    assert "ziglang" not in dev.keys() | locked("requirements.lock").keys() | locked("requirements-image.lock").keys()


def test_an_environment_gets_what_it_needs_of_the_lock():
    lock = "a==1 \\\n    --hash=sha256:1\nb==2 ; x < 3 \\\n    --hash=sha256:2 \\\n    --hash=sha256:3\nc==3\n"
    assert TOOL.without_packages(lock, ("b",)) == "a==1 \\\n    --hash=sha256:1\nc==3\n"
    assert TOOL.without_packages(lock, ()) == lock


CONFIG = "#define SIZEOF_LONG_DOUBLE 16\n#define HAVE_FORK 1\n#define ALIGNOF_MAX_ALIGN_T 16\n#define SIZEOF_VOID_P 8\n"


def test_sizes_are_those_of_the_platform():
    assert TARGETS.pyconfig(CONFIG, ARM) == CONFIG
    assert TARGETS.pyconfig(CONFIG, MAC) == (
        "#define SIZEOF_LONG_DOUBLE 8\n#define HAVE_FORK 1\n#define ALIGNOF_MAX_ALIGN_T 8\n#define SIZEOF_VOID_P 8\n"
        "#undef _POSIX_C_SOURCE\n#undef _XOPEN_SOURCE\n#undef _XOPEN_SOURCE_EXTENDED\n"
    )


def test_the_compiler_confirms_each_size():
    lines = [line for line in TARGETS.size_checks(CONFIG).splitlines() if not line.startswith("#include")]
    assert lines == [
        '_Static_assert(sizeof(long double) == 16, "SIZEOF_LONG_DOUBLE is not 16");',
        '_Static_assert(_Alignof(max_align_t) == 16, "ALIGNOF_MAX_ALIGN_T is not 16");',
        '_Static_assert(sizeof(void *) == 8, "SIZEOF_VOID_P is not 8");',
    ]


def command(kind, body):
    return struct.pack("<II", kind, 8 + len(body)) + body


def macho(*commands, machine=0x0100000C):
    return struct.pack("<8I", 0xFEEDFACF, machine, 0, 6, len(commands), 0, 0, 0) + b"".join(commands)


def library(name):
    return command(0x0C, struct.pack("<4I", 24, 0, 0, 0) + name + b"\0")


SYSTEM, SIGNED = library(b"/usr/lib/libSystem.B.dylib"), command(0x1D, struct.pack("<2I", 0, 0))
BUILT_FOR_11 = command(0x32, struct.pack("<4I", 1, 11 << 16, 11 << 16, 0))


@pytest.mark.parametrize(
    ("data", "problems"),
    [
        (macho(SYSTEM, BUILT_FOR_11, SIGNED), []),
        (macho(SYSTEM, BUILT_FOR_11), ["it has no signature, without which nothing runs on arm64"]),
        (macho(library(b"libpython3.11.dylib"), BUILT_FOR_11, SIGNED), ["it needs libpython3.11.dylib"]),
        (
            macho(SYSTEM, command(0x32, struct.pack("<4I", 1, 14 << 16, 0, 0)), SIGNED),
            ["it does not say that macOS 11.0 is enough: [(1, 917504)]"],
        ),
        (macho(SYSTEM, BUILT_FOR_11, SIGNED, machine=0x01000007), ["it is not for macOS on arm64"]),
        (b"\x7fELF", ["it is not for macOS on arm64"]),
    ],
    ids=["right", "unsigned", "libpython", "too new", "Intel", "Linux"],
)
def test_what_a_module_for_macos_says_of_itself(data, problems):
    assert TARGETS.macho_problems(data) == problems


def program(path, *said):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{json.dumps([str(path), *said])}'\n")
    path.chmod(0o755)


def test_the_interpreter_of_a_version_is_one_with_headers_and_a_gil(tmp_path, monkeypatch):
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    headers, versions = tmp_path / "headers", tmp_path / "pyenv" / "versions"
    headers.mkdir()
    (headers / "pyconfig.h").touch()
    program(tmp_path / "bin" / "python3.12", "3.12", str(tmp_path), False)  # without headers
    program(versions / "3.12.2" / "bin" / "python3.12", "3.12", str(headers), True)  # without a GIL
    program(versions / "3.12.3" / "bin" / "python3.12", "3.12", str(headers), False)
    program(versions / "3.12.4" / "bin" / "python3.12", "3.12", str(headers), False)
    program(versions / "3.13.0" / "bin" / "python3.13", "3.11", str(headers), False)  # another version
    third = str(versions / "3.12.3" / "bin" / "python3.12")
    assert TOOL.interpreter("3.12") == TOOL.Interpreter("3.12", third, headers)
    assert TOOL.interpreter("3.13") is None
    assert TOOL.interpreter("3.99") is None


@pytest.mark.parametrize(("system", "built"), [("linux", [X86, ARM, MAC]), ("darwin", [MAC]), ("win32", [])])
def test_what_a_machine_builds_for(monkeypatch, system, built):
    monkeypatch.setattr(TOOL.sys, "platform", system)
    assert TOOL.buildable(TARGETS.TARGETS) == built


def test_a_wheel_has_the_tags_of_its_name_and_the_same_bytes_each_time(tmp_path):
    (tmp_path / "in" / "modelplane").mkdir(parents=True)
    (tmp_path / "in" / "modelplane" / "x.so").write_text("x")
    made = [TOOL.compile_picker.wheel_of(tmp_path / "in", X86.tag("3.12"), tmp_path / name) for name in ("a", "b")]
    assert made[0].read_bytes() == made[1].read_bytes()
    name, version, _, tags = parse_wheel_filename(made[0].name)
    assert (name, str(version)) == ("modelplane", VERSION)
    with zipfile.ZipFile(made[0]) as archive:
        info = f"modelplane-{VERSION}.dist-info"
        said = archive.read(f"{info}/WHEEL").decode()
        names = archive.namelist()
        recorded = [line.split(",")[0] for line in archive.read(f"{info}/RECORD").decode().splitlines()]
    assert set(re.findall(r"^Tag: (.*)$", said, re.MULTILINE)) == {str(tag) for tag in tags}
    assert "Root-Is-Purelib: false\n" in said
    assert recorded == names


BUILT = sorted(TOOL.DIST.glob("*.whl"))
built = pytest.mark.skipif(not BUILT, reason="`make wheels` has not been run")


def held(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}


@built
@pytest.mark.parametrize("wheel", [wheel for wheel in BUILT if "none-any" not in wheel.name], ids=lambda it: it.name)
def test_a_compiled_wheel_is_the_pure_one_with_its_modules_compiled(wheel):
    (pure,) = TOOL.DIST.glob("*-none-any.whl")
    plain, compiled = held(pure), held(wheel)
    added = compiled.keys() - plain.keys()
    assert {name: data for name, data in compiled.items() if name not in added} == plain
    modules = {"modelplane_picker__mypyc", *(module.replace(".", "/") for module in TOOL.compile_picker.MODULES)}
    assert {name.split(".")[0] for name in added} == modules
    assert {suffix for name in added for suffix in re.findall(rb"\.cpython-\d+-[a-z0-9_-]+\.so", compiled[name])} == {
        f".{name.split('.', 1)[1]}".encode() for name in added
    }
    _, version, _, _ = parse_wheel_filename(wheel.name)
    assert str(version) == parse_wheel_filename(pure.name)[1].public


@built
def test_the_sdist_has_the_sources_of_the_pure_wheel():
    (pure,), (sdist,) = TOOL.DIST.glob("*-none-any.whl"), TOOL.DIST.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        prefix = f"{sdist.name.removesuffix('.tar.gz')}/src/"
        sources = {
            member.name.removeprefix(prefix): archive.extractfile(member).read()
            for member in archive
            if member.isfile() and member.name.startswith(prefix)
        }
    assert sources == held(pure)


def installable():
    own = set(sys_tags())
    return [wheel for wheel in BUILT if parse_wheel_filename(wheel.name)[3] & own]


@built
@pytest.mark.submission  # an environment and an installation for each: 20 s
@pytest.mark.e2e
@pytest.mark.parametrize("wheel", installable(), ids=lambda it: it.name)
def test_a_wheel_in_a_clean_environment_serves_and_says_whether_it_is_compiled(wheel, tmp_path, monkeypatch):
    """What the program needs is that of the environment of the tests: an installation without a network."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (packages / "tests.pth").write_text(next(path for path in sys.path if path.endswith("site-packages")))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(python))

    async def story():
        async with serving(tmp_path, [("127.0.0.1", 9)], "--no-scrape") as picker, picker.connection() as call:
            return await pick(call, "Why is the sky blue?"), picker.log.read_text()

    chosen, log = asyncio.run(story())
    assert chosen == "127.0.0.1:9"
    assert f"the request path is {'plain Python' if 'none-any' in wheel.name else 'compiled'}" in log
