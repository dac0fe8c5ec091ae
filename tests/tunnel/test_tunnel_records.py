"""What a record allows, and for how long; and certificates by what they say."""

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from modelplane.tunnel.authority import AGENT_DAYS, AgentAuthority, new_request, renewal_is_due
from modelplane.tunnel.frames import TunnelError
from modelplane.tunnel.records import matches, new_agent, record_secret

NOW = 1_800_000_000.0
DAY = 86_400.0


def test_a_token_joins_for_a_day_and_once():
    made = new_agent(NOW)
    assert made.record.may_join(made.join_token, NOW + DAY - 1)
    assert not made.record.may_join(made.join_token, NOW + DAY)
    assert not made.record.may_join(made.proxy_token, NOW)
    joined = made.record.joined("a1")
    assert (joined.may_join(made.join_token, NOW), joined.may_join("", NOW), joined.serials) == (False, False, ("a1",))
    assert matches(made.proxy_token, joined.proxy_hash)


def test_the_certificate_before_the_last_holds_until_the_last_is_used():
    record = new_agent(NOW).record.joined("a1").renewed("b2")
    assert record.serials == ("a1", "b2")
    assert record.renewed("c3").serials == ("b2", "c3")
    assert record.used("b2").serials == ("b2",)


def test_a_cluster_that_joins_again_ends_what_was_before():
    assert new_agent(NOW).record.joined("a1").renewed("b2").joined("c3").serials == ("c3",)


def test_no_token_is_in_the_stored_record():
    made = new_agent(NOW)
    stored = str(record_secret("east", made.record))
    assert made.join_token not in stored
    assert made.proxy_token not in stored


def test_a_certificate_says_what_the_hub_writes():
    _, csr = new_request()
    issued = AgentAuthority.create(NOW).client(csr, "east", NOW)
    found = x509.load_pem_x509_certificate(issued.certificate)
    assert [each.value for each in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["east"]
    assert issued.serial == f"{found.serial_number:x}"
    assert found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False


@pytest.mark.parametrize(("days", "due"), [(0, False), (AGENT_DAYS / 3 - 1, False), (AGENT_DAYS / 3 + 1, True)])
def test_it_is_renewed_after_a_third_of_its_life(days, due):
    _, csr = new_request()
    issued = AgentAuthority.create(NOW).client(csr, "east", NOW)
    assert renewal_is_due(issued.certificate, NOW + days * DAY) is due


def test_what_is_no_request_is_refused_by_name():
    with pytest.raises(TunnelError, match="csr: is not a certificate request"):
        AgentAuthority.create(NOW).client(b"nonsense", "east", NOW)
