"""Where a cache is, will be, and cannot be."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelCache
from modelplane.compose.cache_info import cache_of
from modelplane.compose.caching.source import source_of
from modelplane.compose.fleet_snapshot import read_cache


def test_a_cache_is_where_its_staging_is_done():
    clusters = [{"name": "a", "phase": "Ready"}, {"name": "b", "phase": "Hydrating"}]
    manifest = {
        "metadata": {"name": "w", "namespace": "team"},
        "spec": {"source": "HuggingFace", "huggingFace": {"repo": "a/b"}},
        "status": {"clusters": clusters},
    }
    assert cache_of(decode(ModelCache, manifest)).staged == {"a"}


def _cache(entries=(), uid="", conditions=(), **spec):
    return {
        "metadata": {"name": "w", "namespace": "team", **({"uid": uid} if uid else {})},
        "spec": {"source": "Inline", "inline": {"filename": "a", "content": "b"}, **spec},
        "status": {"clusters": list(entries), "conditions": list(conditions)},
    }


def test_what_a_cache_says_of_each_cluster():
    key = read_cache(_cache()).key
    entries = [
        {"name": "a", "phase": "Ready", "stagedKeys": [key]},
        {"name": "b", "phase": "Hydrating", "stagedKeys": ["old"]},
        {"name": "c", "phase": "Hydrating"},
        {"name": "k", "phase": "Pending"},
        {"name": "d", "phase": "Hydrating", "etaSeconds": 120},
        {"name": "l", "phase": "Hydrating", "etaSeconds": 121},
        {"name": "e", "phase": "Failed", "reason": "NoSpace", "cause": "a; b", "message": "a; b; 2 attempts failed"},
        {"name": "g", "phase": "Hydrating", "reason": "SourceUnreachable", "cause": "no route"},
        {"name": "i", "phase": "Failed", "reason": "NoSpace", "message": "an older release; next at 12:00"},
        {"name": "j", "phase": "Failed"},
        {"name": "h", "phase": "Hydrating", "reason": "Hydrating", "message": "it begins"},
        {"name": "f", "phase": "Failed", "reason": "NoSpace", "stagedKeys": ["old"]},
    ]
    found = read_cache(_cache(entries))
    assert (found.staged, found.keys) == ({"a", "b", "f"}, {"b": "old", "f": "old"})
    assert found.awaited == {"c", "g", "h", "k", "l"}
    assert found.refused == (
        ("NoSpace", frozenset({"i"})),
        ("NoSpace: a; b", frozenset({"e"})),
        ("staging failed", frozenset({"j"})),
    )
    assert found.stalled == (("SourceUnreachable: no route", frozenset({"g"})),)
    assert read_cache(_cache(entries, replication="WherePlaced")).awaited == frozenset()


@pytest.mark.parametrize(
    ("storage", "has_key"),
    [({"type": "PVC"}, True), ({"type": "ExistingPVC", "existingPVC": {"claimName": "nfs"}}, False)],
)
def test_only_what_is_staged_on_a_volume_of_ours_has_a_key(storage, has_key):
    cache = decode(ModelCache, _cache(storage=storage))
    assert cache_of(cache).key == (source_of(cache).key if has_key else "")


def test_a_cache_that_nobody_reconciled_is_not_settled():
    condition = {"type": "Ready", "status": "False", "reason": "Hydrating"}
    made = (_cache(), _cache(uid="u"), _cache(uid="u", conditions=[condition]))
    assert [read_cache(each).settled for each in made] == [True, False, True]


def test_a_cache_without_a_source_is_a_fault():
    assert read_cache({**_cache(), "spec": {}}).fault == "spec.source: the cache has no source"
