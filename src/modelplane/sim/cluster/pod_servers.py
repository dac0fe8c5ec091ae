"""The container of a pod that serves, and its port: an engine's or an endpoint picker's."""

from collections.abc import Mapping

from modelplane.api.labels import ENGINE_PORT
from modelplane.api.objects import Manifest, int_at, items_at
from modelplane.sim.cluster.pickers import picker_container, picker_port
from modelplane.sim.cluster.pod_status import engine_container


def server_container(pod: Manifest) -> Mapping[str, object] | None:
    """The container of the engine or the endpoint picker."""
    return engine_container(pod) or picker_container(pod)


def serving_port(pod: Manifest) -> int:
    """The port of the pod's engine or endpoint picker."""
    picker = picker_container(pod)
    if picker is not None:
        return picker_port(picker)
    container = engine_container(pod) or {}
    ports = (int_at(entry, "containerPort") for entry in items_at(container, "ports"))
    return next((port for port in ports if port), ENGINE_PORT)
