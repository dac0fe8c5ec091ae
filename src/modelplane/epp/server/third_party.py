"""The picker's plugin types, those of other packages included."""

from modelplane.epp.config.builtin import builtin_registry
from modelplane.framework.entry_points import discover_types
from modelplane.framework.registry import Registry

GROUPS = ("modelplane.epp.plugins", "modelplane.picker")
"""Groups of entry points; the second is an older name of the first."""


def full_registry() -> Registry:
    """The types that come with the picker, and those of other packages."""
    return builtin_registry().extended(discover_types(*GROUPS))
