"""Dynamo: a DynamoGraphDeployment for each replica, with a frontend and a component for each engine.

Requests go to the frontend, which speaks OpenAI's API, finds the workers by Dynamo's own discovery and moves prompts to
prefill workers by itself: no picker and no routing sidecar of ours. Engines are run by Dynamo's module around vLLM, so
the image has to be one of Dynamo's; the frontend runs from the same. What it serves itself, probes and ports of
workers, is Dynamo's and is not written here.

Engines of several nodes are refused: Dynamo works out their flags from the GPUs that a container requests by name, and
ours are claimed. The stack Dynamo has gangs without it.
"""

from collections.abc import Mapping

from modelplane.api.labels import ENGINE_CONTAINER, ENGINE_PORT
from modelplane.api.models import ReplicaEngine
from modelplane.api.names import make_name
from modelplane.api.reasons import Reason
from modelplane.compose.backends.rendered import Rendered
from modelplane.compose.context import ClusterRenderError, Context, RenderError, head_member, is_gang
from modelplane.compose.contract import ReadyWhen
from modelplane.compose.disruption import disruption_budgets
from modelplane.compose.engines.launch import has_flag, without_flag
from modelplane.compose.gang import SCHEDULERS
from modelplane.compose.gang.gang_metadata import GangMetadata, companion_metadata, gang_of
from modelplane.compose.pod_template import PROBES
from modelplane.compose.pods import RenderedPod, launch_of, render_pod, scheduling_spec
from modelplane.compose.ports import engine_container
from modelplane.compose.tenancy import ENGINE_SECURITY, POD_SECURITY
from modelplane.compose.workload_metadata import annotated, workload_metadata

CONTAINER = "main"
"""The name that Dynamo knows a component's container by."""
MAX_NAME = 32
_FRONTEND = "frontend"
_TYPES = {None: "worker", "Prefill": "prefill", "Decode": "decode"}
_NAMES = "--served-model-name"
_WORKER = ("python3", "-m", "dynamo.vllm")
_NO_SHARED_MEMORY = "0"
"""Our pods bring their own."""


def render(context: Context) -> Rendered:
    if context.replica.spec.warm_up is not None:
        raise ClusterRenderError(Reason.NOT_SUPPORTED, "warmUp needs engines that answer requests themselves")
    for engine in context.replica.spec.engines:
        _check(engine)
    scheduler = SCHEDULERS[context.scheduling.type_]
    gang = gang_of(context)
    gang_metadata = scheduler.gang_metadata(gang)
    engines = context.replica.spec.engines
    labels, annotations = workload_metadata(context, head_member(engines[0]), gang_metadata)
    components = [_frontend(context), *(_component(context, engine, gang_metadata) for engine in engines)]
    spec = {"backendFramework": "vllm", "components": components}
    name = make_name(context.name, context.name, limit=MAX_NAME)
    item = context.object("nvidia.com/v1beta1", "DynamoGraphDeployment", name, labels, spec=spec)
    workload = context.remote(annotated(item, annotations), ReadyWhen.READY)
    ref = {"name": f"{name}-{_FRONTEND}", "port": ENGINE_PORT}
    support = {**scheduler.objects(gang), **disruption_budgets(context)}
    return Rendered({"workload-graph-dynamo": workload}, {}, (ref,), (ENGINE_PORT,), support)


def _check(engine: ReplicaEngine) -> None:
    if engine.type_ != "vLLM" or engine_container(head_member(engine)).command:
        message = f"engine {engine.name}: Dynamo is rendered for vLLM without a command of its own"
        raise ClusterRenderError(Reason.NOT_SUPPORTED, message)
    if is_gang(engine):
        message = f"engine {engine.name}: backend type Dynamo is for engines of one node; spec.stack: Dynamo has gangs"
        raise ClusterRenderError(Reason.NOT_SUPPORTED, message)
    if any(container.name == CONTAINER for container in head_member(engine).template.spec.containers):
        raise RenderError(Reason.NOT_SUPPORTED, f"engine {engine.name}: Dynamo has a container named {CONTAINER}")


def _frontend(context: Context) -> dict[str, object]:
    """From the image of the first engine; Dynamo knows what to run in it."""
    image = engine_container(head_member(context.replica.spec.engines[0])).image
    metadata = companion_metadata(SCHEDULERS[context.scheduling.type_], context)
    spec = {
        "enableServiceLinks": False,
        "securityContext": dict(POD_SECURITY),
        "containers": [{"name": CONTAINER, "image": image, "securityContext": dict(ENGINE_SECURITY)}],
        **scheduling_spec(context, metadata),
    }
    labels = {**metadata.pod_labels, **context.labels}
    own = {"labels": labels, **({"annotations": dict(metadata.pod_annotations)} if metadata.pod_annotations else {})}
    return {"name": _FRONTEND, "type": _FRONTEND, "replicas": 1, "podTemplate": {"metadata": own, "spec": spec}}


def _component(context: Context, engine: ReplicaEngine, gang_metadata: GangMetadata) -> dict[str, object]:
    pod = render_pod(context, engine, head_member(engine), gang_metadata)
    return {
        "name": engine.name,
        "type": _TYPES[engine.phase],
        "replicas": engine.copies,
        "sharedMemorySize": _NO_SHARED_MEMORY,
        "podTemplate": {**pod.template(), "spec": _pod_spec(context, engine, pod)},
    }


def _pod_spec(context: Context, engine: ReplicaEngine, pod: RenderedPod) -> dict[str, object]:
    """Without the word against a ServiceAccount's token: workers register themselves with the cluster's API."""
    spec = {key: value for key, value in pod.spec.items() if key != "automountServiceAccountToken"}
    containers = spec["containers"]
    assert isinstance(containers, list)  # noqa: S101  a pod has some
    spec["containers"] = [
        _container(context, engine, item) if item["name"] == ENGINE_CONTAINER else item for item in containers
    ]
    return spec


def _container(context: Context, engine: ReplicaEngine, item: Mapping[str, object]) -> dict[str, object]:
    kept = {key: value for key, value in item.items() if key not in {"ports", *PROBES}}
    return {**kept, "name": CONTAINER, "command": list(_WORKER), "args": list(_words(context, engine))}


def _words(context: Context, engine: ReplicaEngine) -> tuple[str, ...]:
    """vLLM's, with the model by its flag, the phase, and without a port: a worker serves none.

    Dynamo knows a model by one name: the user's, or the deployment's.
    """
    given = engine_container(head_member(engine)).args
    words = without_flag(launch_of(context, engine, head_member(engine)).args, "--port")
    if not has_flag(given, _NAMES):
        words = _with_one_name(words, context.deployment)
    model = words if words[0].startswith("-") else ("--model", *words)
    phase = ("--disaggregation-mode", engine.phase.lower()) if engine.phase else ()
    return (*model, *phase)


def _with_one_name(words: tuple[str, ...], name: str) -> tuple[str, ...]:
    if _NAMES not in words:
        return (*words, _NAMES, name)
    start = words.index(_NAMES) + 1
    end = next((at for at in range(start, len(words)) if words[at].startswith("-")), len(words))
    return (*words[:start], name, *words[end:])
