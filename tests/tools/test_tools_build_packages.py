"""The picker's image: whether it is compiled, by what this machine is and has. No compiler is needed to test it."""

import importlib.util
import sys
import tarfile
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from modelplane.crossplane.packaging import FUNCTION, PackageSource, installation

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def tool(monkeypatch, tmp_path_factory):
    monkeypatch.syspath_prepend(str(TOOLS))
    spec = importlib.util.spec_from_file_location("build_packages", TOOLS / "build_packages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PYTHON", tuple(sys.version_info[:2]))
    monkeypatch.setattr(module, "PLATFORM", (sys.platform, module.platform.machine()))
    monkeypatch.setattr(module.build_wheels, "DIST", tmp_path_factory.mktemp("wheels"))
    monkeypatch.setattr(module.compile_picker, "is_current", lambda: False)
    monkeypatch.setattr(module.compile_picker, "obstacle", lambda: "")
    return module


def test_a_machine_like_the_image_compiles_for_it(tool):
    assert tool._why_plain(plain=False) == ""


def test_who_asks_for_plain_gets_it(tool):
    assert tool._why_plain(plain=True) == "--plain says so"


def test_another_version_of_python_does_not(tool, monkeypatch):
    monkeypatch.setattr(tool, "PYTHON", (3, 4))
    version = ".".join(map(str, sys.version_info[:2]))
    assert tool._why_plain(plain=False) == f"the image has Python 3.4, and this is {version}"


def test_another_platform_does_not(tool, monkeypatch):
    monkeypatch.setattr(tool, "PLATFORM", ("plan9", "mips"))
    assert tool._why_plain(plain=False).startswith("the image is for plan9 mips, and this is ")


def test_another_architecture_is_not_compiled_for(tool):
    said = tool._why_plain(plain=False, architecture="arm64")
    assert said == "dist/wheels has no wheel of these sources for arm64; `make wheels` builds it"


def wheel_of_sources(tool, *, changed=""):
    """As `make wheels` writes it, but for what is in the extension module."""
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    wheel = (
        tool.build_wheels.DIST / f"modelplane-9-{version}-{version}-manylinux_2_17_aarch64.manylinux2014_aarch64.whl"
    )
    sources = tool.compile_picker.SOURCES
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sources.rglob("*.py"):
            archive.writestr(path.relative_to(sources).as_posix(), path.read_bytes() + changed.encode())
        archive.writestr("modelplane/epp/server/director.cpython-311-aarch64-linux-gnu.so", "for arm64")


def test_another_architecture_takes_its_modules_from_its_wheel(tool, capsys):
    wheel_of_sources(tool)
    assert tool._why_plain(plain=False, architecture="arm64") == ""
    (layer,) = tool._compiled_layers("", "arm64")
    with tarfile.open(fileobj=BytesIO(layer.packed)) as archive:
        held = {entry.name: archive.extractfile(entry).read().decode() for entry in archive}
    assert held == {"app/modelplane/epp/server/director.cpython-311-aarch64-linux-gnu.so": "for arm64"}
    assert "manylinux2014_aarch64.whl\nmodelplane-picker: compiled, 1 modules" in capsys.readouterr().out


def test_a_wheel_of_other_sources_is_not_taken(tool):
    wheel_of_sources(tool, changed="# not ours")
    assert tool._why_plain(plain=False, architecture="arm64").startswith("dist/wheels has no wheel of these sources")


def test_what_an_earlier_build_left_is_removed(tool, tmp_path):
    version = tool.__version__
    left = [f"modelplane-loader-v{version}-arm64.tar", f"function-modelplane-v{version}.xpkg"]
    kept = ["modelplane-v0.0.1.xpkg", f"modelplane-{version}.tgz"]
    for name in (*left, *kept):
        (tmp_path / name).touch()
    tool._remove_earlier(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


def test_lists_of_another_architecture_leave_the_machines_own_alone(tool, tmp_path):
    own = tool.subprocess.run(
        ["dpkg", "--print-architecture"], capture_output=True, text=True, check=True
    ).stdout.strip()
    other = "arm64" if own == "amd64" else "amd64"
    assert tool._apt_settings(tmp_path, own) == []
    words = tool._apt_settings(tmp_path, other)
    assert f"APT::Architecture={other}" in words
    assert f"Dir::State::Lists={tmp_path / 'lists'}" in words


def test_a_machine_without_a_compiler_does_not(tool, monkeypatch):
    monkeypatch.setattr(tool.compile_picker, "obstacle", lambda: "there is no C compiler (cc) on this machine")
    assert tool._why_plain(plain=False) == "there is no C compiler (cc) on this machine"


def test_what_was_compiled_before_needs_no_compiler(tool, monkeypatch):
    monkeypatch.setattr(tool.compile_picker, "obstacle", lambda: "there is no C compiler (cc) on this machine")
    monkeypatch.setattr(tool.compile_picker, "is_current", lambda: True)
    assert tool._why_plain(plain=False) == ""


def test_the_layer_has_the_extension_modules_beside_their_sources(tool, monkeypatch, tmp_path, capsys):
    for name in ("shared.so", "modelplane/epp/server/director.so", "modelplane/epp/server/director.py", "made-of"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(tool.compile_picker, "is_current", lambda: True)
    monkeypatch.setattr(tool.compile_picker, "BUILT", tmp_path)
    (layer,) = tool._compiled_layers("")
    with tarfile.open(fileobj=BytesIO(layer.packed)) as archive:
        held = {entry.name: archive.extractfile(entry).read().decode() for entry in archive}
    assert held == {
        "app/modelplane/epp/server/director.so": "modelplane/epp/server/director.so",
        "app/shared.so": "shared.so",
    }
    assert capsys.readouterr().out == "modelplane-picker: compiled, 2 modules\n"


def test_a_plain_image_says_why(tool, capsys):
    assert tool._compiled_layers("the moon is full") == ()
    assert capsys.readouterr().out == "modelplane-picker: plain Python, because the moon is full\n"


def test_the_image_has_the_user_that_the_function_is_installed_to_run_as(tool):
    made = installation(PackageSource("a.example/x", "a.example/y", "1.0.0"))
    runtime = next(
        item for item in made if item["metadata"]["name"] == FUNCTION and "deploymentTemplate" in item["spec"]
    )
    (container,) = runtime["spec"]["deploymentTemplate"]["spec"]["template"]["spec"]["containers"]
    security = container["securityContext"]
    assert f"{security['runAsUser']}:{security['runAsGroup']}" == tool.USER
