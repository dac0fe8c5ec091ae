"""The parameters of `group-share-picker`."""

from typing import Annotated

import msgspec

from modelplane.framework.registry import Parameters


class SharePickerParameters(Parameters, frozen=True):
    tolerance: Annotated[float, msgspec.Meta(ge=0.0)] = 0.05
    """Sums of weighted scores that differ by less are equal."""
