"""Chance that does not depend on the order of endpoints."""

from itertools import permutations

from modelplane.epp.scheduling.sampling import NameOrder, shuffled
from modelplane.testing.picking import chances, context_of, endpoint


def test_each_order_has_its_draws():
    draws = [(first, second) for first in (0.0, 0.4, 0.7) for second in (0.0, 0.5)]
    found = [tuple(shuffled(context_of((), chance=chances(*drawn)), range(3))) for drawn in draws]
    assert sorted(found) == sorted(permutations(range(3)))


def test_a_draw_just_below_1_is_the_last_one():
    pool = [endpoint(f"{at:03}") for at in range(100)]
    drawn = chances(1.0 - 2.0**-53)
    found = [NameOrder().pick_one(context_of(pool, chance=drawn), pool, range(most)) for most in range(1, 101)]
    assert found == list(range(100))


def test_a_list_of_endpoints_may_change_between_two_picks():
    order, pool = NameOrder(), [endpoint(name) for name in "ba"]
    before = list(order.sort(pool, range(2)))
    pool.reverse()
    assert (before, list(order.sort(pool, range(2)))) == ([1, 0], [0, 1])


def test_names_of_another_pool_are_read_again():
    order, pools = NameOrder(), [tuple(endpoint(name) for name in names) for names in ("cab", "abc", "bca")]
    assert [list(order.sort(pool, range(3))) for pool in (*pools, *pools)] == 2 * [[1, 2, 0], [0, 1, 2], [2, 0, 1]]
