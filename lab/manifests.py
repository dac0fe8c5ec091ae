"""Upstream's manifests, read from the modules that the programs were built from.

Some of them are megabytes of YAML; a parsed copy is kept in the cache, by module version. Definitions lose the prose in
their schemas: two thirds of their size, which an API server would otherwise carry through every step of its start.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lab.client import Manifest
    from lab.components import Module

# libyaml's parser where PyYAML was built with it: ten times faster, the same documents.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse(text: str) -> list[Manifest]:
    """The objects of a YAML stream; what is not an object with a kind is left out."""
    parsed = yaml.load_all(text, Loader=_Loader)
    return [item for item in parsed if isinstance(item, dict) and item.get("kind")]


def read_folder(path: Path) -> list[Manifest]:
    """The manifests of a file, or of all YAML files in a folder."""
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    return [item for file in files for item in parse(file.read_text())]


def _lean(item: Manifest) -> Manifest:
    return dict(_without_prose(item)) if item["kind"] == "CustomResourceDefinition" else item  # type: ignore[call-overload]  # an object stays one


def _without_prose(schema: object) -> object:
    """Without descriptions; a property of that name is an object, not text."""
    if isinstance(schema, dict):
        kept = {key: each for key, each in schema.items() if key != "description" or not isinstance(each, str)}
        return {key: _without_prose(each) for key, each in kept.items()}
    return [_without_prose(each) for each in schema] if isinstance(schema, list) else schema


@dataclass(frozen=True, slots=True)
class Sources:
    """The unpacked modules, and where parsed copies of their manifests are kept."""

    folders: Mapping[Module, Path]
    cache: Path

    def folder(self, module: Module) -> Path:
        return self.folders[module]

    def read(self, module: Module, place: str) -> list[Manifest]:
        return self._kept(module, place, lambda: read_folder(self.folder(module) / place))

    def kustomized(self, module: Module, place: str, kubectl: Path) -> list[Manifest]:
        """What upstream's own kustomization of a folder makes."""

        def made() -> list[Manifest]:
            command = [str(kubectl), "kustomize", str(self.folder(module) / place)]
            return parse(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

        return self._kept(module, f"{place}.kustomized", made)

    def _kept(self, module: Module, place: str, make: Callable[[], list[Manifest]]) -> list[Manifest]:
        kept = self.cache / "lean-manifests" / f"{module.path}@{module.version}" / f"{place}.json"
        if kept.is_file():
            return list(json.loads(kept.read_bytes()))
        found = [_lean(item) for item in make()]
        kept.parent.mkdir(parents=True, exist_ok=True)
        unfinished = kept.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(found))
        unfinished.replace(kept)
        return found
