import pytest

from modelplane.sim.engine import LLAMA_8B_H200, LLAMA_70B_H200, gpu_of, kv_capacity_tokens, shape_of, timing_for
from modelplane.sim.engine.hardware import H200, LLAMA_8B, LLAMA_70B


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA H20", "H20"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA A10G", "A10"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA L4", "L4"),
        ("Tesla T4", "T4"),
        ("AMD Instinct MI300X", "MI300X"),
        ("nvidia-l4", "L4"),
    ],
)
def test_product_names_are_recognised(product, name):
    assert gpu_of(product).name == name


@pytest.mark.parametrize("product", ["", "NVIDIA Quadro K600", "Gaudi3", "ML40 adapter board"])
def test_other_products_are_not(product):
    assert gpu_of(product) is None


@pytest.mark.parametrize(
    ("model", "total", "active", "width"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 8, 8, 2),
        ("Qwen/Qwen3-32B", 32, 32, 2),
        ("Qwen/Qwen3-30B-A3B", 30, 3, 2),
        ("Qwen/Qwen2.5-0.5B-Instruct", 0.5, 0.5, 2),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 46.5, 12.95, 2),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8", 70, 70, 1),
        ("org/model-7b-awq", 7, 7, 0.5),
        ("gpt2", 8.03, 8.03, 2),
        ("team/a2b-tool", 8.03, 8.03, 2),
    ],
)
def test_sizes_are_read_from_names(model, total, active, width):
    shape = shape_of(model)
    assert (shape.parameters_b, shape.active_b, shape.weight_bytes) == (
        pytest.approx(total, rel=0.01),
        pytest.approx(active, rel=0.01),
        width,
    )


def test_the_measured_shapes_are_themselves():
    assert timing_for(LLAMA_8B, H200) == LLAMA_8B_H200
    assert timing_for(LLAMA_70B, H200) == LLAMA_70B_H200


def test_a_guessed_shape_is_near_the_measured_one():
    guessed, measured = timing_for(shape_of("llama-70b"), H200), LLAMA_70B_H200
    assert guessed.prefill_ms(4096) == pytest.approx(measured.prefill_ms(4096), rel=0.05)
    assert guessed.decode_ms(sequences=64, kv_tokens=100_000) == pytest.approx(
        measured.decode_ms(sequences=64, kv_tokens=100_000), rel=0.05
    )


def test_slower_memory_and_compute_make_slower_steps():
    times = [
        timing_for(LLAMA_8B, gpu_of(name)).decode_ms(sequences=8, kv_tokens=8_000)
        for name in ("B200", "H200", "H100", "A100", "L40S", "L4")
    ]
    assert times == sorted(times)
    assert timing_for(LLAMA_8B, gpu_of("H20")).prefill_ms(8192) > timing_for(LLAMA_8B, gpu_of("L40S")).prefill_ms(8192)


@pytest.mark.parametrize(("ranks", "measured_without_messages"), [(2, 22.618), (4, 13.773), (8, 9.536)])
def test_more_gpus_help_less_each_time(ranks, measured_without_messages):
    """32 sequences of 1k on shards of the 70B; the messages of 160 all-reduces come on top."""
    step = timing_for(LLAMA_70B, H200, tensor_parallel=ranks).decode_ms(sequences=32, kv_tokens=32_768)
    assert measured_without_messages < step < measured_without_messages * 1.35


def test_room_for_the_cache():
    assert kv_capacity_tokens(LLAMA_8B, H200) == pytest.approx(815_000, rel=0.01)
    assert kv_capacity_tokens(LLAMA_70B, H200) == 0
    assert kv_capacity_tokens(LLAMA_70B, H200, gpus=4) == pytest.approx(1_069_000, rel=0.01)
    assert kv_capacity_tokens(shape_of("llama-70b-fp8"), H200) > 100_000
