"""What the sessions share: the objects they write, and how a step's outcome is told."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

NAMESPACE = "session"
GROUP, VERSION, PLURAL = "modelplane.ai", "v1alpha1", "modeldeployments"
_PASSING = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def namespace() -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def deployment(name: str = "m", *, replicas: int = 2, **spec: object) -> dict[str, object]:
    """A complete ModelDeployment."""
    device = {"name": "gpu", "count": 1, "selectors": [{"cel": 'device.driver == "gpu.nvidia.com"'}]}
    container = {"name": "engine", "image": "vllm/vllm-openai:v0.27.1"}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"team": "a"}},
        "spec": {
            "replicas": replicas,
            "nodeSelector": {"devices": [device]},
            "workers": {"template": {"spec": {"containers": [container]}}},
            **spec,
        },
    }


def config(name: str = "c", **data: str) -> dict[str, object]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def settled(value: object) -> object:
    """Without what is different in every run; managers are kept by name."""
    if isinstance(value, dict):
        kept = {key: settled(inner) for key, inner in value.items() if key not in _PASSING and inner is not None}
        managers = value.get("managedFields")
        if isinstance(managers, list):
            kept["managers"] = sorted({str(entry.get("manager")) for entry in managers})
        return kept
    if isinstance(value, list):
        return [settled(inner) for inner in value]
    return _MOMENT.sub("MOMENT", value) if isinstance(value, str) else value


def tell(step: str, outcome: object) -> None:
    print(json.dumps({"step": step, "outcome": settled(outcome)}, sort_keys=True, default=str), flush=True)


def attempt(step: str, action: Callable[[], object], failed: Callable[[Exception], object]) -> None:
    """Tell what an action returned, or how it was refused."""
    try:
        tell(step, action())
    except Exception as error:  # noqa: BLE001 - each client has errors of its own, told by `failed`
        tell(step, {"failed": failed(error)})
