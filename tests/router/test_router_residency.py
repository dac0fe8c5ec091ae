import pytest

from modelplane.router.residency import ResidencyError, read_residency
from tests.router.conftest import endpoint, provider

EU = {"topology.kubernetes.io/region": "eu"}


@pytest.mark.parametrize(
    ("text", "which", "allowed"),
    [
        ("fleet", endpoint("a"), True),
        ("fleet", provider("p"), False),
        ("region=eu", endpoint("a", labels=EU), True),
        ("region=eu", endpoint("a", labels={"topology.kubernetes.io/region": "us"}), False),
        ("region=eu", endpoint("a"), False),
        ("region=eu", provider("p", labels=EU), True),
        ("fleet, region=eu", provider("p", labels=EU), False),
        ("topology.kubernetes.io/region=eu", endpoint("a", labels=EU), True),
        ("example.org/region=eu", endpoint("a", labels=EU), False),
        ("cluster=east", endpoint("a"), True),
        ("cluster=west", endpoint("a"), False),
        ("cluster=east", provider("p"), False),
    ],
)
def test_where_a_request_may_be_served(text, which, allowed):
    assert read_residency(text).allows(which) is allowed


def test_without_the_header_there_is_no_rule():
    assert read_residency("") is None
    assert read_residency(" , ") is None


@pytest.mark.parametrize("text", ["eu", "region=", "=eu", "region=e u", "cluster=a,cluster=b", ",".join(["a=b"] * 9)])
def test_what_cannot_be_read_is_refused(text):
    with pytest.raises(ResidencyError):
        read_residency(text)
