"""The routing sidecar of decode pods: the prompt goes to the prefill pod that the picker chose, then to the engine.

It answers on the port that requests come in on; the engine listens behind it. The check of where a prompt may be sent
reads the pool, so these pods have a token of a service account that may read pools and pods of their namespace.
"""

from dataclasses import replace

from modelplane.api.labels import ROUTING_SIDECAR_CONTAINER
from modelplane.api.models import ReplicaEngine, ReplicaMember
from modelplane.compose.container_requests import own_requests
from modelplane.compose.context import Context
from modelplane.compose.engines import ENGINES
from modelplane.compose.phase_agreement import bootstrap_arguments
from modelplane.compose.picker import SERVICE_ACCOUNT, pool_name
from modelplane.compose.pods import HTTP, RenderedPod, drain_seconds, probes
from modelplane.compose.ports import engine_port, is_routed, serving_port
from modelplane.compose.tenancy import OWN_SECURITY


def with_sidecar(context: Context, engine: ReplicaEngine, member: ReplicaMember, pod: RenderedPod) -> RenderedPod:
    if not is_routed(context, engine):
        return pod
    containers, sidecar = pod.spec["containers"], _sidecar(context, engine, member)
    spec = {
        **pod.spec,
        "serviceAccountName": context.child_name(SERVICE_ACCOUNT),
        "automountServiceAccountToken": True,
        "containers": [*(containers if isinstance(containers, list) else []), own_requests(sidecar, pod.share)],
    }
    return replace(pod, spec=spec)


def _sidecar(context: Context, engine: ReplicaEngine, member: ReplicaMember) -> dict[str, object]:
    port = serving_port(context)
    container: dict[str, object] = {
        "name": ROUTING_SIDECAR_CONTAINER,
        "image": context.images.routing_sidecar,
        "args": [
            f"--port={port}",
            f"--vllm-port={engine_port(context, engine)}",
            f"--kv-connector={ENGINES[engine.type_].kv_connector}",
            "--secure-proxy=false",
            "--enable-ssrf-protection=true",
            "--pool-group=inference.networking.k8s.io",
            f"--inference-pool={context.namespace}/{pool_name(context)}",
            *bootstrap_arguments(context),
        ],
        "ports": [{"name": HTTP, "containerPort": port}],
        "securityContext": dict(OWN_SECURITY),
        **probes(context, port),
    }
    drain = drain_seconds(engine, member)
    if drain:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": drain}}}
    return container
