"""The finalizers that a deletion leaves, as the API server's registry decides them."""

import pytest

from modelplane.k8s.deletion import Propagation, deletion_finalizers, propagation_of

BACKGROUND, FOREGROUND, ORPHAN = Propagation
JOB, DEPLOYMENT, CONTROLLER = ("batch", "Job"), ("apps", "Deployment"), ("", "ReplicationController")
HELD, FREED, OTHER = ["foregroundDeletion"], ["orphan"], ["example.com/x"]


@pytest.mark.parametrize(
    ("kind", "finalizers", "asked", "expected"),
    [
        (DEPLOYMENT, [], None, []),
        (DEPLOYMENT, [], FOREGROUND, HELD),
        (DEPLOYMENT, [], ORPHAN, FREED),
        (DEPLOYMENT, OTHER, ORPHAN, [*OTHER, *FREED]),
        (JOB, [], None, FREED),
        (CONTROLLER, [], None, FREED),
        (JOB, HELD, None, HELD),
        (JOB, FREED, None, FREED),
        (JOB, [], BACKGROUND, []),
        (JOB, [], FOREGROUND, HELD),
        (JOB, HELD, BACKGROUND, []),
        (JOB, HELD, ORPHAN, FREED),
        (JOB, FREED, FOREGROUND, HELD),
        (JOB, [*HELD, *OTHER], BACKGROUND, OTHER),
        (DEPLOYMENT, FREED, BACKGROUND, []),
        (DEPLOYMENT, HELD, None, HELD),
    ],
)
def test_a_policy_is_before_a_finalizer_and_that_before_the_kind(kind, finalizers, asked, expected):
    assert deletion_finalizers(*kind, finalizers, asked) == expected


def test_both_finalizers_orphan():
    assert propagation_of(*DEPLOYMENT, [*HELD, *FREED], None) is ORPHAN
