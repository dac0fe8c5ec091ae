"""The pods of a pool, over the Kubernetes API."""

import pytest

from modelplane.epp.datalayer.discovery import InferencePoolSpec, PoolEndpoints, SelectedPods
from modelplane.epp.datalayer.discovery.inference_pool import INFERENCE_POOLS, pool_of
from modelplane.epp.datalayer.discovery.pods import PODS
from tests.support.kube_api import tell
from tests.support.waiting import until


def pool(name="pool", ports=(8000,), failure_mode=None, **labels):
    spec = {"selector": {"matchLabels": labels or {"app": "x"}}, "targetPorts": [{"number": port} for port in ports]}
    if failure_mode:
        spec["endpointPickerRef"] = {"name": "epp", "port": {"number": 9002}, "failureMode": failure_mode}
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec}


def pod(name, ip, *, ready=True, app="x", namespace="team", **metadata):
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}, **metadata},
        "status": {"podIP": ip, "conditions": conditions},
    }


def shown(source):
    return [(endpoint.name, endpoint.address) for endpoint in source.current]


def test_pods_come_change_and_go():
    async def story(api, client):
        api.put(INFERENCE_POOLS, pool())
        api.put(INFERENCE_POOLS, pool("another", app="y"))
        api.put(PODS, pod("p-1", "10.0.0.1"))
        api.put(PODS, pod("p-2", "10.0.0.2", ready=False))
        api.put(PODS, pod("other", "10.0.0.3", app="y"))
        api.put(PODS, pod("elsewhere", "10.0.0.4", namespace="far"))
        source = PoolEndpoints(client, "team", "pool")
        await source.start()
        await until(lambda: source.known)
        assert (shown(source), source.problem) == ([("team/p-1", "10.0.0.1:8000")], "")
        first = source.current[0]
        api.put(PODS, pod("p-2", "10.0.0.2"))
        await until(lambda: len(source.current) == 2)
        assert source.current[0] is first
        api.put(PODS, pod("p-1", "10.0.0.1", deletionTimestamp="2026-01-01T00:00:00Z"))
        await until(lambda: shown(source) == [("team/p-2", "10.0.0.2:8000")])
        api.delete(PODS, "p-2", "team")
        await until(lambda: not source.current)
        assert source.known
        await source.stop()

    tell(story)


def test_ports_and_selector_of_the_pool_may_change():
    async def story(api, client):
        api.put(INFERENCE_POOLS, pool(ports=(8000, 8001)))
        api.put(PODS, pod("p", "10.0.0.1", annotations={"llm-d.ai/active-ports": "8001,9"}))
        api.put(PODS, pod("q", "10.0.0.2", app="y"))
        source = PoolEndpoints(client, "team", "pool")
        await source.start()
        await until(lambda: shown(source) == [("team/p:8001", "10.0.0.1:8001")])
        api.put(INFERENCE_POOLS, pool(ports=(8001,)))
        await until(lambda: shown(source) == [("team/p", "10.0.0.1:8001")])
        api.put(INFERENCE_POOLS, pool(app="y", ports=(7,)))
        await until(lambda: shown(source) == [("team/q", "10.0.0.2:7")])
        api.put(INFERENCE_POOLS, pool(app="nobody"))
        await until(lambda: not source.current)
        await source.stop()

    tell(story)


def test_a_missing_pool_is_a_problem_and_a_deleted_one_is_empty():
    async def story(api, client):
        source = PoolEndpoints(client, "team", "pool")
        await source.start()
        assert (source.known, source.current) == (False, ())
        assert source.problem == "InferencePool team/pool is not there, or cannot be read"
        api.put(PODS, pod("p", "10.0.0.1"))
        api.put(INFERENCE_POOLS, pool(failure_mode="FailOpen"))
        await until(lambda: source.current)
        assert (source.problem, source.spec) == ("", InferencePoolSpec("app=x", (8000,), fails_open=True))
        api.delete(INFERENCE_POOLS, "pool", "team")
        await until(lambda: not source.current)
        assert "is not there" in source.problem
        await source.stop()

    tell(story)


def test_endpoints_outlive_the_api():
    async def story(api, client):
        api.put(INFERENCE_POOLS, pool())
        api.put(PODS, pod("p", "10.0.0.1"))
        source = PoolEndpoints(client, "team", "pool")
        await source.start()
        await until(lambda: source.current)
        api.refusals.update({"list": 503, "watch": 503})
        api.drop()
        await until(lambda: "503" in source.problem)
        assert shown(source) == [("team/p", "10.0.0.1:8000")]
        await source.stop()

    tell(story)


def test_an_api_that_refuses_does_not_hold_up_the_start():
    async def story(api, client):
        api.refusals["list"] = 403
        source = PoolEndpoints(client, "team", "pool")
        await source.start()
        assert (source.known, "403" in source.problem) == (False, True)
        await source.stop()

    tell(story)


def test_pods_by_a_selector_without_a_pool():
    async def story(api, client):
        api.put(PODS, pod("p", "10.0.0.1"))
        source = SelectedPods(client, "team", InferencePoolSpec("app=x", (8000,)))
        heard = []
        source.on_change(heard.append)
        await source.start()
        assert shown(source) == [("team/p", "10.0.0.1:8000")]
        assert heard == [source.current]
        await source.stop()

    tell(story)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"selector": {"matchLabels": {}}, "targetPorts": [{"number": 1}]}, "matchLabels: must not be empty"),
        ({"selector": {"matchLabels": {"a": "b"}}, "targetPorts": []}, "1 to 8 ports"),
        ({"selector": {"matchLabels": {"a": "b"}}, "targetPorts": [{"number": n} for n in range(1, 10)]}, "1 to 8"),
        ({"selector": {"matchLabels": {"a": "b"}}, "targetPorts": [{"number": 70000}]}, "1 to 8 ports"),
        ({"targetPorts": [{"number": 1}]}, "missing required field `selector`"),
    ],
)
def test_pools_that_cannot_be_read(spec, problem):
    with pytest.raises(ValueError, match=problem):
        pool_of({"spec": spec})
