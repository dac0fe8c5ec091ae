"""Halted roll-outs: the deployment is composed with the revision that was promoted last, until somebody decides.

A halt belongs to one revision, so a change of the pods ends it, and undoing the revision is such a change. To resume it
is to begin again with the first step.
"""

import msgspec

from modelplane.api.labels import ABORT, RETRY
from modelplane.api.models import ModelDeployment, RolloutHalt, TemplateRevision
from modelplane.api.timestamps import epoch_s
from modelplane.compose.revisions import with_revision

_MAX_HISTORY = 256


def halt_of(deployment: ModelDeployment, revision: str) -> RolloutHalt | None:
    """The halt of a revision that nobody resumed since."""
    known = deployment.status.rollout
    if known is None or known.halted is None or known.hash_ != revision:
        return None
    if deployment.metadata.annotations.get(ABORT) == revision:
        return known.halted
    resumed, halted = epoch_s(deployment.metadata.annotations.get(RETRY)), epoch_s(known.halted.at)
    return None if resumed is not None and halted is not None and resumed >= halted else known.halted


def with_stable(
    deployment: ModelDeployment, revisions: tuple[TemplateRevision, ...], stable: str
) -> ModelDeployment | None:
    """The deployment as it was promoted last; None where that was not recorded."""
    found = next((each for each in revisions if each.hash_ == stable), None)
    return None if found is None else with_revision(deployment, found)


def with_halt(revisions: tuple[TemplateRevision, ...], halt: RolloutHalt | None) -> tuple[TemplateRevision, ...]:
    """The history, in which the newest revision says why it was halted."""
    if halt is None:
        return revisions
    message = (halt.message or "")[:_MAX_HISTORY]
    return (*revisions[:-1], msgspec.structs.replace(revisions[-1], halted=message))
