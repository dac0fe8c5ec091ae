"""How an engine would fit a pool: in every way, and in none where the devices do not match."""

from modelplane.placement.cluster_info import make_cluster_info
from modelplane.placement.offers import engine_fits, first_fit
from modelplane.placement.pool_usage import EMPTY
from modelplane.testing.fleets import cluster, engine, hardware, kind, pool, request

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
