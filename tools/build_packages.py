"""Builds the Crossplane packages, without a container daemon: dist/packages/*.xpkg.

    build_packages.py [--function REPOSITORY] [--runtime none|debian]

The Configuration package holds definitions and compositions. The Function package holds, beside its metadata, the image
that Crossplane runs: Python from Debian's packages (fetched by apt-get from wherever this machine is set up to), and
the program with what it needs from requirements-image.lock. Push them with `crossplane xpkg push -f FILE REFERENCE`.
The same image with other entry points is what workload clusters run: push *.tar with any tool that reads an archive.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import yaml
from oci import Image, layer_of_folder, package_image, write_archive

from modelplane import __version__
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
IMAGES = {"modelplane-picker": ("picker", "serve"), "modelplane-routing-sidecar": ("picker", "sidecar")}
"""What workload clusters run beside engines; `spec.backend.images` of an InferenceCluster names where they are."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--function", default="", help="repository of the Function package, for the dependency on it")
    parser.add_argument("--runtime", choices=("debian", "none"), default="debian", help="what the function runs on")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "dist" / "packages", help="where to (default: %(default)s)"
    )
    options = parser.parse_args()
    _write(options.output, CONFIGURATION, package_image(_stream(configuration(__version__, options.function))))
    runtime = _runtime() if options.runtime == "debian" else None
    _write(options.output, FUNCTION, package_image(_stream((function_meta(),)), runtime))
    if runtime is not None:
        for name, command in IMAGES.items():
            image = replace(runtime, entrypoint=(*PROGRAM, *command))
            write_archive(image, options.output / f"{name}-v{__version__}.tar", f"{name}:v{__version__}")
            print(f"{options.output / name}-v{__version__}.tar  {' '.join(image.entrypoint[1:])}")
    return 0


def _write(folder: Path, name: str, image: Image) -> None:
    path = folder / f"{name}-v{__version__}.xpkg"
    digest = write_archive(image, path, f"{name}:v{__version__}")
    size = path.stat().st_size / 2**20
    print(f"{path}  {size:.1f} MiB  {len(image.layers)} layers  {digest[:12]}")


def _stream(objects: object) -> bytes:
    return yaml.dump_all(objects, Dumper=yaml.CSafeDumper, sort_keys=False, width=120).encode()  # type: ignore[no-any-return, call-overload]


def _runtime() -> Image:
    with tempfile.TemporaryDirectory() as scratch:
        system, program = Path(scratch) / "system", Path(scratch) / "program"
        _unpack_debian(system, Path(scratch) / "debs")
        _install(program)
        layers = (layer_of_folder(system), layer_of_folder(program, "app"))
    environment = {"PYTHONPATH": "/app", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "PATH": "/usr/bin"}
    return Image(layers, (*PROGRAM, "function"), USER, environment)


def _unpack_debian(system: Path, downloads: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise SystemExit("build_packages.py: the runtime image is made of Debian's packages: apt-get and dpkg-deb are "
                         "not on this machine; use --runtime none and embed an image of your own")  # fmt: skip
    downloads.mkdir()
    print(f"fetching {len(DEBIAN)} Debian packages")
    _run("apt-get", "download", "-qq", *DEBIAN, where=downloads)
    for package in sorted(downloads.glob("*.deb")):
        _run("dpkg-deb", "-x", str(package), str(system))
    for folder in ("usr/share/doc", "usr/share/man", "usr/share/lintian", "usr/lib/python3.11/test"):
        shutil.rmtree(system / folder, ignore_errors=True)
    (system / "etc").mkdir(exist_ok=True)
    (system / "etc" / "passwd").write_text("nonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n")
    (system / "tmp").mkdir(exist_ok=True)


def _install(program: Path) -> None:
    print("installing the program and what it needs")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--target", str(program)]
    lock = ["--require-hashes", "--only-binary", ":all:", "-r", str(ROOT / "requirements-image.lock")]
    _run(*pip, *lock)
    shutil.copytree(ROOT / "src" / "modelplane", program / "modelplane", ignore=shutil.ignore_patterns("__pycache__"))
    for unused in ("bin", "envoy"):  # the proxy of the embedded plane: no use to a function, and most of the image
        shutil.rmtree(program / unused, ignore_errors=True)


def _run(*command: str, where: Path | None = None) -> None:
    subprocess.run(command, cwd=where, check=True)  # noqa: S603  programs and arguments are written above


if __name__ == "__main__":
    sys.exit(main())
