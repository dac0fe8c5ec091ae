"""How fast replicas are: more and newer GPUs serve more, longer requests take longer."""

import pytest

from modelplane.sim.engine import LLAMA_8B_H200
from modelplane.testing.world.engine_speed import RequestShape, engine_speed

SHAPE = RequestShape(800, 200)


def replica(*args, gpus=1, copies=1):
    container = {"name": "engine", "image": "vllm/vllm-openai:v0.27.1", "args": list(args)}
    member = {
        "nodePoolName": "pool",
        "deviceRequests": [{"name": "gpu", "count": gpus}],
        "template": {"spec": {"containers": [container]}},
    }
    return {"spec": {"engines": [{"name": "main", "copies": copies, "members": [member]}]}}


def cluster(product):
    device = {"attributes": {"gpu.nvidia.com/productName": {"string": product}}}
    return {"status": {"gpuPools": [{"name": "other"}, {"name": "pool", "devices": [device]}]}}


def speed(model="Qwen/Qwen3-8B", product="NVIDIA H200", shape=SHAPE, **more):
    return engine_speed(replica(model, **more), cluster(product), shape)


def test_the_step_times_are_those_of_the_simulated_engine():
    here = engine_speed(replica("Llama-3-8.03B"), cluster("NVIDIA H200"), SHAPE)
    assert here.timing.step_ms(tokens=64, kv_tokens=1000) == pytest.approx(
        LLAMA_8B_H200.step_ms(tokens=64, kv_tokens=1000), rel=0.01
    )


def test_a_full_replica_ends_as_many_requests_as_its_steps_allow():
    found = speed()
    batch = found.batches[-1]
    assert found.capacity == pytest.approx(batch / (SHAPE.output * found.step_ms(batch) / 1000))
    assert found.batch_at(found.capacity) == pytest.approx(batch)
    assert found.batch_at(2 * found.capacity) == batch
    assert found.batch_at(0.0) == 0.0


def test_the_batch_grows_with_the_rate_and_slows_the_steps():
    found = speed()
    batches = [found.batch_at(rate) for rate in (1, 5, 10, 20, 30)]
    assert batches == sorted(batches)
    steps = [found.step_ms(batch) for batch in batches]
    assert steps == sorted(steps)
    assert found.prefill_ms(4000, 10) > 3 * found.prefill_ms(400, 10)


@pytest.mark.parametrize(
    ("slower", "faster"),
    [
        (speed(product="NVIDIA L4"), speed(product="NVIDIA H200")),
        (speed(model="Llama-70B"), speed(model="Llama-8B")),
        (speed(shape=RequestShape(800, 400)), speed(shape=RequestShape(800, 200))),
        (speed(), speed(copies=2)),
    ],
    ids=["GPU", "model", "longer answers", "copies"],
)
def test_what_serves_more(slower, faster):
    assert slower.capacity < faster.capacity


def test_a_small_cache_limits_the_batch():
    assert speed(product="NVIDIA L4", shape=RequestShape(8000, 200)).batches[-1] < 10


def test_hardware_that_is_not_known_is_an_h200():
    assert engine_speed(replica("Qwen/Qwen3-8B"), None, SHAPE).timing == LLAMA_8B_H200
