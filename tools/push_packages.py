"""Pushes what `make package` and tools/build_chart.py wrote: packages, images and the chart.

    push_packages.py REPOSITORY [--packages FOLDER] [--chart FILE] [--output FOLDER] [--plain-http]

An image that was built for several architectures becomes one index. Beside it, in --output, stand `images.txt`, with
the digest of everything that was pushed and of what an installation pulls besides, and `modelplane.yaml`, the manifest
for those who have no Helm. With them a mirror of an air-gapped network can be filled and installed from.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from oci import StoredImage, read_archive, stored_chart
from oci_registry import PushError, Registry

from modelplane import __version__
from modelplane.crossplane.packaging import PackageSource, installation
from modelplane.k8s.yaml import to_yaml_documents

ROOT = Path(__file__).resolve().parent.parent
_ARCHIVE = re.compile(r"(?P<name>[a-z-]+)-v(?P<version>[^-]+)(?:-(?P<architecture>amd64|arm64))?\.(?:xpkg|tar)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", help="where to, such as registry.example.org/team")
    parser.add_argument("--packages", type=Path, default=ROOT / "dist" / "packages", help="default: %(default)s")
    parser.add_argument("--chart", type=Path, help="default: the one in dist/chart, if there is one")
    parser.add_argument("--providers", default="", help="where the providers are (default: as our packages)")
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "release", help="default: %(default)s")
    parser.add_argument("--plain-http", action="store_true", help="a registry without TLS")
    options = parser.parse_args()
    host, _, path = options.repository.rstrip("/").partition("/")
    if "." not in host and ":" not in host:
        parser.error(f"{options.repository!r}: the registry's host comes first, host/path")
    try:
        registry = Registry.of(host, plain_http=options.plain_http)
        pushed = list(_push_all(registry, f"{path}/" if path else "", options.packages, _chart(options.chart)))
    except PushError as error:
        sys.exit(f"push_packages.py: {error}")
    _write(options.output, pushed, options.repository.rstrip("/"), options.providers.rstrip("/"))
    return 0


def _chart(given: Path | None) -> Path | None:
    usual = ROOT / "dist" / "chart" / f"modelplane-{__version__}.tgz"
    return given or (usual if usual.is_file() else None)


def _push_all(registry: Registry, path: str, folder: Path, chart: Path | None) -> Iterable[str]:
    """References with their digests, as they are pushed."""
    found = archives(folder)
    if not found:
        raise PushError(f"{folder} holds no package of version {__version__}; `make package` builds them")
    for name, files in found.items():
        images = tuple(read_archive(file) for _, file in sorted(files.items()))
        yield _push(registry, f"{path}{name}", f"v{__version__}", images)
    if chart is not None:
        yield _push(registry, f"{path}charts/modelplane", __version__, (stored_chart(chart),))


def _push(registry: Registry, repository: str, tag: str, images: tuple[StoredImage, ...]) -> str:
    digest = registry.push(repository, tag, images)
    reference = f"{registry.host}/{repository}:{tag}@{digest}"
    print(reference, " ".join(image.architecture for image in images))
    return reference


def archives(folder: Path) -> Mapping[str, Mapping[str, Path]]:
    """Files of this version by image and architecture."""
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.glob("*")):
        named = _ARCHIVE.fullmatch(path.name)
        if named and named["version"] == __version__:
            found.setdefault(named["name"], {})[named["architecture"] or "amd64"] = path
    return found


def _write(folder: Path, pushed: list[str], repository: str, providers: str) -> None:
    source = PackageSource(packages=repository, providers=providers or repository, version=__version__)
    objects = installation(source)
    needed = [_package(item) for item in objects if item["kind"] == "Provider"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "images.txt").write_text("\n".join([*pushed, *needed]) + "\n")
    (folder / "modelplane.yaml").write_text(to_yaml_documents(objects))
    print(folder / "images.txt", folder / "modelplane.yaml")


def _package(item: Mapping[str, object]) -> str:
    spec = item["spec"]
    return str(spec["package"]) if isinstance(spec, Mapping) else ""


if __name__ == "__main__":
    sys.exit(main())
