from collections import Counter

from modelplane.engine.metrics import Counters, Gauges, exposition


def test_the_exposition_has_vllms_names_and_labels():
    text = exposition('a"b\\c', Counters(5, 7, Counter({"stop": 2, "abort": 1})), Gauges(1, 3, 0.25))
    labels = 'engine="0",model_name="a\\"b\\\\c"'
    assert [line for line in text.splitlines() if not line.startswith("# HELP")] == [
        "# TYPE vllm:num_requests_running gauge",
        f"vllm:num_requests_running{{{labels}}} 1",
        "# TYPE vllm:num_requests_waiting gauge",
        f"vllm:num_requests_waiting{{{labels}}} 3",
        "# TYPE vllm:kv_cache_usage_perc gauge",
        f"vllm:kv_cache_usage_perc{{{labels}}} 0.25",
        "# TYPE vllm:prompt_tokens_total counter",
        f"vllm:prompt_tokens_total{{{labels}}} 5",
        "# TYPE vllm:generation_tokens_total counter",
        f"vllm:generation_tokens_total{{{labels}}} 7",
        "# TYPE vllm:request_success_total counter",
        f'vllm:request_success_total{{{labels},finished_reason="stop"}} 2',
        f'vllm:request_success_total{{{labels},finished_reason="length"}} 0',
        f'vllm:request_success_total{{{labels},finished_reason="abort"}} 1',
    ]
    assert text.endswith("\n")
