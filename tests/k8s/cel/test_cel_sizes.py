from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.cel.sizes import MAX, UNKNOWN, exactly, plus, scaled, times, union, wrapped

_RANGES = st.tuples(st.integers(0, MAX), st.integers(0, MAX)).map(lambda pair: (min(pair), max(pair)))


def test_arithmetic_stops_at_unbounded():
    assert plus((1, 2), (3, MAX)) == (4, MAX)
    assert times((2, 3), UNKNOWN) == (0, MAX)
    assert scaled((1, 25), 0.1) == (1, 3)
    assert scaled(UNKNOWN, 1.0) == UNKNOWN
    assert union((2, 3), exactly(5)) == (2, 5)
    assert wrapped(-1) == MAX
    assert wrapped(2**64) == 0


@given(_RANGES, _RANGES)
def test_results_stay_ranges(left, right):
    for result in (plus(left, right), times(left, right), union(left, right), scaled(left, 0.1)):
        assert 0 <= result[0] <= result[1] <= MAX
