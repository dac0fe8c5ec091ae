"""Writes what the product reads of the API from the XRDs under apis/, the one source of every field.

    src/modelplane/api/_definitions.json   the kinds with their schemas, as a CRD would have them
    src/modelplane/api/models.py          a frozen msgspec struct for each object of those schemas

`--check` writes nothing and fails when a file differs from what would be written.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml
from generate_models import models_source

ROOT = Path(__file__).resolve().parent.parent
API = ROOT / "src" / "modelplane" / "api"
MAX_NAME = 63  # the name of a composite is used as a label value

CONDITIONS = {
    "type": "array",
    "description": "Conditions of the object.",
    "maxItems": 32,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object",
        "description": "A condition.",
        "required": ["type", "status", "reason", "lastTransitionTime"],
        "properties": {
            "type": {"type": "string", "maxLength": 316, "description": "Type of the condition."},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": "Whether it holds."},
            "reason": {"type": "string", "maxLength": 1024, "description": "Why, in one word."},
            "message": {"type": "string", "maxLength": 32768, "description": "Why, for people."},
            "observedGeneration": {"type": "integer", "format": "int64", "description": "Generation it was made for."},
            "lastTransitionTime": {"type": "string", "format": "date-time", "description": "When the status changed."},
        },
    },
}
CROSSPLANE = {
    "type": "object",
    "description": "How Crossplane composes the object. It writes this itself; other hosts leave it alone.",
    "x-kubernetes-preserve-unknown-fields": True,
}
READY_COLUMNS = [
    {"name": "READY", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"},
    {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail when a file is out of date, write nothing")
    check = parser.parse_args().check
    stale = [path for path, text in outputs() if not _is_current(path, text, write=not check)]
    for path in stale:
        print(f"{path.relative_to(ROOT)} {'is out of date: run make generate' if check else 'written'}")
    return 1 if check and stale else 0


def outputs() -> Iterator[tuple[Path, str]]:
    definitions = [_definition(xrd) for xrd in load_xrds()]
    yield API / "_definitions.json", json.dumps(definitions, indent=1, ensure_ascii=False) + "\n"
    yield API / "models.py", _formatted(models_source(definitions))


def load_xrds() -> list[dict[str, object]]:
    return [yaml.load(path.read_text(), Loader=yaml.CSafeLoader) for path in sorted((ROOT / "apis").glob("*.yaml"))]


def _is_current(path: Path, text: str, *, write: bool) -> bool:
    if path.exists() and path.read_text() == text:
        return True
    if write:
        path.write_text(text)
    return False


def _formatted(source: str) -> str:
    ruff = [str(Path(sys.executable).with_name("ruff")), "format", "--line-length", "120", "-"]
    return subprocess.run(ruff, input=source, capture_output=True, check=True, text=True).stdout  # noqa: S603  our own tool on our own text


def _definition(xrd: Mapping[str, object]) -> dict[str, object]:
    """The kind as a plain CRD states it: what Crossplane would derive from the XRD, less its own machinery."""
    spec = _mapping(xrd["spec"])
    versions = spec["versions"]
    assert isinstance(versions, list)
    version = versions[0]
    return {
        "group": spec["group"],
        "version": version["name"],
        "scope": spec["scope"],
        "names": spec["names"],
        "columns": [*version.get("additionalPrinterColumns", []), *READY_COLUMNS],
        "scale": version.get("subresources", {}).get("scale"),
        "schema": _crd_schema(_mapping(version["schema"])["openAPIV3Schema"]),
    }


def _crd_schema(schema: object) -> dict[str, object]:
    root = _mapping(schema)
    properties = _mapping(root["properties"])
    spec, status = _mapping(properties["spec"]), _mapping(properties["status"])
    return {
        **root,
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of the schema of this object."},
            "kind": {"type": "string", "description": "Kind of this object."},
            "metadata": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": MAX_NAME, "description": "Name of the object."}},
            },
            "spec": {**spec, "properties": {**_mapping(spec["properties"]), "crossplane": CROSSPLANE}},
            "status": {**status, "properties": {"conditions": CONDITIONS, **_mapping(status["properties"])}},
        },
    }


def _mapping(value: object) -> dict[str, object]:
    assert isinstance(value, dict), value
    return value


if __name__ == "__main__":
    sys.exit(main())
