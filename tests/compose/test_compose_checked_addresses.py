"""Which addresses of a host name get requests."""

import pytest

from modelplane.api.outbound import OutboundRule
from modelplane.compose.checked_addresses import CheckedAddresses, check_addresses

PRIVATE = "api.example resolves to 10.0.0.1, a private address"


@pytest.mark.parametrize(
    ("allow", "resolved", "before", "expected"),
    [
        pytest.param([], None, (), CheckedAddresses(), id="not looked up"),
        pytest.param([], (), (), CheckedAddresses(), id="no address"),
        pytest.param([], ("8.8.8.8",), ("9.9.9.9",), CheckedAddresses(("8.8.8.8",)), id="the answer counts"),
        pytest.param([], None, ("9.9.9.9",), CheckedAddresses(("9.9.9.9",), late=True), id="late"),
        pytest.param([], (), ("9.9.9.9",), CheckedAddresses(("9.9.9.9",), late=True), id="failed"),
        pytest.param([], ("10.0.0.1",), ("9.9.9.9",), CheckedAddresses((), PRIVATE), id="a refusal is no failure"),
        pytest.param([], ("10.0.0.1", "8.8.8.8"), (), CheckedAddresses(("8.8.8.8",), PRIVATE), id="one is left out"),
        pytest.param([], (), ("10.0.0.1",), CheckedAddresses((), PRIVATE), id="before is checked again"),
        pytest.param(["10.0.0.0/8"], ("10.0.0.1",), (), CheckedAddresses(("10.0.0.1",)), id="allowed by network"),
        pytest.param(["api.example"], ("10.0.0.1",), (), CheckedAddresses(("10.0.0.1",)), id="allowed by name"),
        pytest.param([], ("2606:4700::1", "8.8.8.8"), (), CheckedAddresses(("8.8.8.8",)), id="IPv4 first"),
        pytest.param([], ("2606:4700::1",), (), CheckedAddresses(("2606:4700::1",)), id="IPv6 alone"),
        pytest.param(
            [], ("2606:4700::1", "10.0.0.1"), (), CheckedAddresses(("2606:4700::1",), PRIVATE), id="IPv4 is refused"
        ),
        pytest.param(
            [], ("9.9.9.9", "100.100.0.1", "8.8.8.8", "9.9.9.9"), (),
            CheckedAddresses(("8.8.8.8", "9.9.9.9"), "api.example resolves to 100.100.0.1, a private address"),
            id="in one order, each once",
        ),
    ],
)  # fmt: skip
def test_addresses_of_a_name(allow, resolved, before, expected):
    assert check_addresses(OutboundRule.read(allow), "api.example", resolved, before) == expected


def test_there_is_a_most():
    many = tuple(f"8.8.{number}.8" for number in range(200))
    assert len(check_addresses(OutboundRule(), "api.example", many, ()).called) == 16
