"""Ceilings of bands, compared whole."""

import msgspec
import pytest

from modelplane.epp.flowcontrol.usage import Holdback, HoldbackParameters, SoftReflective, Static, StaticParameters
from modelplane.epp.scheduling.units import convert


def test_static():
    assert Static("s").ceilings([3, 2, 1], 0.9) == [1.0, 1.0, 1.0]
    assert Static("s", StaticParameters(threshold=0.7)).ceilings([0], 0.9) == [0.7]


@pytest.mark.parametrize(
    ("parameters", "priorities", "expected"),
    [
        ({"minCeiling": 0.5}, [2, 1, 0], [1.0, 0.75, 0.5]),
        ({"minCeiling": 0.5}, [3, 2, 1, 0], [1.0, 0.8333, 0.6667, 0.5]),
        ({"minCeiling": 0.5}, [3], [1.0]),
        ({"minCeiling": 0.2, "maxCeiling": 0.8}, [1, 0], [0.8, 0.2]),
        ({"minCeiling": 0.5, "domain": "value"}, [10, 9, 0], [1.0, 0.95, 0.5]),
        ({"minCeiling": 0.5, "domain": "value", "shape": "linear"}, [], []),
    ],
)
def test_holdback(parameters, priorities, expected):
    found = Holdback("h", convert(parameters, HoldbackParameters)).ceilings(priorities, 0.3)
    assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    "parameters", [{}, {"minCeiling": -0.1}, {"minCeiling": 1.1}, {"minCeiling": 0.9, "maxCeiling": 0.8}]
)
def test_holdback_refuses(parameters):
    with pytest.raises(msgspec.ValidationError):
        convert(parameters, HoldbackParameters)


@pytest.mark.parametrize(
    ("saturation", "expected"),
    [
        (0.7, [False, True, False, True]),
        (0.75, [False, False, True, False, False, True]),
        (0.3, [True, True, True]),
        (0.5, [True, True]),
        (1.0, [False, False, False]),
        (1.5, [False, False]),
    ],
)
def test_soft_reflective_lets_the_low_band_through_now_and_then(saturation, expected):
    policy = SoftReflective("s")
    assert [saturation < policy.ceilings([1, 0], saturation)[1] for _ in expected] == expected


def test_soft_reflective_whole():
    policy = SoftReflective("s")
    assert policy.ceilings([2, 1, 0], 0.4) == pytest.approx([1.0, 0.8, 0.6])
    assert policy.ceilings([0], 0.9) == [1.0]
