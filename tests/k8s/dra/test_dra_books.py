"""What the search may take for equal: devices, and situations."""

from modelplane.k8s.dra import (
    DeviceUsage,
    Features,
    Rejection,
    decode_claims,
    decode_classes,
    decode_node,
    decode_slices,
)
from modelplane.k8s.dra.books import Books
from modelplane.k8s.dra.inventory import Inventory
from modelplane.k8s.dra.plan import prepare_claims
from modelplane.testing.devices import (
    DRIVER,
    a_claim,
    a_class,
    a_device,
    a_node,
    a_pool,
    a_request,
    a_slice,
    shareable,
)

A = f'device.attributes["{DRIVER}"].model == "a"'
COUNTERS = [{"name": "s", "counters": {"c": {"value": "9"}}}]


def opened(offered, *claims):
    plan = prepare_claims(decode_claims(claims), decode_classes([a_class()]), Features())
    node = decode_node(a_node())
    slices = [
        a_slice(offered, "s1", pool=a_pool(slices=2)),
        a_slice(None, "s2", sharedCounters=COUNTERS, pool=a_pool(slices=2)),
    ]
    return plan, Books(plan, Inventory(decode_slices(slices)).view(node), DeviceUsage(), node, {})


def test_interchangeable_devices():
    draws = {"consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]}
    offered = [
        a_device("same-0", model="a", uuid="0", root="r"),
        a_device("same-1", model="a", uuid="1", root="r"),
        a_device("model", model="b", root="r"),
        a_device("root", model="a", root="q"),
        a_device("memory", model="a", root="r", memory="1Gi"),
        {**a_device("taint", model="a", root="r"), "taints": [{"key": "k", "effect": "NoSchedule"}]},
        {**a_device("counter", model="a", root="r"), **draws},
        a_device("error", root="r"),
    ]
    claim = a_claim(a_request("any"), a_request("a", A), constraints=[{"matchAttribute": f"{DRIVER}/root"}])
    _, books = opened(offered, claim)
    kinds = [books.kind_of(index) for index in range(len(offered))]
    assert kinds[0] == kinds[1]
    assert len(set(kinds)) == len(offered) - 1


def test_a_shared_device_stands_for_itself():
    _, books = opened([shareable(a_device("d"))], a_claim(a_request("r")))
    assert books.kind_of(0) is None


def test_situations_do_not_remember_who_took_what():
    plan, books = opened([a_device("x"), a_device("y"), a_device("z")], a_claim(a_request("r"), a_request("s")))
    first, second = plan.asks
    assert books.take(first, 0)
    assert books.take(second, 1)
    one = books.situation(0)
    books.abandon()
    assert books.take(first, 1)
    assert books.take(second, 0)
    assert books.situation(0) == one
    books.give_back(0)
    assert books.take(second, 2)
    assert books.situation(0) != one


def test_situations_remember_how_much_is_shared():
    ask = {"requests": {"memory": "10Gi"}}
    plan, books = opened(
        [shareable(a_device("x"), {"default": "10Gi"})],
        a_claim(a_request("r"), a_request("s", capacity=ask), a_request("t", capacity={"requests": {"memory": "1Gi"}})),
    )
    r, s, t = plan.asks
    assert books.take(r, 0)
    alike = books.situation(0)
    books.give_back(0)
    assert books.take(s, 0)
    assert books.situation(0) == alike
    books.give_back(0)
    assert books.take(t, 0)
    assert books.situation(0) != alike


def test_giving_back_restores_everything():
    offered = [
        {**a_device("d"), "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "9"}}}]},
        {**a_device("e"), "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "9"}}}]},
    ]
    plan, books = opened(offered, a_claim(a_request("r"), a_request("s")))
    r, s = plan.asks
    assert books.take(r, 0)
    assert books.refuses(s, 0)
    assert not books.take(s, 1)
    books.give_back(0)
    assert not books.refuses(s, 0)
    assert books.take(s, 1)
    assert books.causes[r.index] == {0: Rejection.GIVEN_BACK}
    assert books.causes[s.index] == {0: Rejection.TAKEN, 1: Rejection.COUNTERS}
    books.abandon()
    assert [list(holds) for holds in books.holds] == [[]]
