"""What people, clients and proxies get of each outcome."""

from modelplane.epp.scheduling.outcomes import Outcome


def test_outcomes():
    assert {each.name: (each.title, each.status, each.reason) for each in Outcome} == {
        "PICKED": ("Picked", 200, ""),
        "MALFORMED": ("Malformed", 400, ""),
        "UNKNOWN_MODEL": ("UnknownModel", 404, ""),
        "NOT_CACHED": ("NotCached", 412, ""),
        "TOO_LARGE": ("TooLarge", 413, ""),
        "SATURATED": ("Saturated", 429, "rejected-saturated"),
        "EXPIRED": ("Expired", 429, "rejected-ttl-expired"),
        "EVICTED": ("Evicted", 429, "evicted"),
        "NO_ENDPOINTS": ("NoEndpoints", 503, "rejected-no-endpoints"),
        "EXCLUDED": ("Excluded", 503, "rejected-no-endpoints"),
        "ABANDONED": ("Abandoned", 499, ""),
        "STOPPING": ("Stopping", 503, ""),
        "FAULT": ("Fault", 500, ""),
    }
