"""The share of requests that canaries get, where a ModelService divides requests among endpoints.

The canaries of a deployment share the percentage in their label, and its other endpoints share the rest as they did.
Where all of its endpoints are canaries, nothing changes: somebody has to answer.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm

from modelplane.api.labels import CANARY_WEIGHT, DEPLOYMENT

Labels = Mapping[str, str]
_ALL = 100


def with_canary_weights(endpoints: Sequence[tuple[Labels, int]]) -> list[int]:
    """Whole weights for labels and weights, in their order. Deployments keep their shares of each other.

    An endpoint without a weight gets none.
    """
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for at, (labels, weight) in enumerate(endpoints):
        if weight and DEPLOYMENT in labels:
            groups[labels[DEPLOYMENT]].append(at)
    shares = [Fraction(weight) for _, weight in endpoints]
    for members in groups.values():
        _divide(endpoints, members, shares)
    scale = lcm(*(share.denominator for share in shares))
    return [int(share * scale) for share in shares]


def _divide(endpoints: Sequence[tuple[Labels, int]], members: Sequence[int], shares: list[Fraction]) -> None:
    given = {at: found for at in members if (found := canary_percent(endpoints[at][0])) is not None}
    rest = sum((shares[at] for at in members if at not in given), Fraction())
    total = sum((shares[at] for at in members), Fraction())
    if not given or not rest:
        return
    canaries = total * min(given.values()) / _ALL
    for at in members:
        shares[at] = canaries / len(given) if at in given else shares[at] * (total - canaries) / rest


def canary_percent(labels: Labels) -> int | None:
    """None for an endpoint that is none of a canary's, or whose label is no percentage."""
    text = labels.get(CANARY_WEIGHT, "")
    return min(int(text), _ALL) if text.isascii() and text.isdecimal() else None
