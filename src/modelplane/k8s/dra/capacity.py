"""How much of a device's capacity a request takes.

Every capacity of a device is consumed, requested or not: the requested amount rounded by the policy, else the policy's
default, else all of it. A device that may be shared is full when the sum over its users exceeds a value. On any other
device a request only filters. Names in a request are compared literally with the published ones; no domain is added.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from modelplane.api.errors import InputError
from modelplane.k8s.dra.resources import DeviceCapacity, QuantityField, RequestPolicy, ValidRange
from modelplane.k8s.quantity import Notation, Quantity, compare, fast, quantity_from_json, sign

Amounts: TypeAlias = Mapping[str, Quantity]
Nanos: TypeAlias = Mapping[str, int]

_NANOS = 10**9
_VAST = 10**5_000


@dataclass(frozen=True, slots=True)
class Range:
    """Admissible amounts from `minimum`, in steps, up to `maximum`."""

    minimum: Quantity | None
    maximum: Quantity | None
    step: Quantity | None


@dataclass(frozen=True, slots=True)
class Policy:
    """The valid amounts of one capacity."""

    default: Quantity | None
    valid_values: tuple[Quantity, ...] | None
    valid_range: Range | None


@dataclass(frozen=True, slots=True)
class CapacityOffer:
    """One capacity of a device."""

    name: str
    value: Quantity
    policy: Policy | None


def read_offers(capacity: Mapping[str, DeviceCapacity]) -> tuple[CapacityOffer, ...]:
    """The capacities of a device, with every quantity parsed."""
    return tuple(
        CapacityOffer(name, quantity_from_json(entry.value), _read_policy(entry.request_policy))
        for name, entry in capacity.items()
    )


def _read_policy(policy: RequestPolicy | None) -> Policy | None:
    if policy is None:
        return None
    values = policy.valid_values
    return Policy(
        _optional(policy.default),
        None if values is None else tuple(quantity_from_json(value) for value in values),
        None if policy.valid_range is None else _read_range(policy.valid_range),
    )


def _read_range(valid_range: ValidRange) -> Range:
    step = _optional(valid_range.step)
    if step is not None and whole(step) <= 0:
        raise InputError("requestPolicy.validRange.step: must be at least one")
    return Range(_optional(valid_range.min), _optional(valid_range.max), step)


def _optional(value: QuantityField | None) -> Quantity | None:
    return None if value is None else quantity_from_json(value)


@dataclass(frozen=True, slots=True, eq=False)
class ConsumedCapacity:
    """The consumption of one device by one subrequest.

    `is_known`: the device publishes every requested capacity. `is_allowed`: its policies permit the amounts. `needs`
    has, by name, the consumed and the total amount, both in billionths.
    """

    is_known: bool
    is_allowed: bool
    amounts: Amounts
    needs: tuple[tuple[str, int, int], ...]

    def fits_beside(self, *in_use: Nanos) -> bool:
        """Whether it fits into the remaining capacity."""
        return all(need + sum(amounts.get(name, 0) for amounts in in_use) <= limit for name, need, limit in self.needs)


def consumed_capacity_of(offers: tuple[CapacityOffer, ...], requested: Amounts) -> ConsumedCapacity:
    """The consumption of every capacity of a device, policies applied."""
    amounts = {offer.name: _consumed(offer, requested.get(offer.name)) for offer in offers}
    return ConsumedCapacity(
        requested.keys() <= amounts.keys(),
        not any(offer.policy is not None and _violates(amounts[offer.name], offer.policy) for offer in offers),
        amounts,
        tuple((offer.name, nanos_of(amounts[offer.name]), nanos_of(offer.value)) for offer in offers),
    )


def nanos_of(quantity: Quantity) -> int:
    """A quantity in billionths. Those too long to write out all count as the same vast number."""
    return quantity.nanos if quantity.nanos is not None else _VAST * sign(quantity)


def _consumed(offer: CapacityOffer, requested: Quantity | None) -> Quantity:
    policy = offer.policy
    if requested is None:
        return policy.default if policy is not None and policy.default is not None else offer.value
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.minimum is not None:
        return _round_up_to_step(requested, policy.valid_range, policy.valid_range.minimum)
    if policy.valid_values is not None:
        return next((value for value in policy.valid_values if compare(requested, value) <= 0), requested)
    return requested


def _round_up_to_step(requested: Quantity, valid_range: Range, minimum: Quantity) -> Quantity:
    if compare(requested, minimum) < 0:
        return minimum
    if valid_range.step is None:
        return requested
    start, step = whole(minimum), whole(valid_range.step)
    steps = -(-(whole(requested) - start) // step)
    return fast(start + steps * step, 0, Notation.BINARY_SI)


def _violates(consumed: Quantity, policy: Policy) -> bool:
    if policy.default is not None and compare(consumed, policy.default) == 0:
        return False
    if policy.valid_range is not None:
        return _leaves_range(consumed, policy.valid_range)
    if policy.valid_values:
        return not any(compare(consumed, value) == 0 for value in policy.valid_values)
    return False


def _leaves_range(consumed: Quantity, valid_range: Range) -> bool:
    if valid_range.maximum is not None and compare(consumed, valid_range.maximum) > 0:
        return True
    if valid_range.step is None or valid_range.minimum is None:
        return False
    return (whole(consumed) - whole(valid_range.minimum)) % whole(valid_range.step) != 0


def whole(quantity: Quantity) -> int:
    """The number rounded up to a whole one; steps are counted in whole units."""
    return -(-nanos_of(quantity) // _NANOS)
