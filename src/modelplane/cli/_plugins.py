"""Plugins of placement: those that come with it, those of other packages, and the profile made of them."""

from pathlib import Path

from modelplane.api.errors import InputError
from modelplane.cli.manifests import read_documents
from modelplane.framework.entry_points import discover_types
from modelplane.framework.registry import Registry
from modelplane.placement.plugins import PlacementProfile
from modelplane.placement.profile import DEFAULT_PROFILE, builtin_types, read_profile

GROUPS = ("modelplane.placement.plugins", "modelplane.placement")
"""Groups of entry points; the second is an older name of the first."""


def full_registry() -> Registry:
    """The types that come with placement, and those of other packages."""
    return builtin_types().extended(discover_types(*GROUPS))


def profile_of(path: Path | None) -> PlacementProfile:
    """The profile of a file, or the default one."""
    return DEFAULT_PROFILE if path is None else read_profile(read_profile_document(path), full_registry())


def read_profile_document(path: Path) -> dict[str, object]:
    documents = read_documents([path])
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise InputError(f"{path}: expected one PlacementProfile")
    return documents[0].value
