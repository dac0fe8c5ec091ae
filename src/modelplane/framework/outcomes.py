"""The closed sets of answers: what a filter says of a candidate, and how a run ended."""

from enum import StrEnum

import msgspec


class Code(StrEnum):
    """What a refusal means for the caller.

    REFUSED    not while things are as they are: ask again when room, a quota or a neighbour changes
    EXCLUDED   not for this request at all: only another request or another candidate helps
    """

    REFUSED = "Refused"
    EXCLUDED = "Excluded"


class RunOutcome(StrEnum):
    """How a run ended.

    PICKED            there is a choice
    NOTHING_OFFERED   there was no candidate to begin with
    ALL_REFUSED       none was admitted, and at least one refusal may pass
    ALL_EXCLUDED      none was admitted, and no refusal will pass by itself
    """

    PICKED = "Picked"
    NOTHING_OFFERED = "NothingOffered"
    ALL_REFUSED = "AllRefused"
    ALL_EXCLUDED = "AllExcluded"


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why a filter does not admit a candidate. The sentence is made when somebody reads it, not when it is decided."""

    filter: str
    code: Code
    template: str
    values: tuple[object, ...] = ()

    @property
    def reason(self) -> str:
        return self.template.format(*self.values)
