"""When real certificates expire."""

from datetime import timedelta

from modelplane.epp.transport.tls import issue_hop, self_signed_loopback
from modelplane.reconcile.certificate_expiry import CERTIFICATES, certificate_expiry, expiries_s
from modelplane.views.metric_families import SampleFamily

NOW = 1_800_000_000.0
DAY = 86_400.0
SERVING, _ = self_signed_loopback("modelplane", NOW, timedelta(days=365))
OLD = issue_hop("east", NOW, timedelta(days=10)).authority
NEW = issue_hop("east", NOW, timedelta(days=30)).authority


def cluster(name, pem):
    return {"metadata": {"name": name}, "status": {"gateway": {"caCertificate": pem.decode()}}}


def test_expiries_are_those_of_each_certificate():
    assert expiries_s(OLD + NEW) == (NOW + 10 * DAY, NOW + 30 * DAY)


def test_what_is_no_certificate_has_none():
    assert [expiries_s(text) for text in (b"", b"nonsense", OLD[:100], OLD.replace(b"MII", b"XXX", 1))] == [()] * 4


def test_a_cluster_that_trusts_two_authorities_counts_by_the_newer():
    clusters = [cluster("east", OLD + NEW), cluster("west", b""), {"metadata": {"name": "new"}}]
    assert certificate_expiry(SERVING, clusters) == SampleFamily(
        CERTIFICATES, {("serving", ""): NOW + 365 * DAY, ("gateway-ca", "east"): NOW + 30 * DAY}
    )


def test_a_process_without_tls_has_no_serving_certificate():
    assert certificate_expiry(b"", []) == SampleFamily(CERTIFICATES, {})
