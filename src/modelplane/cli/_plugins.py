"""Plugins of placement: those that come with it, those that other packages bring, and the profile made of them.

A package offers plugins under the entry point group `modelplane.placement`: a function that is given the registry and
registers its types there.
"""

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from modelplane.api.errors import InputError
from modelplane.cli.manifests import read_documents
from modelplane.framework import ProfileError
from modelplane.placement.plugins import PlacementProfile
from modelplane.placement.profile import DEFAULT_PROFILE, PlacementRegistry, own_types, read_profile

GROUP = "modelplane.placement"


def known_types() -> PlacementRegistry:
    registry = own_types()
    for entry in sorted(entry_points(group=GROUP), key=lambda found: found.name):
        _register(entry, registry)
    return registry


def _register(entry: EntryPoint, registry: PlacementRegistry) -> None:
    try:
        entry.load()(registry)
    except ProfileError:
        raise
    except Exception as error:
        raise ProfileError(f"plugins {entry.name} ({entry.value}): {type(error).__name__}: {error}") from error


def profile_of(path: Path | None) -> PlacementProfile:
    """The profile of a file, or the usual one."""
    return DEFAULT_PROFILE if path is None else read_profile(read_profile_document(path), known_types())


def read_profile_document(path: Path) -> dict[str, object]:
    documents = read_documents([path])
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise InputError(f"{path}: expected one PlacementProfile")
    return documents[0].value
