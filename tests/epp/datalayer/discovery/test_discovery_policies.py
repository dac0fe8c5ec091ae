"""Priorities and rewrites beside a pool."""

import pytest

from modelplane.epp.datalayer.discovery import PolicyInformers, Rewrite
from modelplane.epp.datalayer.discovery.policies import (
    LEGACY_OBJECTIVES,
    LEGACY_REWRITES,
    OBJECTIVES,
    REWRITES,
    RewriteTarget,
    draw_target,
)
from tests.support.kube_api import tell
from tests.support.waiting import until


def objective(name, priority=None, pool="pool"):
    spec = {"poolRef": {"name": pool}} | ({} if priority is None else {"priority": priority})
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec}


def rewrite(name, created, *rules, pool="pool"):
    metadata = {"name": name, "namespace": "team", "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"poolRef": {"name": pool}, "rules": list(rules)}}


def rule(*targets, models=()):
    matches = [{"model": {"type": "Exact", "value": model}} for model in models]
    return {"matches": matches, "targets": [{"modelRewrite": target} for target in targets]}


def test_priorities_by_objective():
    async def story(api, client):
        api.put(OBJECTIVES, objective("batch", -1))
        api.put(OBJECTIVES, objective("plain"))
        api.put(OBJECTIVES, objective("foreign", 9, pool="another"))
        policies = PolicyInformers(client, "team", "pool")
        await policies.start()
        await until(lambda: policies.priorities == {"batch": -1, "plain": 0})
        api.put(OBJECTIVES, objective("batch", 5))
        api.delete(OBJECTIVES, "plain", "team")
        await until(lambda: policies.priorities == {"batch": 5})
        await policies.stop()

    tell(story)


def test_objects_of_the_older_group_count_unless_the_newer_has_one_of_the_name():
    async def story(api, client):
        api.put(LEGACY_OBJECTIVES, objective("batch", -1))
        api.put(LEGACY_OBJECTIVES, objective("plain", 3))
        api.put(OBJECTIVES, objective("plain", 4))
        api.put(LEGACY_REWRITES, rewrite("old", "2026-01-01T00:00:00Z", rule("o", models=["a"])))
        policies = PolicyInformers(client, "team", "pool")
        await policies.start()
        await until(lambda: policies.priorities == {"batch": -1, "plain": 4} and policies.has_rewrites)
        assert policies.rewrite("a", 0.5) == Rewrite("old", "o", exact=True)
        api.delete(OBJECTIVES, "plain", "team")
        await until(lambda: policies.priorities == {"batch": -1, "plain": 3})
        await policies.stop()

    tell(story)


def test_exact_before_generic_and_the_oldest_first():
    async def story(api, client):
        api.put(REWRITES, rewrite("young", "2026-02-01T00:00:00Z", rule("y", models=["a", "b"]), rule("gy")))
        api.put(REWRITES, rewrite("old", "2026-01-01T00:00:00Z", rule("o", models=["a"]), rule("p", models=["a"])))
        api.put(REWRITES, rewrite("foreign", "2020-01-01T00:00:00Z", rule("f", models=["a"]), pool="another"))
        policies = PolicyInformers(client, "team", "pool")
        assert policies.rewrite("a", 0.0) is None
        await policies.start()
        await until(lambda: policies.has_rewrites)
        assert policies.rewrite("a", 0.5) == Rewrite("old", "o", exact=True)
        assert policies.rewrite("b", 0.5) == Rewrite("young", "y", exact=True)
        assert policies.rewrite("c", 0.5) == Rewrite("young", "gy")
        api.delete(REWRITES, "young", "team")
        await until(lambda: policies.rewrite("c", 0.5) is None)
        await policies.stop()

    tell(story)


@pytest.mark.parametrize(
    ("weights", "chance", "model"),
    [
        ([None, None], 0.0, "m0"),
        ([None, None], 0.5, "m1"),
        ([None, None], 0.999, "m1"),
        ([1, 3], 0.24, "m0"),
        ([1, 3], 0.26, "m1"),
        ([None, 3], 0.0, "m1"),
        ([3, None], 0.999, "m0"),
        ([7], 0.3, "m0"),
    ],
)
def test_targets_are_drawn_by_weight(weights, chance, model):
    targets = [RewriteTarget(f"m{at}", weight) for at, weight in enumerate(weights)]
    assert draw_target(targets, chance) == model
