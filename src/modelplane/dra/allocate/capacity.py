"""How much of a device's capacity a request takes.

Every capacity of a device is consumed, asked for or not: the requested amount rounded as the policy says, else the
policy's default, else all of it. A device that may be shared is full when the sum over its users exceeds a value. On
any other device a request only filters. Names in a request are compared literally with the published ones; no domain
is filled in.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from modelplane.api.errors import InputError
from modelplane.dra.allocate.resources import Capacity, QuantityField, RequestPolicy, ValidRange
from modelplane.dra.quantity import Notation, Quantity, add, compare, fast, quantity_from_json

Amounts: TypeAlias = Mapping[str, Quantity]

_NANOS = 10**9


@dataclass(frozen=True, slots=True)
class Range:
    """Admissible amounts from `minimum`, in steps, up to `maximum`."""

    minimum: Quantity | None
    maximum: Quantity | None
    step: Quantity | None


@dataclass(frozen=True, slots=True)
class Policy:
    """What amounts of one capacity may be consumed."""

    default: Quantity | None
    valid_values: tuple[Quantity, ...] | None
    valid_range: Range | None


@dataclass(frozen=True, slots=True)
class CapacityOffer:
    """One capacity of a device."""

    name: str
    value: Quantity
    policy: Policy | None


def read_offers(capacity: Mapping[str, Capacity]) -> tuple[CapacityOffer, ...]:
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


def consumption(offers: tuple[CapacityOffer, ...], requested: Amounts) -> dict[str, Quantity]:
    """What a request takes of every capacity, policies applied."""
    return {offer.name: _consumed(offer, requested.get(offer.name)) for offer in offers}


def knows_all(offers: tuple[CapacityOffer, ...], requested: Amounts) -> bool:
    """Whether the device publishes every capacity that is asked for."""
    return not requested or requested.keys() <= {offer.name for offer in offers}


def has_room(offers: tuple[CapacityOffer, ...], requested: Amounts, *in_use: Amounts) -> bool:
    """Whether the request obeys every policy and fits beside what is in use."""
    for offer in offers:
        total = _consumed(offer, requested.get(offer.name))
        if offer.policy is not None and _violates(total, offer.policy):
            return False
        for amounts in in_use:
            taken = amounts.get(offer.name)
            if taken is not None:
                total = add(total, taken)
        if compare(total, offer.value) > 0:
            return False
    return True


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
    return -(-(quantity.nanos or 0) // _NANOS)
