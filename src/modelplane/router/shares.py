"""Keeps the shares of a tier's groups: each choice gives every group its share and takes a whole from the one chosen.

What a group is owed is its credit. Choosing the group with the most credit is smooth weighted round robin, so 70/20/10
holds over any ten requests. A choice for another reason (a cached prefix, a session) runs a group into debt; below its
limit it gets nothing until it is paid back. Credits fade with a thousand choices, so the limit is a share of them: a
group gets at most a tenth more than its share in the long run. A group that is away collects no credit, and one that
returns is not flooded.
"""

from collections.abc import Iterable, Mapping
from typing import Final

FADE: Final = 0.999
_FREE: Final = 4.0
_TOLERANCE: Final = 0.1 / (1.0 - FADE)


class ShareLedger:
    """The credits of one tier."""

    __slots__ = ("_credits",)

    def __init__(self) -> None:
        self._credits: dict[str, float] = {}

    def credit(self, group: str) -> float:
        return self._credits.get(group, 0.0)

    def is_over(self, group: str, share: float) -> bool:
        """Whether the group had more than its share allows."""
        return self._credits.get(group, 0.0) < -(_FREE + _TOLERANCE * share)

    def most_owed(self, groups: Iterable[str]) -> str:
        """The group with the most credit; among equals the first by name."""
        return max(sorted(groups), key=self.credit)

    def take(self, group: str, weights: Mapping[str, float]) -> None:
        """The group got a request, in the presence of these groups with their weights."""
        total = sum(weights.values())
        if total <= 0.0:
            return
        credits_ = self._credits
        for each, weight in weights.items():
            credits_[each] = credits_.get(each, 0.0) * FADE + weight / total
        credits_[group] = credits_.get(group, 0.0) - 1.0
