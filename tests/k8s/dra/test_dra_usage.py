from modelplane.k8s.dra.decode import decode_in_use
from modelplane.k8s.dra.features import Features
from modelplane.k8s.dra.outcome import DeviceId, DeviceResult
from modelplane.k8s.dra.usage import DeviceUsage
from modelplane.k8s.quantity import parse_quantity
from modelplane.testing.devices import DRIVER, POOL, in_use


def device(name):
    return DeviceId(DRIVER, POOL, name)


def usage(*documents, features=None):
    return DeviceUsage.of(decode_in_use(documents), features or Features())


def test_whole_devices_shares_and_admin_access():
    found = usage(
        in_use("a"),
        in_use("b", adminAccess=True),
        in_use("c", shareID="1", consumedCapacity={"memory": "1"}),
        in_use("c", shareID="2", consumedCapacity={"memory": "2", "cores": 1}),
        in_use("d", shareID="3"),
    )
    assert found == DeviceUsage(
        whole=frozenset({device("a")}),
        shared=frozenset({device("c"), device("d")}),
        consumed={device("c"): {"memory": 3 * 10**9, "cores": 10**9}},
    )
    assert [name for name in "abcd" if found.is_allocated(device(name))] == ["a", "c", "d"]


def test_shares_are_whole_devices_while_the_gate_is_off():
    found = usage(in_use("c", shareID="1"), features=Features(consumable_capacity=False))
    assert found == DeviceUsage(whole=frozenset({device("c")}))


def test_a_device_id_reads_like_a_path():
    assert str(device("a")) == "gpu.example.com/pool-1/a"


def test_what_an_allocation_adds():
    def result(name, **fields):
        return DeviceResult("r", device(name), **fields)

    share = {"memory": parse_quantity("2"), "cores": parse_quantity("1")}
    before = usage(in_use("a"), in_use("c", shareID="1", consumedCapacity={"memory": "1"}))
    after = before.with_results([result("b"), result("x", admin_access=True), result("c", consumed_capacity=share)])
    assert after == DeviceUsage(
        whole=frozenset({device("a"), device("b")}),
        shared=frozenset({device("c")}),
        consumed={device("c"): {"memory": 3 * 10**9, "cores": 10**9}},
    )
    assert before.consumed == {device("c"): {"memory": 10**9}}
