"""Attempts of staging that fail: when the next begins, and which of them counts."""

from modelplane.api.timestamps import epoch_s
from tests.compose.caches import Fleet, make_cache, make_cluster
from tests.compose.test_compose_model_cache import KEY


def test_attempts_that_fail_are_ever_further_apart_up_to_an_hour():
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.apply()
    waited = []
    for number in range(9):
        fleet.fail_jobs()
        due = epoch_s(fleet.entries()["east"]["message"].rpartition(" ")[2])
        waited.append(due - fleet.now)
        fleet.now = due - 1
        fleet.apply()
        assert fleet.keys("job") == [f"job-east-{KEY}-{number}"]
        fleet.now = due
        fleet.apply()
        assert fleet.keys("job") == [f"job-east-{KEY}-{number + 1}"]
    assert waited == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_the_last_of_the_attempts_that_are_still_there_counts():
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.retry_beside_the_first()
    fleet.fail_jobs()
    assert fleet.keys("job") == [f"job-east-{KEY}-1"]
    assert fleet.entries()["east"]["attempts"] == 2
