"""The quantity a running CEL expression holds a pointer to, with upstream's effects on the receiver.

Comparing a fast cell with a big one turns the cell on the left big. `add` and `subtract` on a big cell change that
cell, and the result shares its number from then on (fixed upstream after 1.36). `equals` changes nothing.

Only `as_integer` can tell a fast cell from a big one, so an expression that asks for no integer and does no
arithmetic may compare `Quantity` values directly with `quantity.compare` and needs no cell at all. That is the
common case, and one integer comparison.

A cell lives for one evaluation. Upstream's change to a big device capacity outlives it there; here a device is
immutable.
"""

from modelplane.k8s.quantity import NumberFormat, Quantity, add, compare, promoted, subtract


class _SharedNumber:
    """A big number that several cells point to; arithmetic on one of them changes it for all."""

    __slots__ = ("quantity",)

    def __init__(self, quantity: Quantity) -> None:
        self.quantity = quantity


class QuantityCell:
    """One object of the expression; the same variable or map entry must stay the same cell throughout an evaluation.

    `derived` marks the result of `add` and `sub`, which upstream refuses on the right of `==`.
    """

    __slots__ = ("_fast", "_shared", "derived")

    def __init__(self, quantity: Quantity, *, derived: bool = False, shared: _SharedNumber | None = None) -> None:
        self._fast = quantity
        self._shared = shared or (_SharedNumber(quantity) if quantity.form is NumberFormat.BIG else None)
        self.derived = derived

    @property
    def quantity(self) -> Quantity:
        """The number the cell holds at this moment."""
        return self._fast if self._shared is None else self._shared.quantity

    @property
    def is_big(self) -> bool:
        """Whether the cell left the fast form, at birth or by meeting a big number."""
        return self._shared is not None

    def compare(self, other: "QuantityCell") -> int:
        """-1, 0 or 1. Meeting a big number makes this cell big."""
        outcome = compare(self.quantity, other.quantity)
        if self._shared is None and other.is_big:
            self._shared = _SharedNumber(promoted(self._fast))
        return outcome

    def equals(self, other: "QuantityCell") -> bool:
        """Numeric equality, without any effect on either side."""
        return compare(self.quantity, other.quantity) == 0

    def add(self, other: "QuantityCell") -> "QuantityCell":
        """The sum; a big receiver becomes the sum too."""
        return self._replaced(add(self.quantity, other.quantity))

    def subtract(self, other: "QuantityCell") -> "QuantityCell":
        """The difference; a big receiver becomes the difference too."""
        return self._replaced(subtract(self.quantity, other.quantity))

    def _replaced(self, result: Quantity) -> "QuantityCell":
        if self._shared is None:
            return QuantityCell(result, derived=True)
        self._shared.quantity = result
        return QuantityCell(result, derived=True, shared=self._shared)
