"""The closed sets of outcomes: of a filter for one candidate, and of a run."""

from enum import StrEnum

import msgspec


class RefusalCode(StrEnum):
    """What the caller can do about a refusal.

    UNSCHEDULABLE   not now: try again when capacity, a quota or another replica changes
    UNRESOLVABLE    not for this request: only another request or another candidate helps
    """

    UNSCHEDULABLE = "Unschedulable"
    UNRESOLVABLE = "Unresolvable"


class RunOutcome(StrEnum):
    """How a run ended.

    PICKED              there is a choice
    NOTHING_OFFERED     there was no candidate to begin with
    ALL_UNSCHEDULABLE   none was admitted, and at least one refusal may pass
    ALL_UNRESOLVABLE    none was admitted, and no refusal will pass by itself
    """

    PICKED = "Picked"
    NOTHING_OFFERED = "NothingOffered"
    ALL_UNSCHEDULABLE = "AllUnschedulable"
    ALL_UNRESOLVABLE = "AllUnresolvable"


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why a filter does not admit a candidate. `reason` is formatted when it is read."""

    filter: str
    code: RefusalCode
    template: str
    values: tuple[object, ...] = ()

    @property
    def reason(self) -> str:
        return self.template.format(*self.values)
