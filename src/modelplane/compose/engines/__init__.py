"""The engines whose flags we know, one module each."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from modelplane.compose.engines import custom, sglang, vllm
from modelplane.compose.engines.launch import NIXL, EngineType

__all__ = ["ENGINES", "NIXL", "EngineName"]

EngineName = Literal["vLLM", "SGLang", "Custom"]
ENGINES: Mapping[EngineName, EngineType] = MappingProxyType(
    {
        "vLLM": EngineType(vllm.launch, label="vllm"),
        "SGLang": EngineType(sglang.launch, label="sglang", kv_connector="sglang"),
        "Custom": EngineType(custom.launch),
    }
)
"""By the type that a ModelReplica names."""
