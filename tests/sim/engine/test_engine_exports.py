import inspect

import modelplane.sim.engine


def test_the_front_door_is_exact():
    assert sorted(modelplane.sim.engine.__all__) == [
        "Adapter",
        "Address",
        "EngineConfig",
        "EngineRegistry",
        "Faults",
        "GpuModel",
        "KvRole",
        "KvTransfer",
        "LLAMA_70B_H200",
        "LLAMA_8B_H200",
        "ModelShape",
        "NO_FAULTS",
        "PublishedBatch",
        "RequestTracer",
        "SimulatedEngine",
        "Timing",
        "gpu_of",
        "known_shape_of",
        "kv_capacity_tokens",
        "read_list",
        "shape_of",
        "timing_for",
    ]


def test_every_public_class_and_function_has_a_docstring():
    public = [getattr(modelplane.sim.engine, name) for name in modelplane.sim.engine.__all__]
    described = [thing for thing in public if inspect.isclass(thing) or inspect.isfunction(thing)]
    assert len(described) == len(public) - len(
        ["LLAMA_70B_H200", "LLAMA_8B_H200", "KvRole", "NO_FAULTS", "RequestTracer"]
    )
    assert all(thing.__doc__ for thing in described)
