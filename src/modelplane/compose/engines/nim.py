"""NVIDIA NIM: an image that knows its model and the GPUs that it sees; variables tell it the rest."""

from modelplane.compose.engines.launch import Launch, LaunchRequest
from modelplane.compose.engines.one_node import check_one_node

HEALTH = "/v1/health/ready"


def launch(request: LaunchRequest) -> Launch:
    check_one_node(request, "NIM", splits=False)
    env: list[dict[str, object]] = [{"name": "NIM_SERVER_PORT", "value": str(request.port)}]
    if request.model_path is not None:
        env.append({"name": "NIM_MODEL_PATH", "value": request.model_path})
    return Launch((), request.args, env=tuple(env))
