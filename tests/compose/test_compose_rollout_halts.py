"""Halted roll-outs: how long a halt holds, and what the deployment is composed with."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelDeployment, RolloutHalt, TemplateRevision
from modelplane.compose.revisions import pack
from modelplane.compose.rollout_halts import halt_of, with_halt, with_stable

AT, BEFORE, LATER = "2026-01-01T00:05:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:09:00Z"
HALT = RolloutHalt(at=AT, message="m")


def deployment(**annotations):
    named = {f"modelplane.ai/{name}": value for name, value in annotations.items()}
    status = {"rollout": {"hash": "new", "halted": {"at": AT, "message": "m"}}}
    return decode(ModelDeployment, {"metadata": {"name": "chat", "annotations": named}, "spec": {}, "status": status})


@pytest.mark.parametrize(
    ("given", "revision", "expected"),
    [
        pytest.param(deployment(), "new", HALT, id="it holds"),
        pytest.param(deployment(), "newer", None, id="for its revision"),
        pytest.param(deployment(retry=BEFORE), "new", HALT, id="resumed before"),
        pytest.param(deployment(retry=LATER), "new", None, id="resumed since"),
        pytest.param(deployment(retry=AT), "new", None, id="resumed in the same second"),
        pytest.param(deployment(retry=LATER, abort="new"), "new", HALT, id="aborted still"),
        pytest.param(deployment(retry="soon"), "new", HALT, id="no time"),
        pytest.param(decode(ModelDeployment, {"metadata": {"name": "chat"}, "spec": {}}), "new", None, id="none"),
    ],
)
def test_how_long_a_halt_holds(given, revision, expected):
    assert halt_of(given, revision) == expected


def test_the_stable_revision_is_taken_from_the_history():
    template = {"priority": "high"}
    revisions = (
        TemplateRevision(revision=1, hash_="old", template=pack(template)),
        TemplateRevision(revision=2, hash_="lost", template=""),
    )
    assert with_stable(deployment(), revisions, "old").spec.priority == "high"
    assert with_stable(deployment(), revisions, "lost") is None
    assert with_stable(deployment(), revisions, "pruned") is None


def test_the_history_says_why():
    revisions = tuple(TemplateRevision(revision=at, hash_=str(at), template="") for at in (1, 2))
    assert [each.halted for each in with_halt(revisions, HALT)] == [None, "m"]
    assert with_halt(revisions, None) is revisions
    long = RolloutHalt(at=AT, message="m" * 1000)
    assert [each.halted for each in with_halt(revisions, long)] == [None, "m" * 256]
