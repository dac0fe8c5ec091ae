import pytest

from modelplane.envoy.pools import EnvoyCluster, PoolMember
from modelplane.envoy.retries import USUAL, retry_policy


def pool(*weights):
    return EnvoyCluster(
        "all", tuple(PoolMember("127.0.0.1", 1000 + number, weight) for number, weight in enumerate(weights))
    )


@pytest.mark.parametrize("pools", [[], [pool()], [pool(1)], [pool(1, 1, 1, 1)], [pool(2, 1), pool(7)]])
def test_few_members_use_the_gateways_policy(pools):
    assert retry_policy(pools) is None


# (weights, tries after the first, draws for a try)
MANY = [
    ([1] * 7, 6, 980),
    ([50] * 6 + [1], 6, 320),
    ([1000, 1], 3, 1003),
    ([1_000_000, 1], 3, 100_000),
    ([1] * 500, 99, 100_000),
]


@pytest.mark.parametrize(("weights", "retries", "draws"), MANY)
def test_there_are_tries_and_draws_enough_to_come_to_the_last_member(weights, retries, draws):
    found = retry_policy([pool(1, 1), pool(*weights)])
    assert found == {**USUAL, "num_retries": retries, "host_selection_retry_max_attempts": draws}
