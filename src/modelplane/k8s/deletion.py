"""What becomes of an object's dependents when it is deleted, as the API server decides it.

    Background   the object is deleted, then the garbage collector deletes its dependents
    Foreground   its dependents are deleted first; a finalizer holds it until those that block it are gone
    Orphan       its dependents lose their reference to it and stay; a finalizer holds it until they have

A policy of the request overrides everything. Without one, a finalizer that the object has decides, then the default of
its kind. That is Background, except for the two oldest controllers, which orphan their pods.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_ORPHANING: Final = frozenset({("batch", "Job"), ("", "ReplicationController")})


class Propagation(StrEnum):
    """The handling of dependents of a deleted object."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


_FINALIZERS: Final = {Propagation.FOREGROUND: [FOREGROUND], Propagation.ORPHAN: [ORPHAN], Propagation.BACKGROUND: []}


def propagation_of(group: str, kind: str, finalizers: Sequence[str], requested: Propagation | None) -> Propagation:
    if requested is not None:
        return requested
    if ORPHAN in finalizers:
        return Propagation.ORPHAN
    if FOREGROUND in finalizers:
        return Propagation.FOREGROUND
    return Propagation.ORPHAN if (group, kind) in _ORPHANING else Propagation.BACKGROUND


def deletion_finalizers(group: str, kind: str, finalizers: Sequence[str], requested: Propagation | None) -> list[str]:
    """The finalizers that a deletion leaves an object with."""
    others = [name for name in finalizers if name not in {FOREGROUND, ORPHAN}]
    return [*others, *_FINALIZERS[propagation_of(group, kind, finalizers, requested)]]
