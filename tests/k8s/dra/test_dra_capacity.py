import pytest

from modelplane.api.errors import InputError
from modelplane.k8s.dra.capacity import consumed_capacity_of, nanos_of, read_offers, whole
from modelplane.k8s.dra.resources import DeviceCapacity, RequestPolicy, ValidRange
from modelplane.k8s.quantity import parse_quantity

GI = 2**30 * 10**9


def offers(value="80Gi", **policy):
    found = RequestPolicy(**policy) if policy else None
    return read_offers({"memory": DeviceCapacity(value=value, request_policy=found)})


def take(requested, **policy):
    amounts = {} if requested is None else {"memory": parse_quantity(requested)}
    return consumed_capacity_of(offers(**policy), amounts)


RANGE = ValidRange(min="10Gi", step="5Gi", max="40Gi")


@pytest.mark.parametrize(
    ("requested", "policy", "consumed", "allowed"),
    [
        (None, {}, "80Gi", True),
        ("7Gi", {}, "7Gi", True),
        (None, {"default": "10Gi"}, "10Gi", True),
        ("7Gi", {"default": "10Gi"}, "7Gi", True),
        ("7Gi", {"default": "10Gi", "valid_range": RANGE}, "10Gi", True),
        ("10Gi", {"default": "10Gi", "valid_range": RANGE}, "10Gi", True),
        ("11Gi", {"default": "10Gi", "valid_range": RANGE}, "15Gi", True),
        ("40Gi", {"default": "10Gi", "valid_range": RANGE}, "40Gi", True),
        ("41Gi", {"default": "10Gi", "valid_range": RANGE}, "45Gi", False),
        ("12Gi", {"default": "10Gi", "valid_range": ValidRange(min="10Gi")}, "12Gi", True),
        ("12Gi", {"default": "10Gi", "valid_range": ValidRange(max="11Gi")}, "12Gi", False),
        ("7Gi", {"default": "10Gi", "valid_values": ("10Gi", "20Gi")}, "10Gi", True),
        ("11Gi", {"default": "10Gi", "valid_values": ("10Gi", "20Gi")}, "20Gi", True),
        ("21Gi", {"default": "10Gi", "valid_values": ("10Gi", "20Gi")}, "21Gi", False),
        (None, {"default": "0"}, "0", True),
        ("1k", {"valid_range": ValidRange(min="1e3")}, "1k", True),
        (None, {"default": "5Gi", "valid_range": RANGE}, "5Gi", True),
        (None, {"valid_range": RANGE}, "80Gi", False),
        (None, {"valid_range": ValidRange(min="10Gi", step="35Gi")}, "80Gi", True),
        (None, {"valid_range": ValidRange(min="10Gi", step="20Gi")}, "80Gi", False),
        ("11Gi", {"valid_range": ValidRange(min="10Gi", step="1")}, "11Gi", True),
        ("10Gi", {"valid_values": ("10Gi", "20Gi")}, "10Gi", True),
    ],
)
def test_amounts(requested, policy, consumed, allowed):
    taking = take(requested, **policy)
    assert {name: str(amount) for name, amount in taking.amounts.items()} == {"memory": consumed}
    assert (taking.is_known, taking.is_allowed) == (True, allowed)
    assert taking.needs == (("memory", parse_quantity(consumed).nanos, 80 * GI),)


def test_requesting_an_unpublished_capacity():
    assert not consumed_capacity_of(offers(), {"gpu.example.com/memory": parse_quantity("1")}).is_known


@pytest.mark.parametrize(
    ("in_use", "fits"),
    [([], True), ([{"memory": 40 * GI}], True), ([{"memory": 41 * GI}], False), ([{"memory": 20 * GI}] * 2, True),
     ([{"memory": 20 * GI}, {"memory": 21 * GI}], False), ([{"other": 99 * GI}], True)],
)  # fmt: skip
def test_room_beside_others(in_use, fits):
    assert take("40Gi").fits_beside(*in_use) is fits


def test_every_dimension_needs_room():
    both = read_offers({"memory": DeviceCapacity(value="80Gi"), "cores": DeviceCapacity(value="8")})
    taking = consumed_capacity_of(both, {"memory": parse_quantity("1Gi")})
    assert not taking.fits_beside({"cores": 1})


def test_every_dimension_needs_an_amount_that_is_allowed():
    ranged = DeviceCapacity(value="80Gi", request_policy=RequestPolicy(valid_range=RANGE))
    both = read_offers({"memory": ranged, "cores": DeviceCapacity(value="8")})
    allowed = [consumed_capacity_of(both, {"memory": parse_quantity(text)}).is_allowed for text in ("40Gi", "41Gi")]
    assert allowed == [True, False]


@pytest.mark.parametrize("step", ["0", "0.0", "-1"])
def test_a_step_that_goes_nowhere(step):
    with pytest.raises(InputError, match=r"requestPolicy\.validRange\.step: must be at least one"):
        offers(default="1", valid_range=ValidRange(min="1", step=step))


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("1.5", 2), ("1n", 1), ("2Ki", 2_048), ("-1.5", -1), ("0", 0)])
def test_whole_numbers_round_up(text, number):
    assert whole(parse_quantity(text)) == number


def test_numbers_too_long_to_write_out_are_vast():
    assert nanos_of(parse_quantity("1e2000000000")) > nanos_of(parse_quantity("1e4000"))
    assert nanos_of(parse_quantity("-1e2000000000")) < 0
