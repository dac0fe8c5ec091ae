"""Numbers off metrics pages: each kind of server, data-parallel ranks, and pages that are broken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from modelplane.epp.datalayer.scrape.engines import BUILT_IN, EngineMetricNames, MetricFamily
from modelplane.epp.datalayer.scrape.extractor import MetricsExtractor
from modelplane.epp.datalayer.scrape.scraped_values import ScrapedValues
from modelplane.epp.scheduling.metrics import Adapters, EndpointMetrics
from modelplane.sim.engine.metrics import CacheConfigInfo, EngineGauges, LoraGauge, exposition
from modelplane.sim.engine.stats import EngineStats

ENGINES = {engine.name: engine for engine in BUILT_IN}

VLLM = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 7.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 99.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="2048"} 1.0
vllm:lora_requests_info{max_lora="2",running_lora_adapters="a, b",waiting_lora_adapters=""} 100.0
vllm:lora_requests_info{max_lora="2",running_lora_adapters="c",waiting_lora_adapters="d"} 102.0
vllm:lora_requests_info{max_lora="2",running_lora_adapters="e",waiting_lora_adapters=""} 101.0
"""

RANKS = b"""vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting{engine="0",model_name="m"} 7.0
vllm:num_requests_waiting{engine="1",model_name="m"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="2048"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="2000"} 1.0
"""

SGLANG = b"""sglang:num_running_reqs{model_name="m",tp_rank="0",dp_rank="0"} 5
sglang:num_running_reqs{model_name="m",tp_rank="1",dp_rank="0"} 5
sglang:num_running_reqs{model_name="m",tp_rank="0",dp_rank="1"} 2
sglang:num_queue_reqs{model_name="m"} 1
sglang:token_usage{model_name="m"} 1.5
sglang:cache_config_info{page_size="64",num_pages="512"} 1
"""

TRTLLM = b"""trtllm_num_requests_waiting 4
trtllm_num_requests_running 2
trtllm_kv_cache_utilization 0.5
trtllm_kv_cache_tokens_per_block 32
trtllm_kv_cache_max_blocks 900
"""

TRITON_TRT = b"""nv_trt_llm_request_metrics{model="llm",request_type="waiting",version="1"} 2
nv_trt_llm_request_metrics{model="llm",request_type="context",version="1"} 50
nv_trt_llm_request_metrics{model="llm",request_type="scheduled",version="1"} 6
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="llm",version="1"} 0.125
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="llm",version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="llm",version="1"} 300
"""

TRITON = b"""nv_inference_pending_request_count{model="a",version="1"} 2
nv_inference_pending_request_count{model="b",version="1"} 3
nv_inference_exec_count{model="a",version="1"} 100000
"""

PICKER = b"""llm_d_epp_average_queue_size{name="pool"} 1.5
llm_d_epp_average_running_requests{name="pool"} 2.5
llm_d_epp_average_kv_cache_utilization{name="pool"} 0.4
"""


@pytest.mark.parametrize(
    ("engine", "page", "seen"),
    [
        ("vllm", VLLM, ScrapedValues(7, 3, 0.25, 16, 2048, Adapters(frozenset("c"), frozenset("d"), 2))),
        ("vllm", RANKS, ScrapedValues(8, 7, 0.75, 16, 4048)),
        ("sglang", SGLANG, ScrapedValues(1, 7, 1.0, 64, 512)),
        ("trtllm-serve", TRTLLM, ScrapedValues(4, 2, 0.5, 32, 900)),
        ("triton-tensorrt-llm", TRITON_TRT, ScrapedValues(2, 6, 0.125, 64, 300)),
        ("triton", TRITON, ScrapedValues(5)),
        ("picker", PICKER, ScrapedValues(1.5, 2.5, 0.4)),
        ("sglang", VLLM, ScrapedValues()),
        ("vllm", b"", ScrapedValues()),
    ],
)
def test_each_kind_of_server(engine, page, seen):
    assert MetricsExtractor(ENGINES[engine]).read(page) == seen
    assert MetricsExtractor(ENGINES[engine]).read(page.rstrip()) == seen
    assert MetricsExtractor(ENGINES[engine]).read(b"# before\n" + page + b"# after\n") == seen


def engine_page(running=0, waiting=0, kv=0.0, tokens=0, lora=None):
    stats = EngineStats(4096)
    stats.prompt_tokens = tokens
    gauges = EngineGauges(running=running, waiting=waiting, kv_usage=kv)
    cache = CacheConfigInfo(block_size=16, blocks=512, prefix_caching=True)
    return exposition('m"o\\del}\n', stats, gauges, cache, lora).encode()


