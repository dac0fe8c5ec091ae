import modelplane.engine


def test_the_front_door_is_exact():
    assert sorted(modelplane.engine.__all__) == [
        "Address",
        "Engine",
        "EngineConfig",
        "LLAMA_70B_H200",
        "LLAMA_8B_H200",
        "Timing",
    ]


def test_every_public_class_says_what_it_is():
    documented = [getattr(modelplane.engine, name) for name in modelplane.engine.__all__]
    assert all(thing.__doc__ for thing in documented)
