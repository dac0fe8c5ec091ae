"""The warm-up container of a pod that serves: the pod is ready when the engine has answered its requests.

It is a container and not an exec probe or a hook of the engine: those need a program in the engine's image, and a hook
that waits keeps the kubelet from probing. Its image is ours.
"""

from modelplane.api.labels import WARM_UP_CONTAINER
from modelplane.api.models import WarmUp
from modelplane.compose.context import Context
from modelplane.compose.tenancy import OWN_SECURITY

PORT = 9010
_PERIOD_S = 2


def warm_up_containers(context: Context, engine_port: int) -> list[dict[str, object]]:
    """None where the deployment asks for none."""
    given = context.replica.spec.warm_up
    if given is None:
        return []
    check = {"httpGet": {"path": "/ready", "port": PORT}, "timeoutSeconds": 5}
    container: dict[str, object] = {
        "name": WARM_UP_CONTAINER,
        "image": context.images.warm_up,
        "args": [f"--engine-port={engine_port}", f"--port={PORT}", *_arguments(given)],
        "securityContext": dict(OWN_SECURITY),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "readinessProbe": {**check, "periodSeconds": _PERIOD_S, "failureThreshold": 3},
    }
    return [container]


def _arguments(given: WarmUp) -> list[str]:
    requests = [f"--request={request.path}={request.body}" for request in given.requests]
    prompts = given.prompts if given.prompts is not None else 0
    return [f"--prompts={prompts}", f"--timeout={given.timeout_seconds}", *requests]
