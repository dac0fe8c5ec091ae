"""Small fleets of two tenants: what one gets depends on the room that the other has taken, and not on who it is.

Names look alike, and deployments often have the same. The suite tries a few hundred fleets; MODELPLANE_TENANTS=100000
tries that many.
"""

import os
import random
from dataclasses import dataclass

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelDeployment
from modelplane.api.names import is_dns_label
from modelplane.compose import model_deployment
from modelplane.compose.contract import ComposeRequest, Local, Observed
from modelplane.placement.snapshot import Fleet
from tests.support import settled

WORLDS = int(os.environ.get("MODELPLANE_TENANTS", "300"))
PARTS = 4
OTHER = ("zz-other", "zz-chat", "zz-uid")
NAMES = ("chat", "a", "b", "a-0")


@dataclass(frozen=True)
class Team:
    """A deployment of a tenant."""

    namespace: str
    name: str
    uid: str
    replicas: int
    devices: int

    @property
    def manifest(self):
        wanted = [{"name": "gpu", "count": self.devices, "selectors": [{"cel": 'device.driver == "d"'}]}]
        template = {"spec": {"containers": [{"name": "engine", "image": "i", "args": ["--model", "m"]}]}}
        return {
            "apiVersion": settled.API,
            "kind": "ModelDeployment",
            "metadata": {"name": self.name, "namespace": self.namespace, "uid": self.uid, "generation": 1},
            "spec": {"replicas": self.replicas, "nodeSelector": {"devices": wanted}, "workers": {"template": template}},
        }


def label(source):
    """Few letters, so that one name is often the beginning or the end of another."""
    while not is_dns_label(made := "".join(source.choices("ab-0", k=source.randint(1, 8)))):
        pass
    return made


def drawn(source):
    """Clusters and two tenants."""
    clusters = [settled.make_cluster(name, nodes=source.randint(1, 3)) for name in "bcd"[: source.randint(1, 3)]]
    first = label(source)
    while (second := label(source)) == first:
        pass
    sizes = [(source.randint(1, 4), source.choice((1, 2, 4, 8))) for _ in range(2)]
    teams = zip((first, second), "uv", sizes, strict=True)
    return clusters, *(Team(space, source.choice(NAMES), uid, *size) for space, uid, size in teams)


def composed(team, clusters, others, own=()):
    """What a tenant's deployment comes to, beside the replicas of others and its own."""
    observed = {key: Observed(Local(item), ready=True) for key, item in own}
    required = {"clusters": tuple(clusters), "replicas": (*(item for _, item in own), *others), "caches": ()}
    request = ComposeRequest(decode(ModelDeployment, team.manifest), observed, required, now=settled.NOW)
    return model_deployment.compose(request)


def replicas(result, namespace):
    """The replicas of a result once they serve, by key."""
    found = ((key, desired.target.manifest) for key, desired in result.desired.items())
    serving = [(key, settled.as_observed(item)) for key, item in found if item["kind"] == "ModelReplica"]
    for _, item in serving:
        assert item["metadata"]["namespace"] == namespace
    return serving


def as_of_another(items):
    """The same replicas in the same places, of a tenant that nobody knows."""
    namespace, name, uid = OTHER
    for index, (_, item) in enumerate(items):
        metadata = {**item["metadata"], "namespace": namespace, "name": f"zz-{index}", "labels": {}}
        yield {**item, "metadata": metadata, "spec": {**item["spec"], "deployment": {"name": name, "uid": uid}}}


def same(one, other):
    return one.desired == other.desired and one.status == other.status and one.conditions == other.conditions


def violation(seed):
    source = random.Random(seed)  # noqa: S311  reproducible, not secret
    clusters, first, second = drawn(source)
    theirs = replicas(composed(second, clusters, ()), second.namespace)
    listed = [item for _, item in theirs]
    beside = composed(first, clusters, listed)
    if not same(beside, composed(first, clusters, list(as_of_another(theirs)))):
        return "what a tenant gets depends on who the other is"
    mine = replicas(beside, first.namespace)
    settled_again = composed(second, clusters, [item for _, item in mine], theirs)
    if not {key for key, _ in theirs} <= settled_again.desired.keys():
        return "a tenant's replicas leave when another comes"
    later = replicas(composed(first, clusters, listed, mine), first.namespace)
    if {key for key, _ in later} != {key for key, _ in mine}:
        return "a tenant's replicas do not stay where they are"
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_what_a_tenant_gets_depends_on_no_other_tenant(part):
    found = ((seed, violation(seed)) for seed in range(part, WORLDS, PARTS))
    assert [(seed, problem) for seed, problem in found if problem] == []


def test_a_key_without_its_namespace_is_found(monkeypatch):
    def by_name(self, deployment):
        held = (replica for info in self.infos.values() for replica in info.held.values())
        return tuple(replica for replica in held if replica.deployment.name == deployment.name)

    monkeypatch.setattr(Fleet, "owned_by", by_name)
    assert {violation(seed) for seed in range(40)} - {""}
