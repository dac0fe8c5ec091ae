"""The documented shapes of answers: what `-o json` and `-o yaml` print. Field names are stable."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class FitAnswer(StrEnum):
    """Whether what a deployment asks for fits.

    FITS_NOW             every replica has a place on nodes that are there
    FITS_AFTER_SCALE_UP  every replica has a place, some on nodes that pools would still have to add
    WAITS_FOR_CACHES     every replica has a place, and some mount a cache that nothing stages there
    WAITS_FOR_ROOM       some replicas have no place as things are; something that holds room would have to go
    FITS_NOWHERE         some replicas have no place, and no pool would take one even if it were empty
    """

    FITS_NOW = "FitsNow"
    FITS_AFTER_SCALE_UP = "FitsAfterScaleUp"
    WAITS_FOR_CACHES = "WaitsForCaches"
    WAITS_FOR_ROOM = "WaitsForRoom"
    FITS_NOWHERE = "FitsNowhere"


class Action(StrEnum):
    PLACE = "place"
    KEEP = "keep"
    MOVE = "move"
    DROP = "drop"
    EVICT = "evict"
    WAIT = "wait"


class PlanRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What would become of one replica; of several that wait for the same reason, one row with their count."""

    action: Action
    deployment: str
    cluster: str = ""
    pools: tuple[str, ...] = ()
    index: int | None = None
    replicas: int = 0
    """How many wait, in a row about those."""
    reason: str = ""
    price_per_hour: float | None = None
    currency: str = ""
    ready_in_s: float | None = None
    """An estimate; see the documentation for what it is made of."""


class DeploymentPlan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    deployment: str
    replicas: int
    answer: FitAnswer
    rows: tuple[PlanRow, ...]


class FleetPlan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    deployments: tuple[DeploymentPlan, ...]
    price_per_hour: dict[str, float]
    """Of all replicas that would be, by currency."""

    @property
    def answer(self) -> FitAnswer:
        """The worst of all."""
        order = list(FitAnswer)
        return max((one.answer for one in self.deployments), key=order.index, default=FitAnswer.FITS_NOW)


class ScoreRow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    value: float


class CandidateShown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    cluster: str
    verdict: str
    pool: str = ""
    engine: str = ""
    filter: str = ""
    reason: str = ""
    may_pass: bool = False
    score: float | None = None
    scores: tuple[ScoreRow, ...] = ()
    tier: int | None = None
    """The tier of the cluster, from 1. Earlier tiers come first, whatever the score."""
    replicas: int | None = None
    """Replicas of the deployment on the cluster. Where they spread evenly, fewer come first, whatever the score."""


class PlacementExplanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    deployment: str
    replicas: int
    pending: int
    answer: FitAnswer
    summary: str
    state: str
    """Why replicas do not serve, in the words of the deployment's status; empty where they do or nothing is known."""
    rows: tuple[PlanRow, ...]
    candidates: tuple[CandidateShown, ...]


class RecordedDecision(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A decision as a snapshot records it. The digest covers placements, drops, evictions and the whole trace."""

    deployment: str
    digest: str
    placements: tuple[str, ...] = ()
    pending: int = 0
    refused: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Clusters that cannot run the deployment, each with why."""


class ReplayedDecision(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    deployment: str
    same: bool
    recorded: RecordedDecision
    decided: RecordedDecision


class SoftwareRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How far the software of a cluster is."""

    cluster: str
    phase: str
    release: str
    wave: int | None = None
    """None: a change reaches it at once."""
    why: str = ""


class ClusterExplanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    cluster: str
    summary: str
    requirements: str = ""
    scheduler: str = ""
    """What Auto stands for."""
    rows: tuple[SoftwareRow, ...] = ()
