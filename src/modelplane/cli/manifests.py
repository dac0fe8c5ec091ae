"""Reading manifests that a command was given: files, folders, standard input."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from modelplane.api.errors import InputError
from modelplane.k8s.admission.decode import MAX_BYTES, escape
from modelplane.k8s.admission.documents import parse_documents
from modelplane.k8s.admission.layout import Document

STDIN = "-"
_CLASS = """\
kind: InferenceClass
metadata: {name: h200-8x}
spec:
  devices:
  - name: gpu
    driver: gpu.nvidia.com
    deviceClassName: gpu.nvidia.com
    count: 8
    attributes:
      productName: {string: NVIDIA H200}
      architecture: {string: Hopper}
      cudaComputeCapability: {version: 9.0.0}
    capacity:
      memory: {value: 143771Mi}
  cost: {pricePerNodeHour: "84.80"}"""
_SUFFIXES = frozenset((".yaml", ".yml", ".json"))


def read_documents(paths: Sequence[str | Path]) -> list[Document]:
    """The documents of the paths. The first text that cannot be parsed is refused with its place."""
    sources = [source for path in paths for source in expand(str(path))]
    return [document for source in sources for document in parse_documents(read(source), source=shown(source))]


def simulated_fleet(clusters: int, given: Sequence[Document] = ()) -> list[Document]:
    """One InferenceClass, one InferenceGateway and that many InferenceClusters, without those that are given."""
    if clusters == 0:
        return []
    pools = "nodePools: [{name: h200, className: h200-8x, nodeCount: 4}]"
    source = "cluster: {source: Existing, existing: {secretRef: {name: simulated}}}"
    each = [
        f"kind: InferenceCluster\nmetadata: {{name: sim-{number}}}\nspec:\n  {source}\n  {pools}"
        for number in range(1, clusters + 1)
    ]
    parts = [_CLASS, "kind: InferenceGateway\nmetadata: {name: default}\nspec: {}", *each]
    text = "\n---\n".join(f"apiVersion: modelplane.ai/v1alpha1\n{part}" for part in parts)
    return unless_given(parse_documents(text.encode(), source="--clusters"), given)


def unless_given(documents: Sequence[Document], given: Sequence[Document]) -> list[Document]:
    """Less those whose kind and name are among the given."""
    known = {_identity(document) for document in given}
    return [document for document in documents if _identity(document) not in known]


def _identity(document: Document) -> tuple[object, object]:
    """Kind and name; the kinds of a simulated fleet have no namespace."""
    value = document.value if isinstance(document.value, dict) else {}
    metadata = value.get("metadata")
    return value.get("kind"), metadata.get("name") if isinstance(metadata, dict) else None


def expand(path: str) -> Iterator[str]:
    """The files of a path, sorted."""
    if path == STDIN or not Path(path).is_dir():
        yield path
        return
    files = sorted(str(file) for file in Path(path).rglob("*") if file.suffix in _SUFFIXES and file.is_file())
    if not files:
        raise InputError(f"{escape(path)}: no *.yaml, *.yml or *.json file in this folder")
    yield from files


def read(source: str) -> bytes:
    """At most the accepted size and one byte more, to detect larger files."""
    if source == STDIN:
        return _read_some(sys.stdin.buffer)
    try:
        with Path(source).open("rb") as file:
            return _read_some(file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise InputError(f"{escape(source)}: {reason or error}") from None


def shown(source: str) -> str:
    return "<stdin>" if source == STDIN else source


def _read_some(file: BinaryIO) -> bytes:
    return file.read(MAX_BYTES + 1)
