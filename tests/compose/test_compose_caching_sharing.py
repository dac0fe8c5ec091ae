"""Which of several caches with one source stages it on a cluster, and which use its volume."""

import pytest

from tests.compose.caches import Fleet, make_cache, make_cluster
from tests.compose.test_compose_model_cache import KEY


def other(hour="06", entries=(), **spec):
    """Another cache with the same source, made at an hour: this one is made at 07:00."""
    made = make_cache("other", {"clusters": list(entries)}, **spec)
    made["metadata"]["creationTimestamp"] = f"2027-01-15T{hour}:00:00Z" if hour else None
    return made


def entry(phase, cluster="east", **more):
    return {"name": cluster, "phase": phase, **more}


ELSEWHERE = {"matchLabels": {"region": "other"}}
THIS, OTHER = "qwen", "other"


@pytest.mark.parametrize(
    ("found", "owner"),
    [
        pytest.param(other("06"), OTHER, id="the older one will"),
        pytest.param(other("08"), THIS, id="it is younger"),
        pytest.param(other(""), THIS, id="nobody knows its age"),
        pytest.param(other("06", clusterSelector=ELSEWHERE), THIS, id="it is for other clusters"),
        pytest.param(other("06", replication="WherePlaced"), THIS, id="it follows its replicas"),
        pytest.param(other("08", [entry("Pending")]), THIS, id="it is younger and has not begun"),
        pytest.param(other("08", [entry("Hydrating")]), OTHER, id="it has begun"),
        pytest.param(other("08", [entry("Ready", stagedKeys=[KEY])]), OTHER, id="it has it"),
        pytest.param(other("08", [entry("Failed", stagedKeys=["old"])]), OTHER, id="it has an older one"),
        pytest.param(other("08", [entry("Hydrating", sharedWith="third")]), THIS, id="it uses another's"),
        pytest.param(other("08", [entry("Hydrating", "west")]), THIS, id="it has begun elsewhere"),
        pytest.param(
            other("08", [entry("Hydrating", "west"), entry("Pending")]), THIS, id="it has begun elsewhere, not here"
        ),
        pytest.param(
            other("08", [entry("Pending", stagedKeys=[KEY])], huggingFace={"repo": "a/b"}), OTHER, id="it still has it"
        ),
        pytest.param(
            other("08", [entry("Ready", stagedKeys=["b"])], huggingFace={"repo": "a/b"}), THIS, id="of another source"
        ),
    ],
)
def test_one_of_them_stages_it(found, owner):
    fleet = Fleet(make_cache(), [make_cluster("east")], caches=[found])
    fleet.apply()
    assert fleet.entries()["east"].get("sharedWith", THIS) == owner
    assert fleet.keys("volume") == ([f"volume-east-{KEY}"] if owner == THIS else [])


@pytest.mark.parametrize("phase", ["Hydrating", "Ready"])
def test_one_that_has_begun_goes_on_though_its_claim_is_not_observed(phase):
    fleet = Fleet(make_cache(status={"clusters": [entry(phase)]}), [make_cluster("east")], caches=[other("06")])
    fleet.apply()
    assert fleet.keys("volume") == [f"volume-east-{KEY}"]


def test_of_several_that_may_the_oldest_stages_it():
    entries = [entry("Hydrating")]
    third = {**other("05", entries), "metadata": {**other("05")["metadata"], "name": "third"}}
    for others in ([other("06", entries), third], [third, other("06", entries)]):
        fleet = Fleet(make_cache(), [make_cluster("east")], caches=others)
        fleet.apply()
        assert fleet.entries()["east"]["sharedWith"] == "third"


def test_one_that_is_being_deleted_and_has_nothing_stages_nothing():
    leaving = other("06")
    leaving["metadata"]["deletionTimestamp"] = "2027-01-15T07:30:00Z"
    fleet = Fleet(make_cache(), [make_cluster("east")], caches=[leaving])
    fleet.apply()
    assert fleet.keys("volume") == [f"volume-east-{KEY}"]
