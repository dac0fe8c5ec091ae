from modelplane.k8s.cel import Gates
from modelplane.k8s.cel.device_view import DEFAULT_GATES, DEVICE, DeviceBounds, DomainMap, device_value, environment
from modelplane.k8s.cel.types import ANY, BOOL
from modelplane.k8s.cel.values import contains_key, find
from modelplane.k8s.device import Device


def _fields(gates, *, stored=False):
    return environment(gates, stored=stored).structs[DEVICE.name]


def test_gates_decide_about_fields_and_functions():
    assert "allowMultipleAllocations" in _fields(DEFAULT_GATES)
    assert "allowMultipleAllocations" not in _fields(Gates(consumable_capacity=False))
    assert "allowMultipleAllocations" in _fields(Gates(consumable_capacity=False), stored=True)
    assert "includes" not in environment(DEFAULT_GATES, stored=False).functions
    assert "includes" in environment(DEFAULT_GATES, stored=True).functions
    assert "includes" in environment(Gates(list_attributes=True), stored=False).functions


def test_attributes_are_any_unless_they_may_be_lists():
    assert _fields(DEFAULT_GATES)["attributes"].params[1].params[1] is ANY
    assert str(_fields(Gates(list_attributes=True))["attributes"]) == "map(string, map(string, dyn))"
    assert _fields(DEFAULT_GATES)["allowMultipleAllocations"] is BOOL


def test_an_unknown_domain_reads_as_empty_and_is_not_there():
    domains = DomainMap({"a": {"x": 1}})
    assert find(domains, "b") == (True, {})
    assert not contains_key(domains, "b")
    assert contains_key(domains, "a")
    assert type(domains.cel_native()) is dict


def test_a_device_as_a_value():
    device = Device.from_dict("d", {"attributes": {"s": {"string": "x"}}, "capacity": {"q": {"value": "1"}}})
    value = device_value(device)
    assert (value["driver"], value["allowMultipleAllocations"]) == ("d", False)
    assert value["attributes"] == {"d": {"s": "x"}}
    assert str(value["capacity"]["d"]["q"].quantity) == "1"
    assert device_value(device)["capacity"]["d"]["q"] is not value["capacity"]["d"]["q"]


def test_bounds_of_a_device():
    sizes = DeviceBounds()
    paths = [
        *[(), ("x",), ("device",), ("device", "driver"), ("device", "attributes", "@keys")],
        *[("device", "attributes", "@values", "x"), ("device", "capacity", "@values", "x"), ("device", "nope")],
    ]
    assert [sizes.size(path, ANY) for path in paths] == [*(None, None, (0, 0), (0, 63), (0, 63), (0, 64), None, None)]
