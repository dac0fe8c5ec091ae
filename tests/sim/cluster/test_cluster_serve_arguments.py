"""What the command line of an engine container says about its cache, its adapters and its part in disaggregation."""

import pytest

from modelplane.api.errors import InputError
from modelplane.sim.cluster.serve_arguments import ServeArguments
from modelplane.sim.engine import Adapter, KvTransfer


def read(*args, env=(), command=None):
    container = {"name": "engine", "image": "vllm/vllm-openai:v1", "command": command, "args": args, "env": env}
    return ServeArguments.of({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [container]}})


@pytest.mark.parametrize(
    ("args", "limits"),
    [
        (("m", "--max-num-batched-tokens", "2048"), {"max_num_batched_tokens": 2048}),
        (("m", "--block-size=32"), {"block_size": 32}),
        (("m", "--context-length", "8k", "--page-size", "64"), {"max_model_len": 8000, "block_size": 64}),
        (("m", "--max-running-requests", "7"), {"max_num_seqs": 7}),
    ],
)
def test_numbers(args, limits):
    assert read(*args).limits() == limits


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((), 1),
        (("--tensor-parallel-size", "4"), 4),
        (("-tp", "2"), 2),
        (("--tp-size=8",), 8),
        (("--tp", "2"), 2),
    ],
)
def test_tensor_parallel(args, expected):
    assert read("m", *args).tensor_parallel == expected


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((), True),
        (("--enable-prefix-caching",), True),
        (("--no-enable-prefix-caching",), False),
        (("--disable-radix-cache",), False),
    ],
)
def test_prefix_caching(args, expected):
    assert read("m", *args).prefix_caching is expected


def test_the_checkpoint_tells_the_size_whatever_it_is_called():
    found = read("meta/llama-70b", "--served-model-name", "chat")
    assert (found.models, found.checkpoint) == (("chat",), "meta/llama-70b")
    assert read("--model-path", "meta/llama-8b", command=["python3", "-m", "sglang.launch_server"]).models == (
        "meta/llama-8b",
    )


def test_adapters():
    env = [{"name": "OTHER"}, {"name": "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "value": "True"}]
    modules = ("sql=/adapters/sql", '{"name": "chat", "path": "/adapters/chat"}')
    found = read("m", "--enable-lora", "--max-loras", "4", "--lora-modules", *modules, env=env)
    assert (found.max_loras, found.runtime_lora) == (4, True)
    assert found.adapters == (Adapter("sql", "/adapters/sql"), Adapter("chat", "/adapters/chat"))
    assert (read("m", "--enable-lora").max_loras, read("m", "--max-loras", "4").max_loras) == (1, 0)
    assert read("m").runtime_lora is False


def test_disaggregation():
    config = '{"kv_connector": "NixlConnector", "kv_role": "kv_consumer", "kv_load_failure_policy": "recompute"}'
    assert read("m", "--kv-transfer-config", config).kv_transfer == KvTransfer(role="kv_consumer", recompute=True)
    dotted = ("--kv-transfer-config.kv_connector", "NixlConnector", "--kv-transfer-config.kv_role", "kv_both")
    assert read("m", *dotted).kv_transfer == KvTransfer()
    lease = '{"kv_connector": "x", "kv_role": "kv_both", "kv_connector_extra_config": {"kv_lease_duration": 5}}'
    assert read("m", "--kv-transfer-config", lease).kv_transfer == KvTransfer(lease_s=5)
    assert read("m").kv_transfer is None


def test_kv_events():
    assert read("m", "--kv-events-config", '{"enable_kv_cache_events": true}').kv_events is True
    assert read("m", "--kv-events-config.enable_kv_cache_events", "true").kv_events is True
    assert read("m", "--kv-events-config", '{"publisher": "zmq"}').kv_events is False


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--lora-modules", "sql"), "--lora-modules: 'sql' is not name=path"),
        (("--lora-modules", '{"name": 1}'), "--lora-modules: '{\"name\": 1}' is not name=path"),
        (("--kv-transfer-config", "[]"), "--kv-transfer-config: '[]' is not a JSON object"),
        (("--kv-transfer-config", "{"), "--kv-transfer-config: '{' is not a JSON object"),
        (
            ("--kv-transfer-config", '{"kv_connector": "x"}'),
            "--kv-transfer-config: kv_role: must be one of kv_producer, kv_consumer, kv_both",
        ),
        (("--block-size", "big"), "--block-size: 'big' is not a number"),
    ],
)
def test_what_cannot_be_read_is_refused(args, sentence):
    with pytest.raises(InputError) as caught:
        read("m", *args)
    assert str(caught.value) == sentence
