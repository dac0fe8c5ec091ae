"""`modelplane new`: what it prints is what `validate` and `plan` take, and what it refuses has the numbers."""

import io
import sys
from pathlib import Path

import pytest
import yaml

from modelplane.cli import main

QUICKSTART = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
TEXT = """\
# Qwen/Qwen3-32B: 32B parameters, as its name tells, in bf16
#   weights        59.6 GiB   32B x 16 bits
#   overhead       11.9 GiB   20 % of the weights
#   KV cache        8.0 GiB   32768 tokens x 256 KiB, an estimate by size
#   together       79.5 GiB
#   devices       143.4 GiB   2 x NVIDIA H100 80GB HBM3 of 79.6 GiB, of which vLLM takes 90 % (class h100-8x)
---
"""


def printed(words, capsys):
    code = main(["new", *words.split()])
    found = capsys.readouterr()
    return code, found.out, found.err


def piped(words, text, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    return main(words)


def test_the_arithmetic_and_both_objects(capsys):
    code, text, err = printed("Qwen/Qwen3-32B --class h100-8x -n team --replicas 3", capsys)
    assert (code, err) == (0, "")
    assert text.startswith(TEXT)
    metadata = {"name": "qwen3-32b", "namespace": "team"}
    cel = (
        'device.driver == "gpu.nvidia.com" && device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("45Gi")) >= 0'
    )
    args = ["Qwen/Qwen3-32B", "--served-model-name", "qwen3-32b", "--max-model-len", "32768"]
    container = {"name": "engine", "image": "vllm/vllm-openai:v0.27.1", "args": args}
    assert list(yaml.safe_load_all(text)) == [
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelDeployment",
            "metadata": metadata,
            "spec": {
                "replicas": 3,
                "labels": {"app": "qwen3-32b"},
                "nodeSelector": {"devices": [{"name": "gpu", "count": 2, "selectors": [{"cel": cel}]}]},
                "workers": {"topology": {"tensor": 2}, "template": {"spec": {"containers": [container]}}},
            },
        },
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelService",
            "metadata": metadata,
            "spec": {"endpoints": [{"selector": {"matchLabels": {"app": "qwen3-32b"}}}]},
        },
    ]


@pytest.mark.parametrize(
    "words",
    [
        "Qwen/Qwen3-0.6B",
        "acme/assistant --parameters 70B --dtype fp8 --replicas 2",
        "acme/Llama-3.1-405B-Instruct-FP8 --max-model-len 131072",
        "7b-chat/7B_Chat.v2 --kv-per-token 1000",
        "acme/Long-8B-of-a-name-that-goes-on-and-on-and-on-and-on-and-on-and-on --name mine",
        "acme/x-56B --max-model-len 1 --kv-per-token 1",
    ],
)
def test_what_is_printed_is_valid_and_fits(words, monkeypatch, capsys):
    code, text, _ = printed(f"{words} -f {QUICKSTART}", capsys)
    assert code == 0
    assert piped(["validate", "--strict", "-f", "-"], text, monkeypatch) == 0
    assert capsys.readouterr().out == "2 objects, 0 problems\n"
    assert piped(["plan", "--offline", "-f", str(QUICKSTART), "-f", "-"], text, monkeypatch) == 0
    assert "FitsNow" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "args"),
    [
        ("acme/chat-8B --dtype fp8", ["--quantization", "fp8"]),
        ("acme/chat-8B-FP8", []),
        ("acme/chat-8B-AWQ", []),
        ("acme/chat-8B --dtype int4", []),
    ],
)
def test_weights_become_fp8_where_the_files_are_not(words, args, capsys):
    deployment = next(yaml.safe_load_all(printed(f"{words} --class h100-8x", capsys)[1]))
    assert deployment["spec"]["workers"]["template"]["spec"]["containers"][0]["args"][5:] == args


def test_the_memory_of_a_selector_is_never_above_that_of_the_device(capsys):
    """79.6 GiB are not 80."""
    code, text, _ = printed("acme/x-1B --max-model-len 74 --kv-per-token 1000000 --class h100-8x", capsys)
    assert (code, "quantity(" in text) == (0, True)
    code, text, _ = printed("acme/x-1B --max-model-len 74400 --kv-per-token 1000000 --class h100-8x", capsys)
    assert (code, 'quantity("85520809984")' in " ".join(text.split())) == (0, True)


def test_what_fits_nowhere_has_the_numbers(capsys):
    code, text, err = printed("deepseek-ai/DeepSeek-V3 --parameters 671B --class h100-8x", capsys)
    assert (code, text) == (3, "")
    assert err == (
        "modelplane new: deepseek-ai/DeepSeek-V3 needs 1515.8 GiB (weights 1249.8 GiB, 20 % 250.0 GiB, KV cache 16.0 "
        "GiB); the largest node, of class h100-8x, has 8 x 79.6 GiB, of which 90 % are 573.5 GiB. A smaller --dtype or "
        "--max-model-len needs less\n"
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            "acme/chat --class h100-8x",
            "the name acme/chat does not tell how many parameters it has; use --parameters 8B",
        ),
        (
            "acme/chat --parameters 8 --class h100-8x",
            "'8' is not a number of parameters such as 8B, 1.5B or 500M",
        ),
        ("a/b-8B --name A --class h100-8x", "'A' is not a name of lower case letters, digits and -, 63 at most"),
        ("a/b/c-8B --class h100-8x", "'a/b/c-8B' is not the name of a model such as Qwen/Qwen3-8B"),
        (
            "acme/chat-8B --class mi300x-8x",
            (
                "devices are those of gpu.amd.com, and vllm/vllm-openai:v0.27.1 needs gpu.nvidia.com; "
                "--image names another"
            ),
        ),
        (
            f"acme/chat-8B -f {QUICKSTART / '3-model.yaml'}",
            "no InferenceClass has whole devices with memory; --class takes a node of the catalogue",
        ),
    ],
)
def test_what_is_refused(words, says, capsys):
    assert printed(words, capsys) == (1, "", f"modelplane new: {says}\n")


def test_without_a_plane_it_says_how_hardware_is_named(tmp_path, capsys):
    code, text, err = printed(f"acme/chat-8B --data {tmp_path}", capsys)
    assert (code, text) == (1, "")
    assert err.endswith("starts one; --class takes a node of `modelplane catalog`, -f manifests\n")


def test_an_image_brings_its_devices(capsys):
    code, text, _ = printed("acme/chat-8B --class mi300x-8x --image registry.example/vllm:rocm", capsys)
    assert (code, 'device.driver == "gpu.amd.com"' in text, "registry.example/vllm:rocm" in text) == (0, True, True)


@pytest.mark.parametrize("words", ["x-8B --max-model-len 0", "x-8B --replicas many", "x-8B --class a -f b"])
def test_wrong_usage(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        printed(words, capsys)
    assert "usage: modelplane new" in capsys.readouterr().err
