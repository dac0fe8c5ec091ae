from modelplane.apiserver.store.database import Database
from modelplane.plane.service_plans import ServicePlans
from modelplane.reconcile.clock import SystemClock

API = "modelplane.ai/v1alpha1"


def service(name="chat"):
    groups = [{"weight": 1, "selector": {"matchLabels": {"app": "m"}}}]
    metadata = {"name": name, "namespace": "team"}
    return {"apiVersion": API, "kind": "ModelService", "metadata": metadata, "spec": {"endpoints": groups}}


def endpoint(ready):
    return {
        "apiVersion": API,
        "kind": "ModelEndpoint",
        "metadata": {"name": "a", "namespace": "team", "labels": {"app": "m"}},
        "spec": {"origin": "http://api.example"},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False", "reason": "X"}]},
    }


def test_plans_follow_the_store(tmp_path):
    with Database(tmp_path / "plane.db", clock=SystemClock()) as database:
        store = database.store("plane")
        store.create(service())
        plans = ServicePlans(store)
        changes = []
        plans.on_change = lambda: changes.append([each.ready for plan in plans.current for each in plan.endpoints])
        created = store.create(endpoint(ready=True))
        store.replace_status({**created, "status": endpoint(ready=False)["status"]})
        store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "team"}})
        assert changes == [[True], [False]]
        store.create(service("other"))
        assert [plan.key for plan in plans.current] == ["team/chat", "team/other"]
