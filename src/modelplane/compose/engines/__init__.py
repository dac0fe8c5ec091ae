"""The engines whose flags we know, one module each."""

from collections.abc import Mapping
from types import MappingProxyType

from modelplane.compose.engines import custom, sglang, vllm
from modelplane.compose.engines.launch import NIXL, EngineType

__all__ = ["ENGINES", "NIXL"]

ENGINES: Mapping[str, EngineType] = MappingProxyType(
    {
        "vLLM": EngineType(vllm.launch, label="vllm"),
        "SGLang": EngineType(sglang.launch, label="sglang", kv_connector="sglang"),
        "Custom": EngineType(custom.launch),
    }
)
"""By the type that a ModelReplica names."""
