"""How an engine would fit a pool: in every way, and in none where the devices do not match."""

import msgspec
import pytest

from modelplane.placement.cluster_info import make_cluster_info
from modelplane.placement.hardware import DeviceKind, Domain
from modelplane.placement.offers import engine_fits, first_fit
from modelplane.placement.partitions import CounterDraw, Partition
from modelplane.placement.pool_usage import EMPTY
from modelplane.testing.fleets import cluster, device, engine, hardware, kind, packed, pool, product_is, request

TWO = hardware(kind("a", 2, device_class="one"), kind("b", 2, device_class="two"))
KIND = make_cluster_info(cluster("c", pool("p", 1, TWO))).kinds[0]


def shown(found):
    return [fit.after for fit in found.fits], found.proven


def test_every_way_is_found_the_preferred_first():
    assert shown(engine_fits(engine(request(2)), KIND, EMPTY)) == ([((((2, 1),), 1),), ((((2, 2),), 1),)], True)
    assert shown(engine_fits(engine(request(2)), KIND, ((((1, 1),), 1),))) == (
        [((((1, 1),), 1), (((2, 2),), 1))],
        True,
    )


def test_an_engine_whose_devices_are_not_there_fits_in_no_way_for_sure():
    assert shown(engine_fits(engine(request(3)), KIND, EMPTY)) == ([], True)
    assert first_fit(engine(request(3)), KIND, EMPTY) is None


MIXED = hardware(kind("a", 1, product="A"), kind("b", 8, product="B"))
RACK = msgspec.structs.replace(hardware(), domain=Domain("rack", 3))
MIG = hardware(
    DeviceKind("3g", device(), 2, "mig", Partition("gpu", 1, (CounterDraw("slices", 3, 7), CounterDraw("3g", 1, 2))))
)
BOTH = engine(request(1, product_is("A"), name="a"), request(2, product_is("B"), name="b"))


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [
        pytest.param(engine(request(2)), pool("p", 2, price=10.0), (0.875, (2.5, "USD")), id="a part of a node"),
        pytest.param(engine(request(2)), pool("p", 2), (0.875, None), id="without a price"),
        pytest.param(BOTH, pool("p", 2, MIXED, price=10.0), (15 / 18, (10.0, "USD")), id="by what it takes most of"),
        pytest.param(engine(nodes=2, copies=2), pool("p", 9, RACK, price=10.0), (1 / 3, (60.0, "USD")), id="domains"),
        pytest.param(engine(request(1)), pool("p", 2, MIG), (0.75, None), id="parts of devices"),
    ],
)
def test_what_stays_free_and_what_it_costs(wanted, there, expected):
    found = first_fit(wanted, make_cluster_info(cluster("c", there)).kinds[0], EMPTY)
    assert (pytest.approx(found.free_share), found.price) == expected


def test_what_fits_in_one_way_may_fit_in_another_that_is_not_proven():
    """On the first kind of devices a packing would have to be searched for too long; on the second there is room."""
    sizes = dict.fromkeys(range(3, 12), 6) | {12: 5}
    held = tuple(sorted((((size, 1),), pods) for size, pods in sizes.items()))
    large = hardware(kind("a", 41, device_class="one"), kind("b", 12, device_class="two"))
    where = make_cluster_info(packed("c", pool("p", 11, large))).kinds[0]
    assert shown(engine_fits(engine(request(12)), where, held)) == ([(*held, (((12, 2),), 1))], False)
