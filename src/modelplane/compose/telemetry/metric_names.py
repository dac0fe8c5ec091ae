"""Metrics of engines, pickers and GPU exporters that have a name of the fleet: the published `modelplane_*` names.

SGLang has its histograms of tokens with --collect-tokens-histogram, and any metric with --enable-metrics. It counts no
preemptions, and its cache reports a rate instead of hits, so those names have no series from it.
"""

from typing import Final, Literal

from modelplane.api.models import MappedLabel, MappedMetric

_UnitName = Literal["Millijoules", "Milliseconds", "Nanoseconds", "Mebibytes", "Percent"]
GPU: Final = "gpu"
"""The label of the device, by its number on the node."""


def _renamed(names: dict[str, str]) -> tuple[MappedMetric, ...]:
    return tuple(MappedMetric(from_=old, to=f"modelplane_{new}") for old, new in names.items())


def _of_gpu(old: str, new: str, unit: _UnitName | None = None) -> MappedMetric:
    return MappedMetric(from_=old, to=f"modelplane_{new}", from_unit=unit, labels=(MappedLabel(name=GPU, from_=GPU),))


_VLLM: Final = {
    "vllm:time_to_first_token_seconds": "request_ttft_seconds",
    "vllm:e2e_request_latency_seconds": "request_duration_seconds",
    "vllm:request_queue_time_seconds": "request_queue_seconds",
    "vllm:request_prefill_time_seconds": "request_prefill_seconds",
    "vllm:request_decode_time_seconds": "request_decode_seconds",
    "vllm:request_prompt_tokens": "request_input_tokens",
    "vllm:request_generation_tokens": "request_output_tokens",
    "vllm:num_requests_running": "requests_running",
    "vllm:num_requests_waiting": "requests_waiting",
    "vllm:num_preemptions_total": "requests_preempted_total",
    "vllm:kv_cache_usage_perc": "kv_cache_utilization_ratio",
    "vllm:prefix_cache_hits_total": "prefix_cache_hits_total",
    "vllm:prefix_cache_queries_total": "prefix_cache_lookups_total",
    "vllm:prompt_tokens_recomputed_total": "tokens_recomputed_total",
}
_SGLANG: Final = {
    "sglang:time_to_first_token_seconds": "request_ttft_seconds",
    "sglang:e2e_request_latency_seconds": "request_duration_seconds",
    "sglang:prompt_tokens_histogram": "request_input_tokens",
    "sglang:generation_tokens_histogram": "request_output_tokens",
    "sglang:num_running_reqs": "requests_running",
    "sglang:num_queue_reqs": "requests_waiting",
    "sglang:token_usage": "kv_cache_utilization_ratio",
}
_OTHERS: Final = {
    "trtllm_num_requests_running": "requests_running",
    "trtllm_num_requests_waiting": "requests_waiting",
    "trtllm_kv_cache_utilization": "kv_cache_utilization_ratio",
    "llamacpp:requests_processing": "requests_running",
    "llamacpp:requests_deferred": "requests_waiting",
    "tgi_batch_current_size": "requests_running",
    "tgi_queue_size": "requests_waiting",
    "te_queue_size": "requests_waiting",
}
_GATEWAY: Final = {
    "gen_ai_server_request_duration_seconds": "frontend_request_duration_seconds",
    "gen_ai_server_time_to_first_token_seconds": "frontend_ttft_seconds",
    "gen_ai_server_time_per_output_token_seconds": "frontend_tpot_seconds",
}
_PICKER: Final = {"llm_d_epp_scheduler_e2e_duration_seconds": "route_decision_seconds"}

BUILT_IN: Final[tuple[MappedMetric, ...]] = (
    *_renamed(_VLLM),
    *_renamed(_SGLANG),
    *_renamed(_OTHERS),
    *_renamed(_PICKER),
    *_renamed(_GATEWAY),
    _of_gpu("DCGM_FI_DEV_FB_USED", "gpu_memory_used_bytes", "Mebibytes"),
    _of_gpu("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gpu_compute_active_ratio"),
    _of_gpu("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gpu_tensor_active_ratio"),
    _of_gpu("DCGM_FI_PROF_DRAM_ACTIVE", "gpu_memory_bandwidth_ratio"),
    _of_gpu("DCGM_FI_DEV_GPU_TEMP", "gpu_temperature_celsius"),
    _of_gpu("DCGM_FI_DEV_POWER_USAGE", "gpu_power_watts"),
    _of_gpu("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "energy_joules_total", "Millijoules"),
)
