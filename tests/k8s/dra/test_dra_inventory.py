"""Which devices a node sees, and in what order."""

import pytest

from modelplane.api.errors import InputError
from modelplane.k8s.dra.decode import decode_node, decode_slices
from modelplane.k8s.dra.features import Features
from modelplane.k8s.dra.inventory import Inventory
from modelplane.k8s.dra.nodes import UnreadableSelector
from modelplane.k8s.dra.outcome import PoolNote
from modelplane.testing.devices import DRIVER, a_device, a_node, a_pool, a_slice

COUNTERS = [{"name": "set", "counters": {"slices": {"value": "7"}}}]


def seen(*slices, node=None, **gates):
    inventory = Inventory(decode_slices(slices), Features(**gates))
    return inventory.view(decode_node(node or a_node(zone="a")))


def names(view):
    return [candidate.offer.id.device for candidate in view.candidates]


def devices(*wanted):
    return [a_device(name) for name in wanted]


def zone(*values):
    requirement = {"key": "zone", "operator": "In", "values": list(values)}
    return {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}


def draws(device, name="set", counter="slices", value="1"):
    return {**device, "consumesCounters": [{"counterSet": name, "counters": {counter: {"value": value}}}]}


def test_slices_of_other_nodes_are_not_seen():
    assert names(seen(a_slice(devices("a")), a_slice(devices("b"), nodeName="node-2", pool=a_pool("p2")))) == ["a"]


def test_slices_for_several_nodes():
    view = seen(
        a_slice(devices("all"), "s1", nodeName=None, allNodes=True, pool=a_pool("p1")),
        a_slice(devices("zone"), "s2", nodeName=None, nodeSelector=zone("a", "b"), pool=a_pool("p2")),
        a_slice(devices("other"), "s3", nodeName=None, nodeSelector=zone("c"), pool=a_pool("p3")),
        a_slice(devices("nowhere"), "s4", nodeName=None, pool=a_pool("p4")),
    )
    assert names(view) == ["all", "zone"]


def test_pools_by_driver_then_name_slices_by_name_devices_as_listed():
    view = seen(
        a_slice(devices("z1", "z0"), "slice-b", pool=a_pool("b", slices=2)),
        a_slice(devices("y"), "slice-a", pool=a_pool("b", slices=2)),
        a_slice(devices("x"), "slice-c", pool=a_pool("a")),
        a_slice(devices("first"), "slice-d", driver="a.example.com", pool=a_pool("z")),
    )
    assert names(view) == ["first", "x", "y", "z1", "z0"]


def test_pools_with_binding_conditions_come_last():
    late = {**a_device("late"), "bindingConditions": ["ready"]}
    mixed = a_slice([late, *devices("with-it")], "s1", pool=a_pool("a"))
    assert names(seen(mixed, a_slice(devices("early"), "s2", pool=a_pool("b")))) == ["early", "late", "with-it"]


def test_only_the_newest_generation_counts():
    old = a_slice(devices("old"), "s1", pool=a_pool(generation=1))
    new = a_slice(devices("new"), "s2", pool=a_pool(generation=2))
    assert names(seen(old, new)) == names(seen(new, old)) == ["new"]


def test_a_newer_generation_elsewhere_replaces_an_incomplete_pool():
    old = a_slice(devices("old"), "s1", pool=a_pool(generation=1, slices=2))
    new = a_slice(devices("new"), "s2", nodeName="node-2", pool=a_pool(generation=2))
    view = seen(old, new)
    assert (names(view), view.pools) == ([], ())


def test_a_complete_pool_is_used_although_there_is_a_newer_generation_elsewhere():
    old = a_slice(devices("old"), "s1", pool=a_pool(generation=1))
    new = a_slice(devices("new"), "s2", nodeName="node-2", pool=a_pool(generation=2))
    assert names(seen(old, new)) == ["old"]


def test_an_incomplete_pool_offers_nothing():
    view = seen(a_slice(devices("a"), pool=a_pool(slices=2)))
    assert names(view) == []
    assert view.incomplete_pools == (PoolNote(DRIVER, "pool-1", "1 of 2 slices are there"),)


def test_slices_of_an_older_generation_complete_no_pool():
    old = a_slice(devices("old"), "s1", pool=a_pool(generation=1))
    view = seen(old, a_slice(devices("new"), "s2", pool=a_pool(generation=2, slices=2)))
    assert (names(view), view.incomplete_pools) == ([], (PoolNote(DRIVER, "pool-1", "1 of 2 slices are there"),))


def test_a_slice_with_counters_offers_no_devices():
    assert names(seen(a_slice(devices("a"), sharedCounters=COUNTERS))) == []


def test_slices_on_other_nodes_complete_a_pool():
    view = seen(
        a_slice(devices("here"), "s1", pool=a_pool(slices=2)),
        a_slice(devices("there"), "s2", nodeName="node-2", pool=a_pool(slices=2)),
    )
    assert names(view) == ["here"]
    assert [offer.id.device for offer in view.pools[0].elsewhere] == ["there"]


