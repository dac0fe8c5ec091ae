"""The official Python client: typed and custom objects, patches, the scale subresource, a watch, errors."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

from lab.sessions.steps import GROUP, NAMESPACE, PLURAL, VERSION, attempt, config, deployment, namespace

# Its annotations contradict how it is called; what it does is what this session finds out.
kubernetes: Any = importlib.import_module("kubernetes")

WHERE: dict[str, Any] = {"group": GROUP, "version": VERSION, "namespace": NAMESPACE, "plural": PLURAL}


def refusal(error: Exception) -> object:
    """Status and reason; sentences are the servers' own."""
    if not isinstance(error, kubernetes.client.ApiException):
        return f"{type(error).__name__}: {error}"
    body = json.loads(error.body) if error.body else {}
    causes = (body.get("details") or {}).get("causes") or ()
    return {"status": error.status, "reason": body.get("reason"), "fields": sorted({c.get("field") for c in causes})}


def main(kubeconfig: str) -> None:
    client = kubernetes.config.new_client_from_config(kubeconfig)
    core, custom = kubernetes.client.CoreV1Api(client), kubernetes.client.CustomObjectsApi(client)

    def plain(found: object) -> Any:  # noqa: ANN401 - decoded JSON
        return client.sanitize_for_serialization(found)

    def step(name: str, action: Any) -> None:  # noqa: ANN401 - a closure over an untyped client
        attempt(name, action, refusal)

    step("create namespace", lambda: plain(core.create_namespace(namespace()))["metadata"]["name"])
    step("create config", lambda: plain(core.create_namespaced_config_map(NAMESPACE, config(a="1"))))
    step("create it again", lambda: core.create_namespaced_config_map(NAMESPACE, config(a="1")))
    step("patch config", lambda: plain(core.patch_namespaced_config_map("c", NAMESPACE, {"data": {"b": "2"}})))
    step(
        "list configs",
        lambda: [c.metadata.name for c in core.list_namespaced_config_map(NAMESPACE, label_selector="x=y").items],
    )
    step("create deployment", lambda: custom.create_namespaced_custom_object(**WHERE, body=deployment()))
    step(
        "create a wrong one", lambda: custom.create_namespaced_custom_object(**WHERE, body=deployment("w", replicas=-1))
    )
    step("get deployment", lambda: custom.get_namespaced_custom_object(**WHERE, name="m"))
    step("get none", lambda: custom.get_namespaced_custom_object(**WHERE, name="none"))
    step(
        "scale",
        lambda: custom.patch_namespaced_custom_object_scale(**WHERE, name="m", body={"spec": {"replicas": 5}})["spec"],
    )
    step("read scale", lambda: custom.get_namespaced_custom_object_scale(**WHERE, name="m")["spec"])
    step(
        "list by label",
        lambda: [
            d["metadata"]["name"]
            for d in custom.list_namespaced_custom_object(**WHERE, label_selector="team=a")["items"]
        ],
    )
    step("watch", lambda: _first_event(custom))
    stale = deployment(replicas=1)
    stale["metadata"] = {"name": "m", "namespace": NAMESPACE, "resourceVersion": "1"}
    step("replace a stale one", lambda: custom.replace_namespaced_custom_object(**WHERE, name="m", body=stale))
    step(
        "status by patch",
        lambda: custom.patch_namespaced_custom_object_status(**WHERE, name="m", body={"status": {"replicas": 1}})[
            "status"
        ],
    )
    step("delete", lambda: custom.delete_namespaced_custom_object(**WHERE, name="m")["status"])
    step("delete again", lambda: custom.delete_namespaced_custom_object(**WHERE, name="m"))
    step("delete config", lambda: core.delete_namespaced_config_map("c", NAMESPACE).status)


def _first_event(custom: Any) -> object:  # noqa: ANN401 - an untyped client
    watch = kubernetes.watch.Watch()
    for event in watch.stream(custom.list_namespaced_custom_object, **WHERE, timeout_seconds=60):
        watch.stop()
        return {"type": event["type"], "name": event["object"]["metadata"]["name"]}
    return None


if __name__ == "__main__":
    main(sys.argv[1])
