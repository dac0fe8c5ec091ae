"""What is read from the text of a selector: constants that no device can match, and names of attributes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.cel import SelectorOutcome, compile_selector
from modelplane.k8s.cel.mentions import DeviceName, WrongConstant, device_names, wrong_constants
from modelplane.k8s.device import Device

MEMORY = 'device.capacity["a.example"].memory'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f'{MEMORY}.compareTo(quantity("80Gi")) >= 0', ()),
        (f'{MEMORY}.compareTo(quantity("80GiB")) >= 0', (WrongConstant("quantity", "80GiB", "80Gi"),)),
        (f'{MEMORY}.isGreaterThan(quantity("80 GB"))', (WrongConstant("quantity", "80 GB", "80G"),)),
        (f'{MEMORY} == quantity("lots")', (WrongConstant("quantity", "lots"),)),
        ('device.attributes["a.example"].cc.compareTo(semver("9.0")) > 0', (WrongConstant("semver", "9.0", "9.0.0"),)),
        ('quantity(device.attributes["a.example"].text) == quantity("1")', ()),
        ("this is (no CEL", ()),
    ],
)
def test_constants_that_cannot_be_read(text, found):
    assert wrong_constants(text) == found


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (f'{MEMORY}.compareTo(quantity("1")) > 0', {("capacity", "a.example", "memory")}),
        ('device.attributes["a.example"]["model"] == "x"', {("attributes", "a.example", "model")}),
        ('has(device.attributes["a.example"].model) && device.attributes["a.example"].model == "x"', set()),
        ('"model" in device.attributes["a.example"]', set()),
        ('device.driver == "a.example"', set()),
        ('device.attributes[device.driver].model == "x"', set()),
    ],
)
def test_names_that_are_read_without_a_question(text, names):
    assert device_names(text) == {DeviceName(*each) for each in names}


@given(st.text("0123456789.GiMBk ", min_size=1, max_size=6))
def test_a_constant_is_wrong_exactly_when_evaluation_fails(text):
    device = Device.from_dict("a.example", {"capacity": {"memory": {"value": "1"}}})
    selector = f'{MEMORY}.compareTo(quantity("{text}")) >= 0'
    failed = compile_selector(selector).evaluate(device).outcome is SelectorOutcome.ERROR
    assert bool(wrong_constants(selector)) == failed


@given(st.text(max_size=60))
def test_any_text_is_read(text):
    wrong_constants(text)
    device_names(text)
