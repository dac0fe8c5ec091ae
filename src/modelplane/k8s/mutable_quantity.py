"""The quantity that a running CEL expression holds a pointer to, with upstream's effects on the receiver.

Comparing a quantity in the int64 form with one in the decimal form converts the receiver to the decimal form. `add`
and `subtract` on a decimal receiver change it, and the result shares its number from then on (fixed upstream after
1.36). `equals` changes nothing.

Only `as_integer` distinguishes the forms, so an expression without integer conversion and arithmetic may compare
`Quantity` values directly with `quantity.compare` and needs no MutableQuantity. That is the common case, and one
integer comparison.

A MutableQuantity lives for one evaluation. Upstream's change to a device capacity outlives it there; here a device is
immutable.
"""

from modelplane.k8s.quantity import NumberFormat, Quantity, add, compare, promoted, subtract


class _SharedNumber:
    """A decimal number that several quantities point to; arithmetic on one of them changes it for all."""

    __slots__ = ("quantity",)

    def __init__(self, quantity: Quantity) -> None:
        self.quantity = quantity


class MutableQuantity:
    """One object of the expression; the same variable or map entry must stay the same object throughout an evaluation.

    `derived` marks the result of `add` and `sub`, which upstream refuses on the right of `==`.
    """

    __slots__ = ("_int64", "_shared", "derived")

    def __init__(self, quantity: Quantity, *, derived: bool = False, shared: _SharedNumber | None = None) -> None:
        self._int64 = quantity
        self._shared = shared or (_SharedNumber(quantity) if quantity.form is NumberFormat.BIG else None)
        self.derived = derived

    @property
    def quantity(self) -> Quantity:
        """The current number."""
        return self._int64 if self._shared is None else self._shared.quantity

    @property
    def is_decimal(self) -> bool:
        """Whether the number is in the decimal form."""
        return self._shared is not None

    def compare(self, other: "MutableQuantity") -> int:
        """-1, 0 or 1. Comparison with a decimal number converts this one."""
        outcome = compare(self.quantity, other.quantity)
        if self._shared is None and other.is_decimal:
            self._shared = _SharedNumber(promoted(self._int64))
        return outcome

    def equals(self, other: "MutableQuantity") -> bool:
        """Numeric equality, without any effect on either side."""
        return compare(self.quantity, other.quantity) == 0

    def add(self, other: "MutableQuantity") -> "MutableQuantity":
        """The sum; a decimal receiver becomes the sum too."""
        return self._replaced(add(self.quantity, other.quantity))

    def subtract(self, other: "MutableQuantity") -> "MutableQuantity":
        """The difference; a decimal receiver becomes the difference too."""
        return self._replaced(subtract(self.quantity, other.quantity))

    def _replaced(self, result: Quantity) -> "MutableQuantity":
        if self._shared is None:
            return MutableQuantity(result, derived=True)
        self._shared.quantity = result
        return MutableQuantity(result, derived=True, shared=self._shared)
