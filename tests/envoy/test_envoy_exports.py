import modelplane.envoy


def test_the_front_door_is_exact():
    assert sorted(modelplane.envoy.__all__) == [
        "ConfigApplied",
        "ConfigRefusedError",
        "EnvoyConfig",
        "EnvoyFailedError",
        "EnvoyProcess",
        "EnvoySettings",
        "GatewayConfigs",
        "GatewayProblem",
        "GatewayView",
        "ProblemReason",
        "Renderer",
        "TlsCertificate",
        "free_port",
        "render",
    ]


def test_every_public_name_has_a_docstring():
    things = [getattr(modelplane.envoy, name) for name in modelplane.envoy.__all__]
    assert all(thing.__doc__ for thing in things if isinstance(thing, type))
