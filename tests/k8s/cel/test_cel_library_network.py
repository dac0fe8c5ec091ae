import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library.network import CIDR, IP, is_cidr, is_ip, to_cidr, to_ip


@given(st.ip_addresses().filter(lambda address: getattr(address, "ipv4_mapped", None) is None))
def test_an_address_survives_its_text(address):
    assert to_ip(str(address)) == IP(address)
    assert is_ip(str(address))


@pytest.mark.parametrize(
    "text", ["", "1.2.3", "1.2.3.256", "01.2.3.4", "1.2.3.4 ", "::ffff:1.2.3.4", "fe80::1%eth0", "[::1]", "1.2.3.4/8"]
)
def test_texts_that_are_no_address(text):
    assert not is_ip(text)
    with pytest.raises(EvaluationError):
        to_ip(text)


def test_a_block_keeps_its_host_bits():
    assert to_cidr("10.1.2.3/8") == CIDR(ipaddress.ip_address("10.1.2.3"), 8)


@pytest.mark.parametrize("text", ["", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/08", "10.0.0.0/+8", "::/129", "a/8"])
def test_texts_that_are_no_block(text):
    assert not is_cidr(text)
    with pytest.raises(EvaluationError):
        to_cidr(text)
