"""The checkout as the next release: another number, and one field more in the spec of ModelDeployments."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

FIELD = "note"
_VERSION = Path("src/modelplane/api/version.py")
_DEFINITIONS = Path("src/modelplane/api/_definitions.json")
_COPIED = ("src", "tools", "Makefile", "pyproject.toml", "README.md", "LICENSE")
_KIND = "ModelDeployment"


def write_next(checkout: Path, folder: Path, number: tuple[str, str]) -> Path:
    """Copies what a release is built from; `number` is this version and the next. The environment is shared."""
    folder.mkdir(parents=True)
    for name in (*_COPIED, *(path.name for path in checkout.glob("requirements*.lock"))):
        source = checkout / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / name)  # make compares times
    (folder / ".venv").symlink_to(checkout / ".venv")
    version = folder / _VERSION
    version.write_text(version.read_text().replace(*number))
    definitions = folder / _DEFINITIONS
    definitions.write_text(json.dumps(_with_field(json.loads(definitions.read_text()))))
    return folder


def _with_field(definitions: list[dict[str, object]]) -> list[dict[str, object]]:
    for definition in definitions:
        names = definition["names"]
        if isinstance(names, dict) and names["kind"] == _KIND:
            spec = _at(definition, "schema", "properties", "spec", "properties")
            spec[FIELD] = {"type": "string", "maxLength": 63}
    return definitions


def _at(found: object, *path: str) -> dict[str, object]:
    for name in path:
        found = found[name] if isinstance(found, dict) else {}
    return found if isinstance(found, dict) else {}
