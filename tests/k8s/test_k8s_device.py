import pytest

from modelplane.k8s.device import Device, DeviceError, split_name
from modelplane.k8s.quantity import parse_quantity
from modelplane.k8s.semver import parse_version

DRIVER = "gpu.example.com"


def device(attributes=None, capacity=None, *, lists=False, **fields):
    document = {"attributes": attributes or {}, "capacity": capacity or {}, **fields}
    return Device.from_dict(DRIVER, document, list_attributes=lists)


def test_names_fall_into_domains():
    seen = device(
        {"model": {"string": "a"}, f"{DRIVER}/index": {"int": 3}, "other.com/ok": {"bool": True}},
        {"memory": {"value": "80Gi"}, "other.com/lanes": {"value": 16}},
    )
    assert seen.driver == DRIVER
    assert seen.attributes == {DRIVER: {"model": "a", "index": 3}, "other.com": {"ok": True}}
    assert seen.capacity == {DRIVER: {"memory": parse_quantity("80Gi")}, "other.com": {"lanes": parse_quantity("16")}}
    assert seen.allow_multiple_allocations is False
    assert seen.fault is None


@pytest.mark.parametrize(
    ("name", "split"),
    [("x", (DRIVER, "x")), ("a.com/x", ("a.com", "x")), ("a.com/x/y", ("a.com", "x/y")), ("/x", ("", "x"))],
)
def test_names_are_split_at_the_first_slash(name, split):
    assert split_name(name, DRIVER) == split


def test_the_last_of_two_names_for_one_entry_wins():
    assert device({"x": {"int": 1}, f"{DRIVER}/x": {"int": 2}}).attributes == {DRIVER: {"x": 2}}


def test_versions_are_versions():
    seen = device({"v": {"version": "1.2.3"}})
    assert seen.attributes[DRIVER]["v"] == parse_version("1.2.3")


@pytest.mark.parametrize(
    ("attributes", "fault"),
    [
        ({"v": {"version": "99999999999999999999.0.0"}}, "attribute v: parse semantic version: "),
        ({"l": {"strings": ["a"]}}, "attribute l: unsupported attribute value"),
        ({"e": {}}, "attribute e: unsupported attribute value"),
        ({"n": {"string": None}}, "attribute n: unsupported attribute value"),
    ],
)
def test_one_unusable_attribute_is_the_devices_fault(attributes, fault):
    seen = device({"ok": {"bool": True}, **attributes})
    assert seen.fault is not None
    assert seen.fault.startswith(fault)


def test_lists_behind_their_gate():
    attributes = {"s": {"strings": ["a", "b"]}, "i": {"ints": [1]}, "v": {"versions": ["1.0.0"]}, "b": {"bools": []}}
    assert device(attributes, lists=True).attributes == {
        DRIVER: {"s": ("a", "b"), "i": (1,), "v": (parse_version("1.0.0"),), "b": ()}
    }


def test_a_bad_version_in_a_list_is_a_fault():
    assert device({"v": {"versions": ["1.0"]}}, lists=True).fault is not None


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"attributes": []}, None),
        ({"attributes": ["x"]}, "attributes: expected a mapping of names to values"),
        ({"attributes": {"x": 3}}, "attributes[x]: expected a mapping with one of string, int, bool, version"),
        ({"attributes": {"x": {"int": True}}}, "attributes[x].int: True is not a value of that type"),
        ({"attributes": {"x": {"int": 2**63}}}, "attributes[x].int: 9223372036854775808 is not a value of that type"),
        ({"attributes": {"x": {"bool": 1}}}, "attributes[x].bool: 1 is not a value of that type"),
        ({"attributes": {"x": {"string": 1}}}, "attributes[x].string: 1 is not a value of that type"),
        ({"capacity": {"m": {}}}, "capacity[m].value: missing"),
        (
            {"capacity": {"m": {"value": "4GB"}}},
            'capacity[m].value: "4GB" is not a quantity: expected a number and a suffix such as m, k, Mi or e3',
        ),
    ],
)
def test_shapes_that_are_not_devices(document, sentence):
    if sentence is None:
        assert Device.from_dict(DRIVER, document).attributes == {}
        return
    with pytest.raises(DeviceError) as error:
        Device.from_dict(DRIVER, document)
    assert str(error.value) == sentence


def test_equal_shapes():
    one = device({"a": {"string": "x"}, "b": {"int": 1}}, {"m": {"value": "1Gi"}})
    other = device({"b": {"int": 1}, "a": {"string": "x"}}, {"m": {"value": "1024Mi"}})
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(
    "other",
    [
        device({"a": {"bool": True}}),
        device({"a": {"string": "1"}}),
        device({"b": {"int": 1}}),
        device({"a": {"int": 1}}, {"m": {"value": "1"}}),
        device({"a": {"int": 1}}, allowMultipleAllocations=True),
        device({"a": {"int": 1}, "bad": {}}),
        Device.from_dict("nic.example.com", {"attributes": {"a": {"int": 1}}}),
    ],
)
def test_shapes_that_a_selector_distinguishes(other):
    assert device({"a": {"int": 1}}) != other


def test_shapes_distinguish_forms_of_one_number():
    assert device(capacity={"m": {"value": "1"}}) != device(capacity={"m": {"value": "1000m"}})


def test_shapes_distinguish_versions_that_compare_equal():
    assert device({"v": {"version": "1.0.0+a"}}) != device({"v": {"version": "1.0.0+b"}})


def test_a_device_is_not_its_driver():
    assert device() != DRIVER
