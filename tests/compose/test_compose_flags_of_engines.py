"""Flags that users give to an engine, under any of their names: they are not given a second time."""

import pytest

from modelplane.api.models import Topology
from modelplane.compose.engines import ENGINES
from modelplane.compose.engines.vllm import given_model
from tests.compose.test_compose_engines import ANYWHERE, launched

MANY = {"topology": Topology(tensor=2, pipeline=2, data=4, data_local=2, expert=True), "nodes": 2, "role": "Leader"}
ASKED = {
    "vLLM": {**MANY, "port": 9000, "adapters": (("sql", "/a"),)},
    "SGLang": {**MANY, "adapters": (("sql", "/a"),)},
    "TensorRT-LLM": {"topology": Topology(tensor=2, expert=True)},
    "llama.cpp": {"args": ("-m", "/mnt/models/q.gguf")},
    "TGI": {"topology": Topology(tensor=2)},
    "Custom": {"moved": True},
}
FLAGS = {
    "vLLM": [
        *(("--tensor-parallel-size", "-tp"), ("--pipeline-parallel-size", "-pp"), ("--data-parallel-size", "-dp")),
        *(("--data-parallel-size-local", "-dpl"), ("--data-parallel-rpc-port",), ("--enable-expert-parallel", "-ep")),
        *(("--port",), ("--served-model-name",), ("--enable-lora",), ("--max-loras",), ("--lora-modules",)),
    ],
    "SGLang": [
        *(("--tp-size", "--tp", "--tensor-parallel-size"), ("--pp-size", "--pp", "--pipeline-parallel-size")),
        *(("--dp-size", "--dp", "--data-parallel-size"), ("--ep-size", "--ep", "--expert-parallel-size")),
        *(("--host",), ("--port",), ("--enable-metrics",), ("--enable-dp-attention",), ("--served-model-name",)),
        *(("--enable-lora",), ("--lora-paths",)),
    ],
    "TensorRT-LLM": [
        *(("--host",), ("--port",), ("--tp_size",), ("--ep_size",), ("--served_model_name", "--served-model-name")),
    ],
    "llama.cpp": [("--host",), ("--port",), ("--metrics",), ("--alias", "-a")],
    "TGI": [("--model-id",), ("--hostname",), ("--port", "-p"), ("--num-shard",)],
    "TEI": [("--model-id",), ("--served-model-name",), ("--hostname",), ("--port", "-p")],
    "Triton": [("--model-repository",), ("--host",), ("--openai-port",)],
    "Custom": [("--model", "--model-path"), ("--port",)],
}


@pytest.mark.parametrize(("kind", "names"), [(kind, names) for kind, flags in FLAGS.items() for names in flags])
def test_a_flag_is_given_once_and_as_the_user_gives_it(kind, names):
    def spelled(*given):
        asked = ASKED.get(kind, {})
        words = launched(kind, **{**asked, "args": (*asked.get("args", ()), *given)}).args
        return [word for word in words if word.partition("=")[0] in names]

    assert [word.partition("=")[0] for word in spelled()] == [names[0]]
    assert [spelled(f"{name}=2") for name in names] == [[f"{name}=2"] for name in names]


def test_engines_that_are_told_how_many_devices_to_use():
    assert {kind for kind, found in ENGINES.items() if found.sized} == {"vLLM", "SGLang", "TensorRT-LLM", "TGI"}


def test_pods_are_labelled_with_the_type_of_engine_that_llm_d_knows():
    labels = {"vLLM": "vllm", "SGLang": "sglang", "TensorRT-LLM": "trtllm-serve", "llama.cpp": "llama.cpp"}
    labels |= {"TGI": "tgi", "TEI": "tei", "Triton": "triton", "NIM": "nim"}
    assert {kind: found.label for kind, found in ENGINES.items() if found.label} == labels


@pytest.mark.parametrize("flag", ["-m", "--model", "-hf", "-hfr", "--hf-repo", "-mu", "--model-url"])
def test_llama_cpp_takes_its_model_by_any_of_its_flags(flag):
    assert launched("llama.cpp", args=(flag, "Q"), model_path=None).args[:2] == (flag, "Q")


def test_sglang_may_take_its_model_from_a_configuration_file():
    found = launched("SGLang", args=("--config", "/c.yaml"), model_path=None).args
    assert found == ("--host", ANYWHERE, "--port", "8000", "--enable-metrics", "--config", "/c.yaml")


MANY_VALUES = [
    *("--served-model-name", "--lora-modules", "--middleware", "--api-key", "--compilation-sizes"),
    *("--cudagraph-capture-sizes", "--cuda-graph-sizes", "--logits-processors"),
]


@pytest.mark.parametrize("flag", MANY_VALUES)
def test_vllm_takes_no_value_of_a_flag_with_several_for_its_model(flag):
    assert given_model((flag, "1", "2")) == (None, (flag, "1", "2"))
    assert given_model((flag, "1", "2", "--seed", "-0.5", "Q")) == ("Q", (flag, "1", "2", "--seed", "-0.5"))
