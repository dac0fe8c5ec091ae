"""What the function server asks of Kubernetes is what its roles allow: nothing is refused, no right is left over."""

import base64

import pytest
from prometheus_client import CollectorRegistry

from modelplane.crossplane.caches import FunctionCaches
from modelplane.crossplane.fleet_informers import CACHES, CLUSTERS, DEPLOYMENTS, REPLICAS
from modelplane.crossplane.live import Live
from modelplane.crossplane.packaging import DIGEST_ANNOTATION, PackageSource, installation
from modelplane.crossplane.usage_nudger import USAGES
from modelplane.kube.kinds import GroupVersionResource
from modelplane.router.admin import RouterAdmin
from tests.crossplane.test_crossplane_live import cluster, deployment, digest_of
from tests.crossplane.test_crossplane_traffic_scraper import HOST, halted_by_figures
from tests.crossplane.test_crossplane_usage_nudger import nudge_of, replica, usage
from tests.router.conftest import Front
from tests.support.kube_api import running, tell
from tests.support.waiting import until

SECRETS = GroupVersionResource("", "v1", "secrets")
ROLES = ("modelplane:function", "modelplane-function-observes")


def rights(**more):
    """Verb, API group and resource of everything that the server's ServiceAccount may do."""
    source = PackageSource("a.example/x", "a.example/y", "1", **more)
    rules = [
        rule for item in installation(source) if item["metadata"]["name"] in ROLES for rule in item.get("rules", ())
    ]
    return {
        (verb, group, resource)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def old(item):
    """As a server left it that knew another digest."""
    return {**item, "metadata": {**item["metadata"], "annotations": {DIGEST_ANNOTATION: "old"}}}


def cache():
    spec = {"source": "HuggingFace", "huggingFace": {"repo": "acme/tiny"}, "storage": {"sizeGiB": 1}}
    metadata = {"name": "weights", "namespace": "team", "generation": 1}
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelCache", "metadata": metadata, "spec": spec}


def fill(api):
    """One of each kind, each with a digest that is no longer right, and a replica that leaves."""
    api.put(CLUSTERS, old(cluster("east", nodes=2)))
    api.put(DEPLOYMENTS, old(deployment("other")))
    api.put(REPLICAS, old(replica("stays", leaving=False, deployment="other")))
    api.put(REPLICAS, replica("leaves", leaving=True, deployment="gone"))
    api.put(CACHES, old(cache()))
    api.put(USAGES, usage("waits", "gone", leaving=True))
    kubeconfig = base64.b64encode(b"not a kubeconfig").decode()
    api.put(SECRETS, {"metadata": {"name": "k", "namespace": "modelplane-system"}, "data": {"kubeconfig": kubeconfig}})


def are_requeued(api):
    named = (
        (CLUSTERS, "east", ""),
        (DEPLOYMENTS, "other", "team"),
        (REPLICAS, "stays", "team"),
        (CACHES, "weights", "team"),
    )
    return all(digest_of(api, kind, name, namespace) != "old" for kind, name, namespace in named)


@pytest.mark.slow
def test_the_server_uses_each_of_its_rights_and_no_other():
    used = set()

    async def story(api, client):
        fill(api)
        door = Front()
        admin = RouterAdmin(door.director, (HOST, 0), lambda: door.now_s)
        await admin.start()
        metrics = (f"http://localhost:{admin.port}/metrics",)
        live = Live(client, CollectorRegistry(), FunctionCaches(), pause_s=0.01, observe=True, traffic_metrics=metrics)
        try:
            async with running(live.run()):
                await until(lambda: live.informers.synced)
                await until(lambda: are_requeued(api) and nudge_of(api, "waits"))
                await until(lambda: ("get", "", "secrets") in api.used)
                await halted_by_figures(api, live, door)
        finally:
            await admin.stop()
        used.update(api.used)

    tell(story)
    assert used == rights(traffic_metrics=("http://router:9091/metrics",))


def test_rights_are_given_for_what_is_installed():
    everything = rights(traffic_metrics=("http://router:9091/metrics",))
    assert everything - rights() == {
        ("list", "modelplane.ai", "modelendpoints"),
        ("patch", "modelplane.ai", "modelendpoints/status"),
    }
    assert rights() - rights(observe=False) == {("get", "", "secrets")}
