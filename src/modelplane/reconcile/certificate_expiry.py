"""When certificates expire, as a metric: a certificate that nobody renews stops a fleet that is otherwise well."""

from collections.abc import Iterable
from typing import Final

from cryptography import x509

from modelplane.api.objects import Manifest, name_of, text_at
from modelplane.views.metric_families import Labels, MetricSpec, SampleFamily

CERTIFICATES: Final = MetricSpec(
    name="modelplane_certificate_expiry_timestamp_seconds",
    labels=("certificate", "cluster"),
    help="When a certificate expires: `serving`, that of this process, or `gateway-ca` of a cluster.",
    unit="seconds",
)


def certificate_expiry(serving: bytes, clusters: Iterable[Manifest]) -> SampleFamily:
    """`serving` is the chain of this process in PEM, its own certificate first; empty: it has none."""
    values: dict[Labels, float] = {}
    own = expiries_s(serving)
    if own:
        values["serving", ""] = own[0]
    for cluster in clusters:
        trusted = expiries_s(text_at(cluster, "status", "gateway", "caCertificate").encode())
        if trusted:
            # While an authority is replaced both are trusted, and the newer one counts.
            values["gateway-ca", name_of(cluster)] = max(trusted)
    return SampleFamily(CERTIFICATES, values)


def expiries_s(pem: bytes) -> tuple[float, ...]:
    """Of each certificate, in seconds since the epoch; none where the text has none."""
    try:
        return tuple(each.not_valid_after_utc.timestamp() for each in x509.load_pem_x509_certificates(pem))
    except ValueError:
        return ()
