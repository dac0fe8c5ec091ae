"""The share of requests that canaries get."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.compose.canary_weights import canary_percent, with_canary_weights


def labels(weight=None, deployment="chat"):
    named = {} if deployment is None else {"modelplane.ai/deployment": deployment}
    return named if weight is None else {**named, "modelplane.ai/canary-weight": str(weight)}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param([(None, 1), (None, 1)], [1, 1], id="no canary"),
        pytest.param([(None, 1), (None, 1), (None, 1), (10, 1)], [6, 6, 6, 2], id="a tenth"),
        pytest.param([(None, 1), (50, 1), (50, 1)], [6, 3, 3], id="two canaries share a half"),
        pytest.param([(None, 1), (50, 1), (50, 0)], [1, 1, 0], id="one of them is not ready"),
        pytest.param([(None, 1), (0, 1)], [2, 0], id="a halted one gets nothing"),
        pytest.param([(0, 1), (0, 1)], [1, 1], id="nobody else answers"),
        pytest.param([(None, 0), (10, 1)], [0, 1], id="the others have no weight"),
        pytest.param([(None, 3), (None, 1), (50, 1)], [15, 5, 20], id="the others keep their shares"),
        pytest.param([(None, 1), ("x", 1)], [1, 1], id="no percentage"),
        pytest.param([(None, 1), (100, 1)], [0, 2], id="all of it"),
        pytest.param([], [], id="no endpoints"),
    ],
)
def test_how_requests_are_divided(given, expected):
    found = with_canary_weights([(labels(percent), weight) for percent, weight in given])
    assert [weight * Fraction(sum(expected), sum(found) or 1) for weight in found] == expected


def test_a_canary_takes_nothing_from_another_deployment_or_a_provider():
    given = [(labels(), 1), (labels(10), 1), (labels(deployment="other"), 2), (labels(deployment=None), 2)]
    assert with_canary_weights(given) == [9, 1, 10, 10]


MEMBERS = st.lists(
    st.tuples(st.sampled_from(["x", "y", None]), st.none() | st.integers(0, 100), st.integers(0, 50)), max_size=8
)


@given(MEMBERS)
def test_no_deployment_gains_or_loses(members):
    """The parts of deployments stay, and canaries get exactly their percentage where others answer too."""
    given = [(labels(percent, name), weight) for name, percent, weight in members]
    found = with_canary_weights(given)
    total, after = sum(weight for _, weight in given), sum(found)
    assert not any(share for share, (_, weight) in zip(found, given, strict=True) if not weight)
    for deployment in ("x", "y"):
        mine = [at for at, (name, _, weight) in enumerate(members) if name == deployment and weight]
        before, now = sum(given[at][1] for at in mine), sum(found[at] for at in mine)
        assert before * after == now * total
        percents = {at: canary_percent(given[at][0]) for at in mine}
        canaries = [at for at in mine if percents[at] is not None]
        if canaries and len(canaries) < len(mine):
            assert sum(found[at] for at in canaries) * 100 == min(percents[at] for at in canaries) * now
