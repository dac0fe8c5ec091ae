"""Prefill, decode and encode on endpoints of their own.

The primary profile is always decode. Decode first (the default): decode runs; if it picked, deciders decide on an
encode and a prefill stage, and those profiles run with the decode endpoint as their peer. Prefill first: prefill and
encode run, then decode near the prefill endpoint. A stage without an endpoint is skipped; only decode is required.

Headers name the endpoints of the further stages to the routing sidecar of the decode pod.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from modelplane.api.errors import InputError
from modelplane.epp.scheduling.context import Profiles, SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.headers import ENCODERS, PREFILLER
from modelplane.epp.scheduling.plugins import Decider
from modelplane.epp.scheduling.results import Others, decision_from, picks
from modelplane.epp.scheduling.topology import PEER
from modelplane.framework.registry import Handle, Parameters, linked_type


class StageOrder(StrEnum):
    DECODE_FIRST = "decode-first"
    PREFILL_FIRST = "prefill-first"


class ProfileNames(Parameters, frozen=True):
    decode: str = ""
    prefill: str = ""
    encode: str = ""


class DeciderNames(Parameters, frozen=True):
    prefill: str = ""
    encode: str = ""


class DisaggregatedParameters(Parameters, frozen=True):
    stage_order: StageOrder = StageOrder.DECODE_FIRST
    profiles: ProfileNames = ProfileNames()
    deciders: DeciderNames = DeciderNames()
    decode_profile: str = ""
    prefill_profile: str = ""
    encode_profile: str = ""
    prefill_decider_plugin_name: str = ""
    encode_decider_plugin_name: str = ""
    decider_plugin_name: str = ""

    @property
    def stages(self) -> ProfileNames:
        """Names of profiles, from the nested fields, the flat ones that they replaced, or by default."""
        return ProfileNames(
            decode=self.profiles.decode or self.decode_profile or "decode",
            prefill=self.profiles.prefill or self.prefill_profile or "prefill",
            encode=self.profiles.encode or self.encode_profile or "encode",
        )

    @property
    def deciding(self) -> DeciderNames:
        return DeciderNames(
            prefill=self.deciders.prefill or self.prefill_decider_plugin_name or self.decider_plugin_name,
            encode=self.deciders.encode or self.encode_decider_plugin_name,
        )


class Stages(msgspec.Struct, frozen=True):
    """The profiles and their deciders. Without a decider the stage never runs, except prefill if it is first."""

    order: StageOrder
    names: ProfileNames
    prefill: Decider | None
    encode: Decider | None


class DisaggregatedHandler:
    __slots__ = ("_stages", "name")

    def __init__(self, name: str, stages: Stages) -> None:
        self.name = name
        self._stages = stages

    def validate_profiles(self, profiles: Sequence[str], /) -> Sequence[str]:
        stages, names = self._stages, self._stages.names
        found = [] if names.decode in profiles else [f"needs a profile {names.decode}"]
        first = stages.order is StageOrder.PREFILL_FIRST
        if names.prefill in profiles and stages.prefill is None and not first:
            found.append(f"never runs profile {names.prefill}: deciders.prefill is not set")
        if names.encode in profiles and stages.encode is None:
            found.append(f"never runs profile {names.encode}: deciders.encode is not set")
        known = {names.decode, names.prefill, names.encode}
        found.extend(f"never runs profile {profile}" for profile in profiles if profile not in known)
        return found

    def pick_profiles(self, context: SchedulingContext, profiles: Profiles, /) -> Sequence[str]:
        if self._stages.order is StageOrder.PREFILL_FIRST:
            return self._prefill_first(context, profiles)
        return self._decode_first(context, profiles)

    def process_results(self, context: SchedulingContext, /) -> Decision:
        names = self._stages.names
        result = context.results[names.decode]
        others: Others = ()
        headers: list[tuple[str, str]] = []
        for profile, header in ((names.prefill, PREFILLER), (names.encode, ENCODERS)):
            picked = picks(context.results[profile]) if profile in context.results else ()
            # An endpoint that does both stages needs no header.
            if not picked or not result.ranked or picked[0] is result.ranked[0].candidate:
                continue
            others = (*others, (profile, picked))
            named = picked if header is ENCODERS else picked[:1]
            headers.append((header, ",".join(endpoint.address for endpoint in named)))
        return decision_from(names.decode, result, others, tuple(headers))

    def _decode_first(self, context: SchedulingContext, profiles: Profiles) -> Sequence[str]:
        names = self._stages.names
        decoded = context.results.get(names.decode)
        if decoded is None:
            return (names.decode,)
        if not decoded.ranked or names.prefill in context.results or names.encode in context.results:
            return ()
        primary = decoded.ranked[0].candidate
        context.put(PEER, primary)
        wanted = [(names.encode, self._stages.encode), (names.prefill, self._stages.prefill)]
        return [
            name for name, decider in wanted if name in profiles and decider and decider.disaggregate(context, primary)
        ]

    def _prefill_first(self, context: SchedulingContext, profiles: Profiles) -> Sequence[str]:
        names = self._stages.names
        if names.decode in context.results:
            return ()
        if not context.results:
            encodes = (
                names.encode in profiles and self._stages.encode and self._stages.encode.disaggregate(context, None)
            )
            before = [name for name in (names.prefill,) if name in profiles] + ([names.encode] if encodes else [])
            if before:
                return before
        prefilled = context.results.get(names.prefill)
        if prefilled is not None and prefilled.ranked:
            context.put(PEER, prefilled.ranked[0].candidate)
        return (names.decode,)


def make(name: str, parameters: DisaggregatedParameters, handle: Handle) -> DisaggregatedHandler:
    deciding = parameters.deciding
    if parameters.stage_order is StageOrder.PREFILL_FIRST and deciding.prefill:
        raise InputError("deciders.prefill cannot be used where prefill comes first")
    prefill, encode = find_decider(deciding.prefill, handle), find_decider(deciding.encode, handle)
    return DisaggregatedHandler(name, Stages(parameters.stage_order, parameters.stages, prefill, encode))


def find_decider(name: str, handle: Handle) -> Decider | None:
    if not name:
        return None
    found = handle.plugin(name)
    if not isinstance(found, Decider):
        raise InputError(f"refers to {name} as a decider, which it is not")
    return found


TYPES = (linked_type("disagg-profile-handler", make, DisaggregatedParameters),)
