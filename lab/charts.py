"""Charts of our table as far as they can be had: packed, served to provider-helm, and compared with our values.

A chart is packed from the files of its maintainers (`chart_sources`). Some are templates there, and get what the
maintainers' release would put in: a version, and the name of an image. Where the table's version cannot be had, the
nearest stands for it, under its own version.

The repository speaks HTTPS on loopback: as an OCI registry, and by an index for repositories that are none.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import ssl
import subprocess
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from lab.build import binary
from lab.chart_sources import ChartSource, chart_files, had_sources, repositories_of
from lab.components import COMPONENTS
from modelplane.catalog.stack import StackComponent, at_path, load_stack, merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from lab.places import Places
    from lab.registry import Registry
    from modelplane.api.objects import Json

KUBERNETES = "v1.36.3"
_MIRROR = "mirror.example"
_IMAGE = re.compile(r"^\s*(?:-\s*)?image:\s*(\S+[^:\s])\s*$", re.MULTILINE)
_UNRELEASED = frozenset({"v0.0.0", "0.0.0", "latest", "main-latest"})
"""What charts have for their software before a release writes its version."""


@dataclass(frozen=True, slots=True)
class PackedChart:
    """A chart as a repository serves it."""

    component: StackComponent
    version: str
    archive: bytes
    newer: frozenset[str]

    @property
    def name(self) -> str:
        return self.component.chart.name if self.component.chart is not None else ""

    @property
    def place(self) -> str:
        """Its repository without a scheme."""
        chart = self.component.chart
        return chart.repository.partition("://")[2] if chart is not None else ""


def packed_charts() -> tuple[PackedChart, ...]:
    """Those that can be had."""
    components = {component.name: component for component in load_stack().components}
    clones = repositories_of()
    return tuple(
        packed(components[source.component], source, chart_files(source, clones)) for source in had_sources(clones)
    )


def packed(component: StackComponent, source: ChartSource, found: Mapping[str, bytes]) -> PackedChart:
    version = had_version(component, source)
    files = dict(found)
    about = files.pop("Chart.template.yaml", None) or files["Chart.yaml"]
    described = {**yaml.safe_load(about), "version": version}
    if described.get("appVersion") in _UNRELEASED:
        described["appVersion"] = f"v{source.version}"
    # Parts are in the folder already, and a lock would name repositories.
    files["Chart.yaml"] = yaml.safe_dump(_with_parts(described, files)).encode()
    files.pop("Chart.lock", None)
    if template := files.pop("values.tmpl.yaml", None):
        image = f"docker.io/envoyproxy/gateway:v{source.version}".encode()
        files["values.yaml"] = template.replace(b"${GatewayImage}", image).replace(
            b"${GatewayImagePullPolicy}", b"IfNotPresent"
        )
    name = component.chart.name if component.chart is not None else ""
    archive = _archive({f"{name}/{path}": content for path, content in files.items()})
    return PackedChart(component, version, archive, source.newer)


def had_version(component: StackComponent, source: ChartSource) -> str:
    """As the table writes versions of this chart: with a v or without, like its repository."""
    wanted = component.chart.version if component.chart is not None else ""
    return f"v{source.version}" if wanted.startswith("v") else source.version


def _with_parts(described: dict[str, object], files: Mapping[str, bytes]) -> dict[str, object]:
    """Without dependencies that are not among the files: nothing of them is on by default."""
    found = described.get("dependencies")
    parts = [part for part in found if _is_there(part, files)] if isinstance(found, list) else []
    kept = {key: value for key, value in described.items() if key != "dependencies"}
    return {**kept, "dependencies": parts} if parts else kept


def _is_there(part: Mapping[str, str], files: Mapping[str, bytes]) -> bool:
    return any(path.startswith(f"charts/{part['name']}/") for path in files)


def _archive(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0)


def publish(registry: Registry, charts: Iterable[PackedChart], base: str) -> None:
    """Under the places of the table, so that one mirror for each registry reaches them. `base` is the address."""
    indexes: dict[str, list[PackedChart]] = {}
    for chart in charts:
        repository = chart.component.chart.repository if chart.component.chart is not None else ""
        if repository.startswith("oci://"):
            config = json.dumps({"name": chart.name, "version": chart.version, "apiVersion": "v2"}).encode()
            registry.add_chart(f"{chart.place}/{chart.name}", chart.version, config, chart.archive)
        else:
            indexes.setdefault(chart.place, []).append(chart)
    for place, listed in indexes.items():
        registry.add_file_at(f"/{place}/index.yaml", _index(listed, f"{base}/{place}"))
        for chart in listed:
            registry.add_file_at(f"/{place}/{_file_name(chart)}", chart.archive)


def _index(charts: Iterable[PackedChart], base: str) -> bytes:
    entries = {
        chart.name: [
            {
                "apiVersion": "v2",
                "name": chart.name,
                "version": chart.version,
                "urls": [f"{base}/{_file_name(chart)}"],
                "digest": hashlib.sha256(chart.archive).hexdigest(),
            }
        ]
        for chart in charts
    }
    return yaml.safe_dump({"apiVersion": "v1", "entries": entries}).encode()


def _file_name(chart: PackedChart) -> str:
    return f"{chart.name}-{chart.version}.tgz"


def table_values(component: StackComponent) -> Json:
    """Everything that the table may say to a chart."""
    values = component.values
    for more in component.values_for.values():
        values = merged(values, more)
    for path, image in component.images.items():
        values = merged(values, at_path(path, f"{_MIRROR}/{image}".replace("{version}", "v0")))
    for path, fact in component.facts.items():
        values = merged(values, at_path(path, fact))
    return dict(values)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What Helm's own library makes of a chart with our values."""

    component: str
    version: str
    unknown: tuple[str, ...]
    """Values that the chart does not know."""
    kinds: Mapping[str, int]
    failed: str = ""
    pulled: tuple[str, ...] = ()
    """Images that a mirror of every registry does not reach."""

    @property
    def agrees(self) -> bool:
        return not (self.failed or self.unknown)

    @property
    def verdict(self) -> str:
        if self.failed:
            return f"does not render: {self.failed}"
        rest = f"; not by a mirror: {', '.join(self.pulled)}" if self.pulled else ""
        if self.unknown:
            return f"does not know {', '.join(self.unknown)}{rest}"
        return f"{sum(self.kinds.values())} objects of {len(self.kinds)} kinds{rest}"