@pytest.mark.parametrize(
    ("slices", "reason"),
    [
        ([a_slice(devices("a", "a"))], "duplicate device name a"),
        (
            [
                a_slice(devices("a"), "s1", pool=a_pool(slices=2)),
                a_slice(devices("a"), "s2", pool=a_pool(slices=2)),
            ],
            "duplicate device name a",
        ),
        ([a_slice([draws(a_device("a"))])], "device a draws on counter set set, which does not exist"),
        (
            [
                a_slice([draws(a_device("a"), counter="nope")], "s1", pool=a_pool(slices=2)),
                a_slice(None, "s2", sharedCounters=COUNTERS, pool=a_pool(slices=2)),
            ],
            "device a draws on counter nope of set set, which does not exist",
        ),
        (
            [
                a_slice(None, "s1", sharedCounters=COUNTERS, pool=a_pool(slices=2)),
                a_slice(None, "s2", sharedCounters=COUNTERS, pool=a_pool(slices=2)),
            ],
            "duplicate counter set name set",
        ),
        (
            [
                a_slice(devices("a"), "s1", pool=a_pool(slices=3)),
                a_slice([draws(a_device("b"), name="x")], "s2", nodeName="node-2", pool=a_pool(slices=3)),
                a_slice(None, "s3", sharedCounters=COUNTERS, pool=a_pool(slices=3)),
            ],
            "device b draws on counter set x, which does not exist",
        ),
    ],
)
def test_an_invalid_pool_offers_nothing_and_has_a_reason(slices, reason):
    view = seen(*slices)
    assert names(view) == []
    assert view.invalid_pools == (PoolNote(DRIVER, "pool-1", reason),)


def test_counter_slices_belong_to_every_view():
    view = seen(
        a_slice([draws(a_device("a"))], "s1", pool=a_pool(slices=2)),
        a_slice(None, "s2", nodeName="node-2", sharedCounters=COUNTERS, pool=a_pool(slices=2)),
    )
    assert names(view) == ["a"]
    assert view.pools[0].counters == {("set", "slices"): 7 * 10**9}


def test_an_incomplete_pool_of_another_node_shows_through_its_counters():
    view = seen(
        a_slice(devices("a"), "s1"),
        a_slice(None, "s2", nodeName="node-2", sharedCounters=COUNTERS, pool=a_pool("other", slices=2)),
    )
    assert names(view) == ["a"]
    assert [note.pool for note in view.incomplete_pools] == ["other"]


def test_devices_that_choose_their_own_nodes():
    view = seen(
        a_slice(
            [
                {**a_device("mine"), "nodeName": "node-1"},
                {**a_device("theirs"), "nodeName": "node-2"},
                {**a_device("all"), "allNodes": True},
            ],
            nodeName=None,
            perDeviceNodeSelection=True,
        )
    )
    assert names(view) == ["mine", "theirs", "all"]
    assert [candidate.offer.effective_scope.node_name for candidate in view.candidates] == ["node-1", "node-2", None]


def test_a_slice_of_which_no_device_is_for_the_node():
    slices = a_slice([{**a_device("x"), "nodeName": "node-2"}], nodeName=None, perDeviceNodeSelection=True)
    assert seen(slices).pools == ()


def test_partitionable_slices_are_not_seen_while_the_gate_is_off():
    view = seen(
        a_slice([{**a_device("x"), "allNodes": True}], "s1", nodeName=None, perDeviceNodeSelection=True),
        a_slice(None, "s2", sharedCounters=COUNTERS, pool=a_pool("p2")),
        a_slice([draws(a_device("y"))], "s3", pool=a_pool("p3")),
        partitionable_devices=False,
    )
    assert names(view) == ["y"]


def test_the_oldest_allocator_takes_slices_as_they_come():
    slices = [a_slice(devices("b"), "s2", pool=a_pool(slices=2)), a_slice(devices("a"), "s1", pool=a_pool(slices=2))]
    assert names(seen(*slices)) == ["a", "b"]
    assert names(seen(*slices, consumable_capacity=False, device_binding_and_status=False)) == ["b", "a"]


def test_like_devices_share_a_shape():
    view = seen(
        a_slice([a_device("a", memory="80Gi", model="x"), a_device("b", memory="80Gi", model="x"), a_device("c")])
    )
    shapes = [candidate.offer.shape for candidate in view.candidates]
    assert shapes[0] is shapes[1]
    assert shapes[0] is not shapes[2]


def test_the_view_of_a_node_with_only_its_own_slices_is_built_once():
    inventory = Inventory(decode_slices([a_slice(devices("a"))]))
    node = decode_node(a_node())
    assert inventory.view(node) is inventory.view(node)
    assert inventory.view(decode_node(a_node("node-9"))).candidates == ()


def test_an_unreadable_selector_is_reported_for_a_node():
    broken = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "n", "operator": "Gt", "values": ["x"]}]}]}
    with pytest.raises(UnreadableSelector):
        seen(a_slice(devices("a"), nodeName=None, nodeSelector=broken))


@pytest.mark.parametrize(
    ("device", "sentence"),
    [
        (a_device("a", memory="4GB"), 'slice slice-1, device a: "4GB" is not a quantity'),
        (draws(a_device("a"), value="1e2000000000"), "slice slice-1, device a: a counter's value is too large"),
        (
            {**a_device("a"), "attributes": {"x": {"int": "1"}}},
            "slice slice-1, device a: attributes[x].int: '1' is not",
        ),
    ],
)
def test_what_cannot_be_read_names_the_device(device, sentence):
    with pytest.raises(InputError) as error:
        Inventory(decode_slices([a_slice([device])]))
    assert str(error.value).startswith(sentence)
