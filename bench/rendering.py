"""What rendering costs in processor time: one replica of the largest shape, and a thousand mixed ones."""

import statistics
import time
from pathlib import Path

import yaml

from modelplane.api.codec import decode
from modelplane.api.models import ModelDeployment, ModelReplica
from modelplane.api.objects import Manifest
from modelplane.compose import model_replica
from modelplane.compose.contract import ComposeRequest
from modelplane.testing.placing import placed

DEPLOYMENTS = Path(__file__).resolve().parent.parent / "tests" / "compose" / "deployments"
SHAPES = ("single-gpu", "tensor-8", "pipeline-2", "data-parallel", "kimi-k2-5p3d", "qwen3-coder-lora", "gpt-oss-20b")
LARGEST = "kimi-k2-5p3d"
ONE_LIMIT_MS, THOUSAND_LIMIT_S = 2.0, 1.0
REPLICAS = 1000

Request = ComposeRequest[ModelReplica]


def rows() -> list[dict[str, object]]:
    requests = {shape: _request(shape) for shape in SHAPES}
    one_ms = statistics.median(_time_s([requests[LARGEST]]) for _ in range(100)) * 1000
    many = [requests[SHAPES[index % len(SHAPES)]] for index in range(REPLICAS)]
    thousand_s = min(_time_s(many) for _ in range(3))
    return [
        _row("rendering/one-replica-5p3d", one_ms, "ms", ONE_LIMIT_MS),
        _row("rendering/1000-replicas-mixed", thousand_s, "s", THOUSAND_LIMIT_S),
    ]


def _row(name: str, value: float, unit: str, limit: float) -> dict[str, object]:
    return {"id": name, "value": round(value, 3), "unit": unit, "limit": limit, "ok": value <= limit, "baseline": None}


def _time_s(requests: list[Request]) -> float:
    start = time.process_time()
    for request in requests:
        model_replica.compose(request)
    return time.process_time() - start


def _request(shape: str) -> Request:
    deployment = decode(ModelDeployment, yaml.safe_load((DEPLOYMENTS / f"{shape}.yaml").read_text()))
    replica = placed(deployment, "east")
    caches = {f"cache-{mount.name}": (_cache(mount.name),) for mount in replica.spec.caches}
    return ComposeRequest(replica, required={"cluster": (_cluster(),), **caches})


def _cluster() -> Manifest:
    return {
        "metadata": {"name": "east"},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east"}}},
            "scheduling": {"type": "KAI", "queue": "serving", "defaultLabels": {"team": "{{ .Namespace }}"}},
        },
        "status": {"gateway": {"address": "192.0.2.1"}},
    }


def _cache(name: str) -> Manifest:
    return {
        "metadata": {"name": name},
        "spec": {"source": "HuggingFace", "huggingFace": {"repo": name}, "artifact": {"kind": _kind(name)}},
        "status": {"clusters": [{"name": "east", "phase": "Ready"}]},
    }


def _kind(name: str) -> str:
    return "Adapter" if name in {"sql", "rust"} else "Weights"


if __name__ == "__main__":
    for row in rows():
        print(row)
