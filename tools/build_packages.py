"""Builds the Crossplane packages, without a container daemon: dist/packages/*.xpkg.

    build_packages.py [--function REPOSITORY] [--runtime none|debian] [--arch amd64|arm64]... [--plain]

The Configuration package holds definitions and compositions. The Function package holds, beside its metadata, the image
that Crossplane runs: Python from Debian's packages (fetched by apt-get from wherever this machine is set up to), and
the program with what it needs from requirements-image.lock. Push them with `crossplane xpkg push -f FILE REFERENCE`.
The same image with other entry points is what workload clusters run: push *.tar with any tool that reads an archive.

The picker's image has its request path compiled, as a layer of its own, where this machine can compile for it: Python
of the image's version, the image's platform, and a C compiler (tools/compile_picker.py). A line says which it became
and why. The libraries that the modules are linked with are those of this machine's distribution, as the image's are.
Where `make wheels` has built a wheel of these sources for the image, the modules are taken from it instead.

Another architecture takes no machine of it: its Debian packages and wheels are fetched and unpacked, and nothing of
them runs. Its picker is compiled where there is such a wheel, and plain Python elsewhere.

Beside them provenance.intoto.json says what they were built from (tools/provenance.py).
"""

import argparse
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import build_wheels
import compile_picker
import provenance
import yaml
from oci import Image, Layer, layer_of, layer_of_folder, package_image, write_archive

from modelplane import __version__
from modelplane.compose.images import IMAGE_NAMES
from modelplane.crossplane.dashboard_objects import DASHBOARD
from modelplane.crossplane.hub_objects import HUB
from modelplane.crossplane.packaging import CONFIGURATION, FUNCTION, configuration, function_meta

