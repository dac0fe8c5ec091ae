"""How one pass over one object ended. The set is closed: "waits" never shares a type with "broke"."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing more to do until something changes. The key's back-off is forgotten."""


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """All is well so far; the loop looks again after this many seconds, or sooner when something changes."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The pass failed. The loop tries again with growing back-off and tells whoever watches it."""

    error: Exception


Outcome = Done | RequeueAfter | Failed
