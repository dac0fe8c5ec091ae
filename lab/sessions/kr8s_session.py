"""kr8s: discovery by name, object methods, waiting, label selectors."""

from __future__ import annotations

import sys
from typing import Any

import kr8s
from kr8s.objects import ConfigMap, Namespace, new_class

from lab.sessions.steps import GROUP, NAMESPACE, VERSION, attempt, config, deployment, namespace


def refusal(error: Exception) -> object:
    response = getattr(error, "response", None)
    return {"error": type(error).__name__, "status": getattr(response, "status_code", None)}


def main(kubeconfig: str) -> None:
    api: Any = kr8s.api(kubeconfig=kubeconfig, namespace=NAMESPACE)
    kind: Any = new_class("ModelDeployment", f"{GROUP}/{VERSION}", namespaced=True, scalable=True)

    def step(name: str, action: Any) -> None:  # noqa: ANN401 - closures over an untyped client
        attempt(name, action, refusal)

    def made(cls: Any, body: dict[str, object]) -> Any:  # noqa: ANN401 - as above
        found = cls(body, api=api)
        found.create()
        return found

    def refreshed(found: Any) -> Any:  # noqa: ANN401 - as above
        found.refresh()
        return found.raw.to_dict()

    step("create namespace", lambda: made(Namespace, namespace()).name)
    step("create config", lambda: refreshed(made(ConfigMap, config("k", a="1"))))
    step("exists", lambda: ConfigMap("k", namespace=NAMESPACE, api=api).exists())
    step("exists not", lambda: ConfigMap("none", namespace=NAMESPACE, api=api).exists())
    step("create deployment", lambda: refreshed(made(kind, deployment("k")))["spec"])
    step("create a wrong one", lambda: made(kind, deployment("w", replicas=-1)))
    step("by name", lambda: [found.name for found in api.get(f"modeldeployments.{GROUP}")])
    step("by short name", lambda: [found.name for found in api.get("modeldeployments", label_selector="team=a")])
    found = kind.get("k", namespace=NAMESPACE, api=api)
    step("label", lambda: (found.label({"x": "y"}), refreshed(found)["metadata"])[1])
    step("annotate", lambda: (found.annotate({"x": "y"}), refreshed(found)["metadata"])[1])
    step("scale", lambda: (found.scale(3), found.replicas)[1])
    step("patch", lambda: (found.patch({"spec": {"replicas": 4}}), found.replicas)[1])
    step("delete", found.delete)
    step("gone", lambda: (found.wait("delete", timeout=120), found.exists())[1])
    step("delete config", lambda: ConfigMap("k", namespace=NAMESPACE, api=api).delete())


if __name__ == "__main__":
    main(sys.argv[1])