ROOT = Path(__file__).resolve().parent.parent
DEBIAN = (
    *("libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libbz2-1.0", "libcrypt1", "libexpat1", "libffi8", "liblzma5"),
    *("libsqlite3-0", "libssl3", "libuuid1", "media-types", "tzdata", "netbase"),
    *("libpython3.11-minimal", "libpython3.11-stdlib", "python3.11-minimal", "python3.11"),
)
"""What Python 3.11 needs, and no shell: nothing in the image is there to be run but the program."""
USER = "65532:65532"
PROGRAM = ("/usr/bin/python3.11", "-m", "modelplane")
PYTHON = (3, 11)
PLATFORM = ("linux", "x86_64")
WHEELS = {"amd64": "x86_64", "arm64": "aarch64"}
"""What wheels call an architecture."""
_TAGS = (*(f"manylinux_2_{minor}" for minor in range(36, 16, -1)), "manylinux2014")
"""Wheels that run on the image's C library, 2.36."""
PICKER, ROUTER = IMAGE_NAMES["picker"], IMAGE_NAMES["router"]
IMAGES = {
    PICKER: ("picker", "serve"),
    IMAGE_NAMES["routing_sidecar"]: ("picker", "sidecar"),
    IMAGE_NAMES["warm_up"]: ("picker", "warm-up"),
    IMAGE_NAMES["loader"]: ("hydrate",),
    ROUTER: (),
    "modelplane-agent": ("agent",),
    HUB: ("hub",),
    DASHBOARD: ("dashboard",),
}
"""What runs beside engines, gateways and the function. The names are those that rendering defaults to."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--function", default="", help="repository of the Function package, for the dependency on it")
    parser.add_argument("--runtime", choices=("debian", "none"), default="debian", help="what the function runs on")
    parser.add_argument("--plain", action="store_true", help="leave the picker uncompiled, also where it could be")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "dist" / "packages", help="where to (default: %(default)s)"
    )
    parser.add_argument(
        "--arch", action="append", choices=tuple(WHEELS), help="architecture of the images, may be repeated (amd64)"
    )
    options = parser.parse_args()
    _remove_earlier(options.output)
    started, materials = datetime.now(UTC), [provenance.source()]
    made = [_write(options.output, CONFIGURATION, package_image(_stream(configuration(__version__, options.function))))]
    architectures = tuple(dict.fromkeys(options.arch or ["amd64"]))
    for architecture in architectures:
        runtime = _runtime(architecture, materials) if options.runtime == "debian" else None
        made.append(_write(options.output, FUNCTION, package_image(_stream((function_meta(),)), runtime)))
        if runtime is not None:
            made += _write_images(options.output, runtime, plain=options.plain)
    if options.runtime == "debian":
        materials.append(provenance.lock_material(ROOT / "requirements-image.lock"))
    parameters = {"function": options.function, "runtime": options.runtime, "plain": options.plain}
    parameters |= {"architectures": list(architectures)}
    document = provenance.statement(made, parameters, materials, started, datetime.now(UTC))
    print(provenance.write_statement(options.output, document))
    return 0


def _remove_earlier(folder: Path) -> None:
    """An archive of another build, for another architecture, would be pushed with what is built now."""
    for path in (*folder.glob(f"*-v{__version__}*.xpkg"), *folder.glob(f"*-v{__version__}*.tar")):
        path.unlink()


def _write_images(folder: Path, runtime: Image, *, plain: bool) -> list[Path]:
    made = []
    compiled = _compiled_layers(_why_plain(plain=plain, architecture=runtime.architecture), runtime.architecture)
    for name, command in IMAGES.items():
        layers = (*runtime.layers, *(compiled if name in {PICKER, ROUTER} else ()))
        image = replace(runtime, layers=layers, entrypoint=(*PROGRAM, *command))
        made.append(folder / f"{_file(name, image)}.tar")
        write_archive(image, made[-1], f"{name}:v{__version__}")
        print(f"{made[-1]}  {' '.join(image.entrypoint[1:])}")
    return made


def _file(name: str, image: Image) -> str:
    """Those of amd64 have the plain name."""
    suffix = "" if image.architecture == "amd64" else f"-{image.architecture}"
    return f"{name}-v{__version__}{suffix}"


def _why_plain(*, plain: bool, architecture: str = "amd64") -> str:
    """Why the picker is not compiled, in half a sentence; empty where it is."""
    if plain:
        return "--plain says so"
    if _wheel(architecture) is not None:
        return ""
    if architecture != "amd64":
        return f"dist/wheels has no wheel of these sources for {architecture}; `make wheels` builds it"
    version, machine = tuple(sys.version_info[:2]), (sys.platform, platform.machine())
    if version != PYTHON:
        return f"the image has Python {_dotted(PYTHON)}, and this is {_dotted(version)}"
    if machine != PLATFORM:
        return f"the image is for {' '.join(PLATFORM)}, and this is {' '.join(machine)}"
    return "" if compile_picker.is_current() else compile_picker.obstacle()


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _wheel(architecture: str) -> Path | None:
    return build_wheels.wheel_for(_dotted(PYTHON), WHEELS[architecture])


def _compiled_layers(why_plain: str, architecture: str = "amd64") -> tuple[Layer, ...]:
    """The picker's extension modules, which Python prefers to the sources beside them in the layer below."""
    if why_plain:
        print(f"{PICKER}: plain Python, because {why_plain}")
        return ()
    modules = _compiled_modules(architecture)
    print(f"{PICKER}: compiled, {len(modules)} modules")
    return (layer_of({f"app/{name}": data for name, data in modules.items()}),)


def _compiled_modules(architecture: str) -> dict[str, bytes]:
    wheel = _wheel(architecture)
    if wheel is not None:
        print(f"{PICKER}: as in {wheel.name}")
        return build_wheels.extension_modules(wheel)
    if not compile_picker.is_current():
        print(f"{PICKER}: compiling its request path, which takes minutes; --plain leaves it out")
        compile_picker.build()
    built = compile_picker.BUILT
    return {str(path.relative_to(built)): path.read_bytes() for path in sorted(built.rglob("*.so"))}


