"""lightkube: typed resources, server-side apply with conflicts, patches, a generic resource."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from lightkube import ApiError, Client, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Namespace
from lightkube.types import PatchType

from lab.sessions.steps import GROUP, NAMESPACE, PLURAL, VERSION, attempt, config, deployment

if TYPE_CHECKING:
    from collections.abc import Callable

ModelDeployment: Any = create_namespaced_resource(GROUP, VERSION, "ModelDeployment", PLURAL)


def refusal(error: Exception) -> object:
    if not isinstance(error, ApiError):
        return f"{type(error).__name__}: {error}"
    return {"status": error.status.code, "reason": error.status.reason}


def main(kubeconfig: str) -> None:
    client: Any = Client(config=KubeConfig.from_file(kubeconfig), namespace=NAMESPACE, field_manager="first")
    wanted = ConfigMap.from_dict(config("l", a="1"))

    def step(name: str, action: Callable[[], object]) -> None:
        attempt(name, action, refusal)

    step("create namespace", lambda: client.create(Namespace(metadata=ObjectMeta(name=NAMESPACE))).metadata.name)
    step("apply config", lambda: client.apply(wanted).to_dict())
    step("apply it again", lambda: client.apply(wanted).to_dict())
    other = ConfigMap.from_dict(config("l", a="2"))
    step("apply as another", lambda: client.apply(other, field_manager="second"))
    step("apply by force", lambda: client.apply(other, field_manager="second", force=True).to_dict())
    body = {"data": {"b": "2"}}
    step("merge", lambda: client.patch(ConfigMap, "l", body, patch_type=PatchType.MERGE).data)
    change = [{"op": "remove", "path": "/data/b"}]
    step("json patch", lambda: client.patch(ConfigMap, "l", change, patch_type=PatchType.JSON).data)
    missing = [{"op": "remove", "path": "/data/none"}]
    step("json patch of nothing", lambda: client.patch(ConfigMap, "l", missing, patch_type=PatchType.JSON))
    step("apply deployment", lambda: client.apply(ModelDeployment.from_dict(deployment("l"))).to_dict()["spec"])
    step("apply a wrong one", lambda: client.apply(ModelDeployment.from_dict(deployment("w", replicas=-1))))
    step("list", lambda: [found.metadata.name for found in client.list(ModelDeployment)])
    step("list elsewhere", lambda: [found.metadata.name for found in client.list(ModelDeployment, namespace="other")])
    step("delete deployment", lambda: client.delete(ModelDeployment, "l"))
    step("get it", lambda: client.get(ModelDeployment, "l"))
    step("delete config", lambda: client.delete(ConfigMap, "l"))


if __name__ == "__main__":
    main(sys.argv[1])
