"""Where the charts of our table are had from, since no repository of charts is within reach of the lab.

Most are in the Go modules of their software. The rest, and versions that no module has, are in the repositories of
their maintainers: MODELPLANE_LAB_REPOSITORIES names a folder with clones of those, as `OWNER/NAME`. Git finds the
folder of a chart by its hash, so what is read is what is written here, whatever the clone's tags say.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.build import module_folders
from lab.components import AI_GATEWAY, CERT_MANAGER, ENVOY_GATEWAY, KAI, KSERVE, LWS, Module

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

REPOSITORIES_VARIABLE = "MODELPLANE_LAB_REPOSITORIES"
_NUMBER = re.compile(r"v?(\d+\.\d+.*)")
_NFD = Module("sigs.k8s.io/node-feature-discovery", "v0.19.0", "h1:9CYm16vjSIbNO5Z1Y67rcrfy51YWmy3+6wjiWzJbrC4=")
_DRA_DRIVER = Module("sigs.k8s.io/dra-driver-nvidia-gpu", "v0.4.1", "h1:up4wTyW4UxLDB8I+pDOhQ1+F3Ol2f/qHgN4v6vlcPEc=")
_KUEUE = Module("sigs.k8s.io/kueue", "v0.19.2", "h1:mPNzr37u0nwI7ikST5QQl5gg6EgtYOAvC9ZbTgywdN8=")
_VOLCANO = Module("volcano.sh/volcano", "v1.15.1", "h1:M0iGzhy1dvod2GFy1QiyWdv1jmmNfHW4+2WoRU7CIAk=")


@dataclass(frozen=True, slots=True)
class Release:
    """The folder of a chart in a repository, at a tag; `tree` is its hash."""

    repository: str
    tag: str
    tree: str


@dataclass(frozen=True, slots=True)
class ChartSource:
    """Where a component's chart is. Of several for one component the first that can be had counts."""

    component: str
    origin: Module | Release
    folder: str = ""
    newer: frozenset[str] = frozenset()
    """Values of the table that came after this version."""

    @property
    def version(self) -> str:
        """Without a leading v."""
        named = self.origin.version if isinstance(self.origin, Module) else self.origin.tag
        found = _NUMBER.search(named)
        return found[1] if found else named


_GPU_OPERATOR = Release("NVIDIA/gpu-operator", "v26.3.3", "57bd6c8ff9efd89da4b05831dd8059ef908a1c0c")
SOURCES = (
    ChartSource("cert-manager", CERT_MANAGER, "deploy/charts/cert-manager"),
    ChartSource("envoy-gateway", Release("envoyproxy/gateway", "v1.8.3", "2bc9012f689c172a801fc8e12a75b32444dbea83")),
    ChartSource("envoy-gateway", ENVOY_GATEWAY, "charts/gateway-helm"),
    ChartSource(
        "ai-gateway-crds", Release("envoyproxy/ai-gateway", "v1.1.0", "03a9876840916194b31938ea1102ba0e9aa3383a")
    ),
    ChartSource("ai-gateway-crds", AI_GATEWAY, "manifests/charts/ai-gateway-crds-helm"),
    ChartSource("ai-gateway", Release("envoyproxy/ai-gateway", "v1.1.0", "f3057c0461926ca931d52c8bc1e992704b464eae")),
    ChartSource("ai-gateway", AI_GATEWAY, "manifests/charts/ai-gateway-helm"),
    ChartSource(
        "leader-worker-set", Release("kubernetes-sigs/lws", "v0.10.0", "f4e71e44b91c68b7ae62656c475144659a86d6ae")
    ),
    ChartSource("leader-worker-set", LWS, "charts/lws"),
    ChartSource("node-feature-discovery", _NFD, "deployment/helm/node-feature-discovery"),
    ChartSource("gpu-operator-driver", _GPU_OPERATOR),
    ChartSource("dra-driver-nvidia", _DRA_DRIVER, "deployments/helm/dra-driver-nvidia-gpu"),
    ChartSource("gpu-operator-amd", Release("ROCm/gpu-operator", "v1.5.1", "3b82aff9d9efa679d54fc204dc5f7adc228463d5")),
    ChartSource("gpu-operator-nvidia", _GPU_OPERATOR),
    ChartSource("kai", Release("kai-scheduler/KAI-Scheduler", "v0.17.0", "788deb323597e56651343514c1c2bdb0fd08034f")),
    ChartSource("kai", KAI, "deployments/kai-scheduler", frozenset({"scheduler.args"})),
    ChartSource("kueue", _KUEUE, "charts/kueue"),
    ChartSource("volcano", _VOLCANO, "installer/helm/chart/volcano"),
    ChartSource("kserve-crds", KSERVE, "charts/kserve-llmisvc-crd"),
    ChartSource("kserve", KSERVE, "charts/kserve-llmisvc-resources"),
    ChartSource("kserve-presets", KSERVE, "charts/kserve-runtime-configs"),
    ChartSource(
        "cluster-autoscaler",
        Release("kubernetes/autoscaler", "cluster-autoscaler-chart-9.57.0", "b9497d8c770bfebdc5b9ccb28c92a4ef7dbb2178"),
    ),
    ChartSource("keda", Release("kedacore/charts", "v2.20.2", "ff69964483c46a7d947f2ee24118c502fb272f9a")),
    ChartSource("grove", Release("ai-dynamo/grove", "v0.1.0-alpha.12-rc1", "1e8d5f0f801214740096efd89f507badf8cb483b")),
)


def repositories_of(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of clones, if one is named."""
    named = environment.get(REPOSITORIES_VARIABLE)
    return Path(named).absolute() if named else None


def had_sources(clones: Path | None, sources: Iterable[ChartSource] = SOURCES) -> tuple[ChartSource, ...]:
    """One for each component of which a chart can be had."""
    found: dict[str, ChartSource] = {}
    for source in sources:
        if source.component not in found and (isinstance(source.origin, Module) or _has(clones, source.origin)):
            found[source.component] = source
    return tuple(found.values())


def chart_files(source: ChartSource, clones: Path | None) -> dict[str, bytes]:
    """The chart's files by their path in it."""
    if isinstance(source.origin, Module):
        folder = module_folders({source.origin})[source.origin] / source.folder
        return files_of(folder)
    packed = _git(clones, source.origin, "archive", source.origin.tree)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return {entry.name: file.read() for entry in archive if entry.isfile() and (file := archive.extractfile(entry))}


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _has(clones: Path | None, release: Release) -> bool:
    if clones is None or not (clones / release.repository).is_dir():
        return False
    try:
        return _git(clones, release, "cat-file", "-t", release.tree).strip() == b"tree"
    except subprocess.CalledProcessError:
        return False


def _git(clones: Path | None, release: Release, *arguments: str) -> bytes:
    folder = (clones or Path()) / release.repository
    return subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True).stdout