def _write(folder: Path, name: str, image: Image) -> Path:
    path = folder / f"{_file(name, image)}.xpkg"
    digest = write_archive(image, path, f"{name}:v{__version__}")
    size = path.stat().st_size / 2**20
    print(f"{path}  {size:.1f} MiB  {len(image.layers)} layers  {digest[:12]}")
    return path


def _stream(objects: object) -> bytes:
    return yaml.dump_all(objects, Dumper=yaml.CSafeDumper, sort_keys=False, width=120).encode()  # type: ignore[no-any-return, call-overload]


def _runtime(architecture: str, materials: list[provenance.Material]) -> Image:
    """Adds what it is made of to the materials."""
    with tempfile.TemporaryDirectory() as scratch:
        system, program = Path(scratch) / "system", Path(scratch) / "program"
        _unpack_debian(system, Path(scratch), architecture)
        materials += provenance.debian_materials(Path(scratch) / "debs")
        _install(program, architecture)
        layers = (layer_of_folder(system), layer_of_folder(program, "app"))
    environment = {"PYTHONPATH": "/app", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "PATH": "/usr/bin"}
    return Image(layers, (*PROGRAM, "function"), USER, environment, architecture=architecture)


def _unpack_debian(system: Path, scratch: Path, architecture: str) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise SystemExit("build_packages.py: the runtime image is made of Debian's packages: apt-get and dpkg-deb are "
                         "not on this machine; use --runtime none and embed an image of your own")  # fmt: skip
    downloads = scratch / "debs"
    downloads.mkdir()
    print(f"fetching {len(DEBIAN)} Debian packages for {architecture}")
    settings = _apt_settings(scratch, architecture)
    if settings:
        _run("apt-get", *settings, "update", "-qq")
    _run("apt-get", *settings, "download", "-qq", *DEBIAN, where=downloads)
    for package in sorted(downloads.glob("*.deb")):
        _run("dpkg-deb", "-x", str(package), str(system))
    for folder in ("usr/share/doc", "usr/share/man", "usr/share/lintian", "usr/lib/python3.11/test"):
        shutil.rmtree(system / folder, ignore_errors=True)
    (system / "etc").mkdir(exist_ok=True)
    (system / "etc" / "passwd").write_text("nonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n")
    (system / "tmp").mkdir(exist_ok=True)


def _apt_settings(scratch: Path, architecture: str) -> list[str]:
    """Lists of another architecture are kept apart: the machine's own know nothing of it, and stay as they are."""
    own = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S607  beside dpkg-deb
    if own == architecture:
        return []
    lists, cache, status = scratch / "lists", scratch / "cache", scratch / "status"
    for folder in (lists / "partial", cache / "archives" / "partial"):
        folder.mkdir(parents=True)
    status.touch()
    given = {
        "APT::Architecture": architecture,
        "APT::Architectures::": architecture,
        "Dir::State::Lists": str(lists),
        "Dir::Cache": str(cache),
        "Dir::State::status": str(status),
        "APT::Sandbox::User": "root",
    }
    return [word for name, text in given.items() for word in ("-o", f"{name}={text}")]


def _install(program: Path, architecture: str) -> None:
    print("installing the program and what it needs")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--target", str(program)]
    lock = ["--require-hashes", "--only-binary", ":all:", "-r", str(ROOT / "requirements-image.lock")]
    platforms = [word for tag in _TAGS for word in ("--platform", f"{tag}_{WHEELS[architecture]}")]
    _run(*pip, *platforms, "--python-version", _dotted(PYTHON), "--implementation", "cp", *lock)
    shutil.copytree(ROOT / "src" / "modelplane", program / "modelplane", ignore=shutil.ignore_patterns("__pycache__"))
    for unused in ("bin", "envoy"):  # the proxy of the embedded plane: no use to a function, and most of the image
        shutil.rmtree(program / unused, ignore_errors=True)


def _run(*command: str, where: Path | None = None) -> None:
    subprocess.run(command, cwd=where, check=True)  # noqa: S603  programs and arguments are written above


if __name__ == "__main__":
    sys.exit(main())
