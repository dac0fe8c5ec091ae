from modelplane.k8s.dra.counters import CounterLedger, remainders
from modelplane.k8s.dra.decode import decode_node, decode_slices
from modelplane.k8s.dra.inventory import Inventory
from modelplane.k8s.dra.outcome import DeviceId
from modelplane.k8s.dra.usage import DeviceUsage
from modelplane.testing.devices import DRIVER, POOL, a_device, a_node, a_pool, a_slice

KEY = ("set", "slices")


def draws(name, value, counter="slices"):
    return {**a_device(name), "consumesCounters": [{"counterSet": "set", "counters": {counter: {"value": value}}}]}


def pool():
    counters = [{"name": "set", "counters": {"slices": {"value": "7"}}}]
    slices = [
        a_slice(
            [draws("a", "3"), draws("b", "4"), draws("c", "1"), draws("half", "500m")], "s1", pool=a_pool(slices=3)
        ),
        a_slice([draws("there", "2")], "s2", nodeName="node-2", pool=a_pool(slices=3)),
        a_slice(None, "s3", sharedCounters=counters, pool=a_pool(slices=3)),
    ]
    return Inventory(decode_slices(slices)).view(decode_node(a_node())).pools[0]


def used(*names):
    return DeviceUsage(whole=frozenset(DeviceId(DRIVER, POOL, name) for name in names))


def test_devices_in_use_are_subtracted_wherever_they_are():
    assert remainders(pool(), used()) == {KEY: 7 * 10**9}
    assert remainders(pool(), used("a", "there")) == {KEY: 2 * 10**9}
    assert remainders(pool(), used("a", "b", "there")) == {KEY: -2 * 10**9}


def test_drawing_until_nothing_is_left():
    view = pool()
    a, b, c, half = view.offers
    ledger = CounterLedger(used(), {})
    assert [ledger.draw(view, offer) for offer in (a, b, c)] == [True, True, False]
    ledger.release(view, b)
    assert [ledger.draw(view, offer) for offer in (c, b, half)] == [True, False, True]


def test_an_overdrawn_pool_gives_nothing():
    view = pool()
    assert not CounterLedger(used("a", "b", "there"), {}).draw(view, view.offers[3])


def test_remainders_are_worked_out_once():
    known = {}
    view = pool()
    CounterLedger(used(), known).draw(view, view.offers[0])
    assert known == {view.key: {KEY: 7 * 10**9}}
    known[view.key] = {KEY: 0}
    assert not CounterLedger(used(), known).draw(view, view.offers[0])


def test_a_counter_that_is_used_up_stops_only_those_that_draw_on_it():
    counters = [{"name": "set", "counters": {"slices": {"value": "1"}, "engines": {"value": "1"}}}]
    slices = [
        a_slice([draws("a", "1"), draws("b", "1"), draws("c", "1", "engines")], "s1", pool=a_pool(slices=2)),
        a_slice(None, "s2", sharedCounters=counters, pool=a_pool(slices=2)),
    ]
    view = Inventory(decode_slices(slices)).view(decode_node(a_node())).pools[0]
    ledger = CounterLedger(used("a"), {})
    _, b, c = view.offers
    assert [ledger.draw(view, offer) for offer in (c, b)] == [True, False]
