"""The engines whose flags we know, one module each."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from modelplane.compose.engines import custom, sglang, vllm
from modelplane.compose.engines.launch import Launch, LaunchAsk

ENGINES: Mapping[str, Callable[[LaunchAsk], Launch]] = MappingProxyType(
    {"vLLM": vllm.launch, "SGLang": sglang.launch, "Custom": custom.launch}
)
"""By the type that a ModelReplica names."""
