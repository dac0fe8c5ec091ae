from collections import Counter

from modelplane.sim.engine.metrics import CacheConfigInfo, EngineGauges, LoraGauge, exposition
from modelplane.sim.engine.stats import EngineStats

CACHE = CacheConfigInfo(block_size=16, blocks=50, prefix_caching=True)


def samples(text):
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_counters_have_vllms_names():
    stats = EngineStats(
        100,
        prompt_tokens=5,
        generation_tokens=7,
        cache_queries=9,
        cache_hits=4,
        remote_queries=3,
        remote_hits=2,
        preemptions=1,
        finished_by=Counter({"stop": 2, "abort": 1}),
    )
    text = exposition('a"b\\c', stats, EngineGauges(running=1, waiting=3, loading=1, kv_usage=0.25), CACHE)
    labels = 'engine="0",model_name="a\\"b\\\\c"'
    plain = {name: value for name, value in samples(text).items() if "le=" not in name and "_sum" not in name}
    assert {name: value for name, value in plain.items() if "_count" not in name} == {
        f"vllm:num_requests_running{{{labels}}}": "1",
        f"vllm:num_requests_waiting{{{labels}}}": "3",
        f'vllm:num_requests_waiting_by_reason{{{labels},reason="capacity"}}': "2",
        f'vllm:num_requests_waiting_by_reason{{{labels},reason="deferred"}}': "1",
        f"vllm:kv_cache_usage_perc{{{labels}}}": "0.25",
        f"vllm:prefix_cache_queries_total{{{labels}}}": "9",
        f"vllm:prefix_cache_hits_total{{{labels}}}": "4",
        f"vllm:external_prefix_cache_queries_total{{{labels}}}": "3",
        f"vllm:external_prefix_cache_hits_total{{{labels}}}": "2",
        f"vllm:num_preemptions_total{{{labels}}}": "1",
        f"vllm:prompt_tokens_total{{{labels}}}": "5",
        f"vllm:generation_tokens_total{{{labels}}}": "7",
        f'vllm:request_success_total{{{labels},finished_reason="stop"}}': "2",
        f'vllm:request_success_total{{{labels},finished_reason="length"}}': "0",
        f'vllm:request_success_total{{{labels},finished_reason="abort"}}': "1",
        f'vllm:request_success_total{{{labels},finished_reason="error"}}': "0",
        'vllm:cache_config_info{block_size="16",enable_prefix_caching="True",engine="0",num_gpu_blocks="50"}': "1",
    }
    assert text.endswith("\n")


def test_histograms_are_cumulative():
    stats = EngineStats(100)
    for value in (0.02, 0.06, 200):
        stats.between_tokens.observe(value)
    found = samples(exposition("m", stats, EngineGauges(), CACHE))
    name, labels = "vllm:inter_token_latency_seconds", 'engine="0",model_name="m"'
    values = [found[f'{name}_bucket{{{labels},le="{le}"}}'] for le in ("0.01", "0.025", "0.075", "80.0", "+Inf")]
    assert values == ["0", "1", "2", "2", "3"]
    assert (found[f"{name}_count{{{labels}}}"], found[f"{name}_sum{{{labels}}}"]) == ("3", "200.08")


def test_the_histograms_that_dashboards_and_autoscalers_read():
    text = exposition("m", EngineStats(100), EngineGauges(), CACHE)
    assert {line.split()[2] for line in text.splitlines() if line.endswith(" histogram")} == {
        "vllm:time_to_first_token_seconds",
        "vllm:inter_token_latency_seconds",
        "vllm:request_time_per_output_token_seconds",
        "vllm:e2e_request_latency_seconds",
        "vllm:request_queue_time_seconds",
        "vllm:request_inference_time_seconds",
        "vllm:request_prefill_time_seconds",
        "vllm:request_decode_time_seconds",
        "vllm:request_prompt_tokens",
        "vllm:request_generation_tokens",
        "vllm:request_params_max_tokens",
        "vllm:request_params_n",
        "vllm:iteration_tokens_total",
    }


def test_adapters_are_exported_only_if_enabled():
    lora = LoraGauge(max_loras=2, running=("a", "b"), waiting=("c",), at=12.5)
    name = 'vllm:lora_requests_info{max_lora="2",running_lora_adapters="a,b",waiting_lora_adapters="c"}'
    assert samples(exposition("m", EngineStats(100), EngineGauges(), CACHE, lora))[name] == "12.5"
    assert "lora" not in exposition("m", EngineStats(100), EngineGauges(), CACHE)
