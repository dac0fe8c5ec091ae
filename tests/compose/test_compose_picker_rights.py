"""A pool's picker may watch what it watches, and nothing else."""

import pytest

from modelplane.epp.datalayer.discovery import inference_pool, pods, policies
from modelplane.kube import GroupVersionResource


def watched():
    """Every kind that a picker of a pool has an informer of."""
    modules = (inference_pool, pods, policies)
    return {
        (each.group, each.plural)
        for module in modules
        for each in vars(module).values()
        if isinstance(each, GroupVersionResource)
    }


@pytest.mark.parametrize("shape", [("single-gpu", "pool"), ("kimi-k2-5p3d", "native")], ids=str)
def test_the_role_of_a_picker_is_what_it_watches(scene, shape):
    desired = scene(*shape, "none").compose().desired
    rules = desired["picker-role"].target.manifest["rules"]
    granted = [(group, resource) for rule in rules for group in rule["apiGroups"] for resource in rule["resources"]]
    assert sorted(granted) == sorted(watched())
    assert {tuple(rule["verbs"]) for rule in rules} == {("list", "watch")}
    pool = desired["pool"].target.manifest["metadata"]["name"]
    assert [rule["resourceNames"] for rule in rules if rule["resources"] == ["inferencepools"]] == [[pool]]
    assert "*" not in str(rules)
