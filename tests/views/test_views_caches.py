import pytest

from modelplane.views.caches import CacheClusterRow, CacheRow, amount, cache_rows
from modelplane.views.health import ObjectHealth


def test_a_cache_is_a_row_with_a_row_for_each_cluster():
    clusters = [
        {
            "name": "east",
            "phase": "Hydrating",
            "reason": "Hydrating",
            "stagedBytes": 3 * 2**29,
            "totalBytes": 2**34,
            "bytesPerSecond": 2**20,
            "etaSeconds": 9,
        },
        {"name": "west", "phase": "Ready", "reason": "Staged", "stagedBytes": 7, "totalBytes": 7, "references": 2},
        {"name": "north", "phase": "Failed", "reason": "NoSpace", "message": "too small", "sharedWith": "other"},
    ]
    status = {
        "source": "S3 models",
        "summary": {"ready": "1/3", "progress": "1.5 of 16.0 GiB"},
        "references": 2,
        "clusters": clusters,
        "conditions": [{"type": "Ready", "status": "False", "reason": "NoSpace", "message": "1 of 3"}],
    }
    item = {"metadata": {"name": "w", "namespace": "team"}, "spec": {"source": "S3"}, "status": status}
    assert cache_rows([item]) == (
        CacheRow(
            "team",
            "w",
            ObjectHealth("NotReady", "NoSpace: 1 of 3"),
            "Weights",
            "S3 models",
            "1/3",
            "1.5 of 16.0 GiB",
            2,
            (
                CacheClusterRow("east", "Hydrating", "1.5 GiB of 16.0 GiB, 9 %", "1.0 MiB/s", 9, 0, "", ""),
                CacheClusterRow("west", "Ready", "7 B", "", None, 2, "", ""),
                CacheClusterRow("north", "Failed", "", "", None, 0, "", "NoSpace: too small (volume of other)"),
            ),
        ),
    )


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (2048, "2.0 KiB"), (2**41, "2.0 TiB")])
def test_amounts_for_people(count, text):
    assert amount(count) == text
