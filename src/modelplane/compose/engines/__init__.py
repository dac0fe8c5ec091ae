"""The engines whose flags we know, one module each."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from modelplane.compose.engines import custom, llama_cpp, nim, sglang, tei, tensorrt_llm, tgi, triton, vllm
from modelplane.compose.engines.kv_connector import CONNECTOR
from modelplane.compose.engines.launch import NIXL, EngineType

__all__ = ["ENGINES", "NIXL", "EngineName"]

EngineName = Literal["vLLM", "SGLang", "TensorRT-LLM", "llama.cpp", "TGI", "TEI", "Triton", "NIM", "Custom"]
ENGINES: Mapping[EngineName, EngineType] = MappingProxyType(
    {
        "vLLM": EngineType(vllm.launch, label="vllm", kv_transfer=CONNECTOR),
        "SGLang": EngineType(sglang.launch, label="sglang", kv_connector="sglang", kv_transfer=sglang.BACKEND),
        "TensorRT-LLM": EngineType(tensorrt_llm.launch, label="trtllm-serve"),
        "llama.cpp": EngineType(llama_cpp.launch, label="llama.cpp", sized=False),
        "TGI": EngineType(tgi.launch, label="tgi", port_flags=("--port", "-p")),
        "TEI": EngineType(tei.launch, label="tei", port_flags=("--port", "-p"), sized=False),
        "Triton": EngineType(
            triton.launch, label="triton", health=triton.HEALTH, port_flags=(triton.PORT_FLAG,), sized=False
        ),
        "NIM": EngineType(nim.launch, label="nim", health=nim.HEALTH, sized=False),
        "Custom": EngineType(custom.launch, sized=False),
    }
)
"""By the type that a ModelReplica names."""