def test_pages_of_our_own_engines():
    lora = LoraGauge(max_loras=4, running=("x", 'y"z'), waiting=(), at=12.5)
    seen = MetricsExtractor(ENGINES["vllm"]).read(engine_page(3, 2, 0.5, lora=lora))
    assert seen == ScrapedValues(2, 3, 0.5, 16, 512, Adapters(frozenset({"x", 'y"z'}), frozenset(), 4))


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"q 3", 3.0),
        (b"q\t3", None),
        (b"q 3 1700000000", 3.0),
        (b'q{a="b"} 3 1700000000', 3.0),
        (b'q{a="b"}  4.5e1', 45.0),
        (b'q{a="b} 9"} 4', 4.0),
        (b'q{a="b\\"} 9"} 4', 4.0),
        (b"q{} 4", 4.0),
        (b'q{a="b"} 4 # {trace_id="x"} 0.7', 4.0),
        (b"q NaN", None),
        (b"q +Inf", None),
        (b"q -1", None),
        (b"q 1e999", None),
        (b"q", None),
        (b"q ", None),
        (b"q x", None),
        (b'q{a="b', None),
        (b'q{a="b"', None),
        (b"q{ 4", None),
        (b"qq 4", None),
        (b"#q 4", None),
        (b" q 4", None),
        (b"q \xff", None),
    ],
)
def test_one_line(line, value):
    reader = MetricsExtractor(EngineMetricNames(name="e", waiting=MetricFamily("q")))
    for page in (line, b"x 1\n" + line + b"\n", line + b"\r\n" if value is None else line + b"\n"):
        assert MetricsExtractor(reader.engine).read(page).waiting == value
        assert reader.read(page).waiting == value


def test_a_timestamp_is_never_taken_for_the_value():
    reader = MetricsExtractor(EngineMetricNames(name="e", waiting=MetricFamily("q")))
    assert [reader.read(b"q 3 %d\n" % at).waiting for at in (17, 18, 3)] == [3.0, 3.0, 3.0]


def test_the_same_numbers_are_the_same_object():
    reader = MetricsExtractor(ENGINES["vllm"])
    first = reader.read(engine_page(1))
    assert reader.read(engine_page(1)) is first
    assert reader.read(engine_page(1, tokens=10**9)) is first
    assert reader.read(engine_page(2)) is not first


def test_what_a_page_does_not_show_keeps_its_value():
    before = EndpointMetrics(
        waiting=1, running=2, kv_cache_usage=0.5, block_size=16, blocks=9, models=frozenset("m"), scraped_s=1.0
    )
    assert ScrapedValues(waiting=4).after(before, 2.0) == EndpointMetrics(
        4, 2, 0.5, 16, 9, models=frozenset("m"), scraped_s=2.0
    )
    assert ScrapedValues(block_size=32).after(before, 2.0) == EndpointMetrics(
        1, 2, 0.5, 32, 9, models=frozenset("m"), scraped_s=1.0
    )


def test_a_family_that_comes_late_is_found_after_a_while():
    reader = MetricsExtractor(EngineMetricNames(name="e", waiting=MetricFamily("q")))
    for _ in range(100):
        assert reader.read(b"x 1\n").waiting is None
    assert any(reader.read(b"x 1\nq 2\n").waiting == 2.0 for _ in range(20))


def test_a_family_of_too_many_lines_is_cut():
    page = b"".join(b'q{model="%d"} 1\n' % number for number in range(10_000))
    assert (
        MetricsExtractor(EngineMetricNames(name="e", waiting=MetricFamily("q"), ranks=("model",))).read(page).waiting
        == 4096
    )


GAUGES = st.tuples(st.integers(0, 300), st.integers(0, 300), st.floats(0, 1), st.integers(0, 10**12))


@given(st.lists(GAUGES, min_size=1, max_size=8))
def test_page_after_page_reads_as_each_page_alone(states):
    reader = MetricsExtractor(ENGINES["vllm"])
    for running, waiting, kv, tokens in states:
        page = engine_page(running, waiting, kv, tokens)
        assert (
            reader.read(page)
            == MetricsExtractor(ENGINES["vllm"]).read(page)
            == ScrapedValues(waiting, running, kv, 16, 512)
        )


LABELS = st.dictionaries(st.sampled_from(["engine", "model_name", "x"]), st.text(max_size=6), max_size=3)
SERIES = st.lists(st.tuples(LABELS, st.floats(0, 1e9)), max_size=4, unique_by=lambda one: tuple(sorted(one[0].items())))


def written(name, labels, value):
    escaped = (
        '{}="{}"'.format(key, text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"'))
        for key, text in labels.items()
    )
    return f"{name}{{{','.join(escaped)}}} {value}\n"


@given(SERIES, SERIES, st.booleans())
def test_it_agrees_with_the_parser_of_prometheus(first, second, headed):
    page = "".join(
        (f"# TYPE {name} gauge\n" if headed else "") + "".join(written(name, labels, value) for labels, value in family)
        for name, family in (("q_more", second), ("q", first), ("q_other", second))
    )
    expected: dict[object, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name == "q":
                rank = sample.labels.get("engine")
                expected[rank] = max(expected.get(rank, 0), sample.value)
    seen = MetricsExtractor(EngineMetricNames(name="e", waiting=MetricFamily("q"), ranks=("engine",))).read(
        page.encode()
    )
    assert seen.waiting == (sum(expected.values()) if expected else None)


PIECES = st.sampled_from(
    [*VLLM.splitlines(keepends=True), b"\n", b"{", b"}", b'"', b"\\", b"vllm:num_requests_waiting", b" ", b"\xff", b"1"]
)


@given(st.lists(st.lists(PIECES, max_size=12).map(b"".join), max_size=6))
def test_no_page_breaks_the_reader_nor_its_numbers(pages):
    reader = MetricsExtractor(ENGINES["vllm"])
    for page in pages:
        seen = reader.read(page)
        assert all(number is None or number >= 0 for number in (seen.waiting, seen.running, seen.blocks))
        assert seen.kv_use is None or 0 <= seen.kv_use <= 1
