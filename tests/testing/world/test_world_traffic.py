"""Traffic: curves, draws, and what becomes of requests on a fleet of real objects."""

from pathlib import Path
from random import Random

import pytest

from modelplane.cli.manifests import read_documents
from modelplane.testing.world.engine_speed import RequestShape
from modelplane.testing.world.store import ObjectId
from modelplane.testing.world.traffic import FleetTraffic, TrafficCurve, TrafficPlan, _length, _poisson
from modelplane.testing.world.world import World

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "quickstart"
QUICKSTART = [document.value for document in read_documents([FOLDER])]
CHAT = ObjectId("ModelService", "default", "chat")


@pytest.mark.parametrize(
    ("at_s", "rate"), [(0, 2.0), (50, 6.0), (100, 10.0), (150, 5.0), (200, 0.0), (9999, 0.0), (-5, 2.0)]
)
def test_a_curve_has_straight_lines_and_a_last_value(at_s, rate):
    assert TrafficCurve(((0.0, 2.0), (100.0, 10.0), (200.0, 0.0))).at(at_s) == rate


def test_a_curve_that_begins_later_holds_its_first_value_before():
    assert TrafficCurve(((60.0, 3.0), (120.0, 5.0))).at(10.0) == 3.0


@pytest.mark.parametrize("mean", [0.5, 5.0, 200.0])
def test_draws_have_their_mean_and_spread(mean):
    random = Random(1)  # noqa: S311  reproducible
    drawn = [_poisson(random, mean) for _ in range(4000)]
    found = sum(drawn) / len(drawn)
    assert found == pytest.approx(mean, rel=0.05)
    assert sum((each - found) ** 2 for each in drawn) / len(drawn) == pytest.approx(mean, rel=0.1)
    assert _poisson(random, 0.0) == 0


def test_lengths_have_their_mean():
    random = Random(1)  # noqa: S311  reproducible
    assert sum(_length(random, 800) for _ in range(8000)) / 8000 == pytest.approx(800, rel=0.03)


def served(rate, *, shed_after_s=30.0, seconds=120.0, act=None):
    world = World(0, QUICKSTART)
    plan = TrafficPlan(CHAT, TrafficCurve(((0.0, rate),)), RequestShape(800, 200), shed_after_s)
    traffic = FleetTraffic(world, [plan], slot_s=1.0)
    world.run(seconds)
    if act is not None:
        act(world, traffic)
        world.run(30.0)
    traffic.advance()
    return traffic.services[CHAT]


def sums(found):
    return tuple(sum(getattr(each, name) for each in found.slices) for name in ("requests", "shed", "failed"))


def test_what_is_below_capacity_is_served_at_once():
    found = served(20.0)
    requests, shed, failed = sums(found)
    assert requests == pytest.approx(20 * 110, rel=0.05)
    assert (shed, failed, found.waiting) == (0, 0, 0)
    assert max(each.ttft_ms for each in found.drawn) < 300
    assert sum(each.weight for each in found.drawn) == pytest.approx(requests)


def test_what_is_above_capacity_waits_and_is_shed():
    found = served(100.0, shed_after_s=5.0)
    requests, shed, failed = sums(found)
    # two replicas of about 34 requests a second each
    assert found.started == pytest.approx(67 * 110, rel=0.05)
    assert (failed, requests) == (0, found.started + shed + found.waiting)
    assert found.waiting == pytest.approx(67 * 5, rel=0.05)
    assert max(each.ttft_ms for each in found.drawn) == pytest.approx(5000, rel=0.1)


def lose_east(world, traffic):
    world.clusters["east"].dark = True
    traffic.refresh()


def test_what_is_in_flight_on_a_lost_cluster_fails_and_the_rest_goes_elsewhere():
    calm, lost = served(20.0, act=lambda *_: None), served(20.0, act=lose_east)
    assert (sums(calm)[2], calm.waiting) == (0, 0)
    # about ten requests a second, each for about a second
    assert 5 <= sums(lost)[2] <= 20
    assert sums(lost)[0] == sums(calm)[0]


def test_a_replica_that_leaves_ends_what_it_has_begun():
    def scale(world, traffic):
        key = ObjectId("ModelDeployment", "default", "qwen3-8b")
        known = world.store.objects[key]
        world.store.apply({**known, "spec": {**known["spec"], "replicas": 1}}, "operator")
        traffic.refresh()

    found = served(10.0, act=scale)
    assert (sums(found)[1:], len(found.in_flight)) == ((0, 0), 1)


def test_clients_are_the_same_whatever_happens_and_a_factor_scales_them():
    def twice(_, traffic):
        traffic.times(CHAT, 2.0)

    calm, doubled = served(20.0, act=lambda *_: None), served(20.0, act=twice)
    before = [each.requests for each in calm.slices if each.at_s <= 120.0]
    assert before == [each.requests for each in doubled.slices if each.at_s <= 120.0]
    assert sums(doubled)[0] - sum(before) == pytest.approx(2 * (sums(calm)[0] - sum(before)), rel=0.1)
