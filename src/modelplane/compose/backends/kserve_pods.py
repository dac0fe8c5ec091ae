"""A pod as KServe is told of it: in full, so that nothing of its presets shows through where it would hurt."""

from collections.abc import Mapping

from modelplane.api.labels import ENGINE_CONTAINER
from modelplane.api.models import ReplicaEngine, ReplicaMember
from modelplane.api.objects import Manifest, items_at
from modelplane.api.reasons import Reason
from modelplane.compose.backends.kserve_releases import Release
from modelplane.compose.context import Context, RenderError
from modelplane.compose.lowering import CACHE_PATH
from modelplane.compose.pod_template import PROBES
from modelplane.compose.pods import RenderedPod, drain_seconds, launch_of
from modelplane.compose.ports import engine_container, is_routed

CONTAINER = "main"
"""The name that KServe knows the engine's container by."""
_HANDLERS = ("httpGet", "tcpSocket", "grpc", "exec")
_LIVENESS = {"periodSeconds": 10, "timeoutSeconds": 10, "failureThreshold": 30}


def pod_spec(
    context: Context, engine: ReplicaEngine, member: ReplicaMember, pod: RenderedPod, release: Release
) -> dict[str, object]:
    spec = dict(pod.spec)
    if is_routed(context, engine):
        # KServe's sidecar asks the cluster which pods it may send prompts to.
        del spec["automountServiceAccountToken"]
    spec["containers"] = [_container(context, engine, member, item) for item in items_at(spec, "containers")]
    if not release.leaves_storage:
        spec = _without_weights(context, spec)
    found = literal(spec)
    assert isinstance(found, dict)  # noqa: S101  a mapping stays one
    return found


def literal(value: object) -> object:
    """The value with its braces escaped: KServe reads everything as a template."""
    if isinstance(value, str):
        return value.replace("{{", "{{`{{`}}")
    if isinstance(value, Mapping):
        return {key: literal(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [literal(item) for item in value]
    return value


def _container(context: Context, engine: ReplicaEngine, member: ReplicaMember, item: Manifest) -> Manifest:
    if item["name"] == CONTAINER:
        raise RenderError(Reason.NOT_SUPPORTED, f"engine {engine.name}: KServe has a container named {CONTAINER}")
    if item["name"] != ENGINE_CONTAINER:
        return item
    security = item["securityContext"]
    rendered = {**item, "name": CONTAINER, "command": _command(context, engine, member)}
    rendered.setdefault("args", [])
    # Its presets demand another user than root, which the images of most engines run as.
    rendered["securityContext"] = {**(security if isinstance(security, dict) else {}), "runAsNonRoot": False}
    if "lifecycle" in rendered and not engine_container(member).lifecycle:
        # Its presets stop by a program, and a hook may be of one kind only.
        rendered["lifecycle"] = {"preStop": {"exec": {"command": ["/bin/sleep", str(drain_seconds(engine, member))]}}}
    return {**rendered, **_probes(rendered)}


def _command(context: Context, engine: ReplicaEngine, member: ReplicaMember) -> list[str]:
    launch = launch_of(context, engine, member)
    command = launch.command or launch.entrypoint
    if not command:
        message = f"engine {engine.name}: KServe would put its own command before the args; give the engine a command"
        raise RenderError(Reason.NOT_SUPPORTED, message)
    return list(command)


def _probes(container: Mapping[str, object]) -> dict[str, object]:
    """Plain HTTP, whatever the presets say, and a liveness probe that a busy engine passes."""
    found = {name: _plain(probe) for name in PROBES if isinstance(probe := container.get(name), dict)}
    if "readinessProbe" in found and "livenessProbe" not in found:
        handler = {key: value for key, value in found["readinessProbe"].items() if key in _HANDLERS}
        found["livenessProbe"] = {**handler, **_LIVENESS}
    return dict(found)


def _plain(probe: dict[str, object]) -> dict[str, object]:
    """KServe's presets ask by HTTPS, and a merge would keep that."""
    http_get = probe.get("httpGet")
    return (
        {**probe, "httpGet": {**http_get, "scheme": http_get.get("scheme", "HTTP")}}
        if isinstance(http_get, dict)
        else probe
    )


def _without_weights(context: Context, spec: dict[str, object]) -> dict[str, object]:
    """Less the weights, which such a KServe mounts itself, at the one path that it knows."""
    weights = context.weights
    if weights is None:
        return spec
    if weights.mount_path != CACHE_PATH:
        raise RenderError(Reason.NOT_SUPPORTED, f"KServe 0.16 mounts weights at {CACHE_PATH} only")
    name = f"cache-{context.volumes.index(weights)}"
    containers = [
        {**item, "volumeMounts": [mount for mount in items_at(item, "volumeMounts") if mount["name"] != name]}
        for item in items_at(spec, "containers")
    ]
    checked = any(
        mount["name"] == name for item in items_at(spec, "initContainers") for mount in items_at(item, "volumeMounts")
    )
    volumes = [volume for volume in items_at(spec, "volumes") if checked or volume["name"] != name]
    return {**spec, "containers": containers, "volumes": volumes}