def compare(places: Places, chart: PackedChart, folder: Path) -> Comparison:
    (program,) = [part for part in COMPONENTS if part.name == "charts"]
    archive = folder / _file_name(chart)
    archive.write_bytes(chart.archive)
    component = chart.component
    command = [str(binary(places, program)), str(archive), f"mp-{component.name}", component.namespace, KUBERNETES]
    values = json.dumps(table_values(component))
    done = subprocess.run(command, input=values, capture_output=True, text=True, check=False)
    if done.returncode:
        return Comparison(component.name, chart.version, (), {}, done.stderr.strip()[-500:])
    found = json.loads(done.stdout)
    unknown = tuple(path for path in found["unknown"] if path not in chart.newer)
    return Comparison(component.name, chart.version, unknown, _kinds(found), pulled=_pulled(found["manifest"]))


def _kinds(found: Mapping[str, list[str] | str]) -> dict[str, int]:
    texts = [str(found["manifest"]), *found["hooks"], *found["definitions"]]
    counted: dict[str, int] = {}
    for text in texts:
        for item in yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(item, dict) and (kind := item.get("kind")):
                counted[str(kind)] = counted.get(str(kind), 0) + 1
    return counted


def _pulled(manifest: str) -> tuple[str, ...]:
    images = {text.strip("\"'") for text in _IMAGE.findall(manifest)}
    return tuple(sorted(image for image in images if not image.startswith(_MIRROR)))


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
