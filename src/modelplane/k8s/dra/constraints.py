"""Constraints over the devices of a claim: `matchAttribute` and `distinctAttribute`, with their state while searching.

Every device that is allocated is added to the constraint, and every one that is deallocated is removed. Its state is
upstream's, including two places where a removal does not restore what was: `distinctAttribute` keeps one value per
request, so a request for three devices can repeat the first one's value, and removing one device of a request
forgets them all; with list attributes `matchAttribute` does not widen its common set again. Which allocation comes
out first depends on both.
"""

from collections.abc import Hashable
from typing import Protocol

from modelplane.k8s.dra.attributes import DeviceAttribute, base_kind, find_attribute, same_scalar
from modelplane.k8s.dra.offers import DeviceOffer
from modelplane.k8s.dra.resources import Constraint


class ConstraintState(Protocol):
    """A constraint while a search runs."""

    def add(self, request: str, alternative: str, offer: DeviceOffer) -> bool:
        """Accept and record a device, or reject it."""

    def remove(self, request: str, alternative: str) -> None:
        """Take back the latest accepted device of that request."""

    @property
    def memory(self) -> Hashable:
        """All state that later results depend on."""


def attribute_name(constraint: Constraint) -> str | None:
    """The attribute that the constraint is about."""
    return constraint.match_attribute if constraint.match_attribute is not None else constraint.distinct_attribute


def start(constraint: Constraint, *, list_attributes: bool) -> ConstraintState:
    """A fresh memory for one search."""
    requests = frozenset(constraint.requests or ())
    if constraint.match_attribute is not None:
        return _MatchAttribute(constraint.match_attribute, requests, list_attributes=list_attributes)
    return _DistinctAttribute(constraint.distinct_attribute or "", requests, list_attributes=list_attributes)


def _applies(requests: frozenset[str], request: str, alternative: str) -> bool:
    return not requests or request in requests or (bool(alternative) and f"{request}/{alternative}" in requests)


class _MatchAttribute:
    __slots__ = ("_attribute", "_count", "_list_attributes", "_name", "_requests")

    def __init__(self, name: str, requests: frozenset[str], *, list_attributes: bool) -> None:
        self._name = name
        self._requests = requests
        self._list_attributes = list_attributes
        self._attribute: DeviceAttribute | None = None
        self._count = 0

    def add(self, request: str, alternative: str, offer: DeviceOffer) -> bool:
        if not _applies(self._requests, request, alternative):
            return True
        attribute = find_attribute(offer.attributes, offer.id.driver, self._name)
        if attribute is None:
            return False
        common = self._common(attribute)
        if common is None:
            return False
        self._attribute = common
        self._count += 1
        return True

    def _common(self, attribute: DeviceAttribute) -> DeviceAttribute | None:
        """The common values of all devices with this one added, or None if there are none."""
        first = self._count == 0 or self._attribute is None
        if not self._list_attributes:
            return attribute if first or same_scalar(attribute, self._attribute or attribute) else None
        if not attribute.kind:
            return None
        if first or self._attribute is None:
            return attribute
        members = attribute.members & self._attribute.members
        if base_kind(attribute) != base_kind(self._attribute) or not members:
            return None
        return self._attribute._replace(members=members)

    def remove(self, request: str, alternative: str) -> None:
        if _applies(self._requests, request, alternative):
            self._count -= 1

    @property
    def memory(self) -> Hashable:
        return self._attribute if self._count else None


class _DistinctAttribute:
    __slots__ = ("_count", "_list_attributes", "_name", "_requests", "_values")

    def __init__(self, name: str, requests: frozenset[str], *, list_attributes: bool) -> None:
        self._name = name
        self._requests = requests
        self._list_attributes = list_attributes
        self._values: dict[str, DeviceAttribute] = {}
        self._count = 0

    def add(self, request: str, alternative: str, offer: DeviceOffer) -> bool:
        if not _applies(self._requests, request, alternative):
            return True
        attribute = find_attribute(offer.attributes, offer.id.driver, self._name)
        if attribute is None or (self._count and not self._is_new(attribute)):
            return False
        self._values[request] = attribute
        self._count += 1
        return True

    def _is_new(self, attribute: DeviceAttribute) -> bool:
        if self._list_attributes:
            return bool(attribute.kind) and not any(_overlap(attribute, other) for other in self._values.values())
        if not self._values:
            return True
        return attribute.scalar is not None and not any(
            same_scalar(attribute, other) for other in self._values.values()
        )

    def remove(self, request: str, alternative: str) -> None:
        if _applies(self._requests, request, alternative):
            self._values.pop(request, None)
            self._count -= 1

    @property
    def memory(self) -> Hashable:
        return self._count, frozenset(self._values.items())


def _overlap(left: DeviceAttribute, right: DeviceAttribute) -> bool:
    return base_kind(left) == base_kind(right) and not left.members.isdisjoint(right.members)
