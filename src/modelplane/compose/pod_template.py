"""What a pod template says beyond its containers' words, merged with what we render.

volumes, mounts   beside ours; a mount at the place of our shared memory or downloads takes its place
probes, preStop   in place of ours, on the pod that answers requests
security          who a container runs as; capabilities stay ours
the rest          as it is written
"""

from collections.abc import Iterable, Mapping, Sequence

from modelplane.api.codec import encode
from modelplane.api.labels import CACHE_CHECK_CONTAINER, ENGINE, REPLICA
from modelplane.api.models import Container, InitContainer, PodSpec, ReplicaEngine, ReplicaMember
from modelplane.api.objects import Json
from modelplane.api.reasons import Reason
from modelplane.compose.context import Context, RenderError
from modelplane.compose.pod_references import volume_with_copy, with_copies
from modelplane.compose.tenancy import ENGINE_SECURITY, POD_SECURITY

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
_AS_WRITTEN = ("affinity", "runtimeClassName", "hostname", "serviceAccountName")
_GAINED = frozenset({"privileged"})


def check_template(engine: ReplicaEngine, member: ReplicaMember, ours: Iterable[str], *, routed: bool) -> None:
    """Refuses a template that could not be merged."""
    template = member.template.spec
    named = [volume.name for volume in template.volumes]
    taken = sorted(set(ours) & set(named))
    if taken:
        raise _refused(engine, f"volumes: {taken[0]} is the name of a volume of ours")
    if routed and template.service_account_name is not None:
        raise _refused(engine, "serviceAccountName: the routing sidecar of decode pods needs one of its own")
    containers: list[Container | InitContainer] = [*template.containers, *template.init_containers]
    if any(container.name == CACHE_CHECK_CONTAINER for container in containers):
        raise _refused(engine, f"containers: {CACHE_CHECK_CONTAINER} is the name of a container of ours")
    for container in containers:
        missing = next((mount.name for mount in container.volume_mounts if mount.name not in named), None)
        if missing is not None:
            raise _refused(engine, f"container {container.name}: volumeMounts: no volume is named {missing}")


def _refused(engine: ReplicaEngine, wrong: str) -> RenderError:
    return RenderError(Reason.INVALID, f"engine {engine.name}: {wrong}")


def template_volumes(context: Context, template: PodSpec) -> list[Json]:
    return [volume_with_copy(context.name, encode(volume)) for volume in template.volumes]


def template_spec(
    context: Context, engine: ReplicaEngine, template: PodSpec, initial: Sequence[Json] = ()
) -> dict[str, object]:
    """Fields of the pod that users set. `initial` are init containers of ours, which run before theirs."""
    written = encode(template)
    spec: dict[str, object] = {key: written[key] for key in _AS_WRITTEN if written.get(key)}
    if template.topology_spread_constraints:
        selector = {"matchLabels": {REPLICA: context.name, ENGINE: engine.name}}
        spec["topologySpreadConstraints"] = [
            {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **encode(each), "labelSelector": selector}
            for each in template.topology_spread_constraints
        ]
    if initial or template.init_containers:
        spec["initContainers"] = [*initial, *(_init_container(context, each) for each in template.init_containers)]
    return spec


def _init_container(context: Context, container: InitContainer) -> Json:
    rendered = with_copies(context.name, encode(container))
    return {**rendered, "securityContext": security(container, ENGINE_SECURITY)}


def pod_security(template: PodSpec) -> dict[str, object]:
    given = encode(template.security_context) if template.security_context else {}
    return {**given, **POD_SECURITY}


def security(container: Container | InitContainer, ours: Mapping[str, object]) -> dict[str, object]:
    """Ours win: a tenant gains nothing on the node."""
    given = encode(container.security_context) if container.security_context else {}
    kept = {key: value for key, value in given.items() if key not in _GAINED}
    return {**kept, **ours}


def mounts(
    engine: ReplicaEngine, container: Container, ours: list[dict[str, object]], fixed: frozenset[str]
) -> list[Json]:
    """Our mounts and the user's. Nothing may cover the paths of caches, which are `fixed`."""
    given = [encode(mount) for mount in container.volume_mounts]
    paths = {str(mount["mountPath"]).rstrip("/") for mount in given}
    covered = sorted(paths & fixed)
    if covered:
        raise _refused(engine, f"container {container.name}: volumeMounts: a cache is mounted at {covered[0]}")
    return [*(mount for mount in ours if mount["mountPath"] not in paths), *given]


def with_probes(container: Container, ours: Mapping[str, object]) -> dict[str, object]:
    """The user's probes where there are such. A readiness probe also tells when the engine has started."""
    given = encode(container)
    found: dict[str, object] = {**ours, **{name: given[name] for name in PROBES if name in given}}
    started, ready = ours.get("startupProbe"), given.get("readinessProbe")
    if "startupProbe" not in given and isinstance(ready, dict) and isinstance(started, dict):
        timing = {key: value for key, value in started.items() if key.endswith(("Seconds", "Threshold"))}
        found["startupProbe"] = {**_handler(ready), **timing}
    return found


def _handler(probe: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in probe.items() if not key.endswith(("Seconds", "Threshold"))}
