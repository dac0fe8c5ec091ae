"""The function server's page: its own work, and the fleet that it watches through a real Kubernetes client."""

import asyncio
import json
import time
import urllib.request
from datetime import timedelta

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from modelplane.crossplane.fleet_informers import CACHES, CLUSTERS, DEPLOYMENTS, REPLICAS
from modelplane.crossplane.server import FunctionServer, Options
from modelplane.epp.transport.tls import issue_hop, self_signed_loopback
from modelplane.reconcile.metrics_page import FLEET_PAGE_METRICS
from tests.support.kube_api import KubeApi
from tests.support.waiting import until

pytestmark = pytest.mark.slow
API = "modelplane.ai/v1alpha1"
SINCE = "2026-01-01T00:00:00Z"
GPU = {"name": "gpu", "driver": "d", "deviceClassName": "c", "count": 8, "allocated": 2, "free": 6}
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
LABELS = {spec.name: spec.labels for spec in FLEET_PAGE_METRICS}


def condition(kind, status="True", reason="Available", since=SINCE):
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": since}


def named(kind, name, namespace="team", **body):
    metadata = {"name": name, "uid": "u", "creationTimestamp": SINCE, "generation": 1}
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": metadata | ({"namespace": namespace} if namespace else {}),
    } | body


def cluster(authority):
    pool = {
        "name": "gpus",
        "className": "h200",
        "nodes": 1,
        "devices": [GPU],
        "pricePerNodeHour": "8",
        "currency": "USD",
    }
    return named(
        "InferenceCluster",
        "east",
        "",
        spec={"cluster": {"source": "Existing"}, "nodePools": []},
        status={
            "conditions": [condition("Ready"), condition("ClusterReady", reason="ClusterRunning")],
            "gateway": {"address": "192.0.2.1", "caCertificate": authority},
            "gpuPools": [pool],
        },
    )


def replica(*conditions):
    member = {
        "role": "Standalone",
        "nodePoolName": "gpus",
        "deviceRequests": [{"name": "gpu", "deviceClassName": "c", "count": 2}],
        "template": {"spec": {"containers": [{"name": "engine", "image": "x"}]}},
    }
    spec = {
        "clusterName": "east",
        "deployment": {"name": "chat", "uid": "u"},
        "engines": [{"name": "main", "members": [member]}],
    }
    return named("ModelReplica", "chat-east-0", spec=spec, status={"conditions": list(conditions)})


def page(port):
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": OPENMETRICS})
    with urllib.request.urlopen(asked, timeout=30) as found:  # noqa: S310  loopback
        assert found.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        return {family.name: family for family in text_string_to_metric_families(found.read().decode())}


def values(family):
    return {tuple(sample.labels[name] for name in LABELS[family.name]): sample.value for sample in family.samples}


def serving(story, tmp_path, **options):
    async def main():
        async with KubeApi().serving() as api:
            file = tmp_path / "kubeconfig"
            config = {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "x", "cluster": {"server": api.url}}],
                "users": [{"name": "x", "user": {}}],
                "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
                "current-context": "x",
            }
            file.write_text(json.dumps(config))
            server = FunctionServer(Options("127.0.0.1:0", None, "127.0.0.1:0", kubeconfig=file, **options))
            await server.start()
            try:
                await story(api, server)
            finally:
                await server.stop()

    asyncio.run(main())


def test_the_fleet_that_a_server_watches_is_on_its_page(tmp_path):
    hop = issue_hop("east.clusters", time.time(), timedelta(days=30))

    async def story(api, server):
        api.put(CLUSTERS, cluster(hop.authority.decode()))
        deployment = named("ModelDeployment", "chat", spec={"replicas": 2}, status={"readyReplicas": 0})
        api.put(DEPLOYMENTS, deployment)
        api.put(REPLICAS, replica(condition("WorkloadReady", "False", "LoadingWeights")))
        entry = {"name": "east", "phase": "Hydrating", "stagedBytes": 5, "totalBytes": 10}
        api.put(CACHES, named("ModelCache", "weights", spec={"source": "S3"}, status={"clusters": [entry]}))
        live = server._live
        await until(lambda: live.informers.synced and all(len(part) == 1 for part in live.informers.held()))
        found = await asyncio.to_thread(page, server.admin_port)
        assert {spec.name for spec in FLEET_PAGE_METRICS} <= found.keys()
        chat, pool = ("team", "chat"), ("east", "gpus", "h200")
        assert values(found["modelplane_replicas_desired"]) == {chat: 2}
        assert values(found["modelplane_replicas_ready"]) == {chat: 0}
        assert values(found["modelplane_replicas_not_ready"]) == {(*chat, "LoadingWeights"): 1}
        assert values(found["modelplane_cluster_gpus_held"]) == {(*pool, "replicas"): 2, (*pool, "others"): 0}
        assert values(found["modelplane_deployment_cost_per_hour"]) == {(*chat, "USD"): 2.0}
        assert values(found["modelplane_cache_staged_bytes"]) == {("team", "weights", "east"): 5}
        expiry = values(found["modelplane_certificate_expiry_timestamp_seconds"])["gateway-ca", "east"]
        assert abs(expiry - time.time() - 30 * 86400) < 120
        assert not values(found["modelplane_replica_ready_duration_seconds"])

        api.put(REPLICAS, replica(condition("Ready", since="2026-01-01T00:01:30Z"), condition("WorkloadReady")))
        api.put(DEPLOYMENTS, {**deployment, "status": {"readyReplicas": 1}})
        await until(lambda: any(b"Available" in item.packed for item in live.informers.held().replicas))
        await until(lambda: any(b'"readyReplicas":1' in item.packed for item in live.informers.held().deployments))
        found = await asyncio.to_thread(page, server.admin_port)
        assert values(found["modelplane_replicas_ready"]) == {chat: 1}
        seconds = {
            s.name: s.value for s in found["modelplane_replica_ready_duration_seconds"].samples if "le" not in s.labels
        }
        assert seconds == {
            "modelplane_replica_ready_duration_seconds_count": 1,
            "modelplane_replica_ready_duration_seconds_sum": 90,
        }

    serving(story, tmp_path, live=True)


def test_a_server_shows_when_its_own_certificate_expires(tmp_path):
    certificate, key = self_signed_loopback("function", time.time(), timedelta(days=20))
    for name, content in (("tls.crt", certificate), ("tls.key", key), ("ca.crt", certificate)):
        (tmp_path / name).write_bytes(content)

    async def main():
        server = FunctionServer(Options("127.0.0.1:0", tmp_path, "127.0.0.1:0"))
        await server.start()
        try:
            return await asyncio.to_thread(page, server.admin_port)
        finally:
            await server.stop()

    expiry = values(asyncio.run(main())["modelplane_certificate_expiry_timestamp_seconds"])["serving", ""]
    assert abs(expiry - time.time() - 20 * 86400) < 120


def test_a_server_that_does_not_watch_shows_its_own_work_and_itself(tmp_path):
    async def story(_api, server):
        found = await asyncio.to_thread(page, server.admin_port)
        others = {name for name in found if not name.startswith("modelplane_function_")}
        assert others == {"modelplane_build", "modelplane_certificate_expiry_timestamp_seconds"}
        assert "modelplane_function_calls" in found

    serving(story, tmp_path)
