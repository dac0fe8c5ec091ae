"""What the step without a control plane stops: the function server that answers now, whatever its name."""

import pytest

from lab.e2e.services import control_plane
from lab.scenario import FailedError

_OTHERS = ["crossplane", "provider-kubernetes", "control-controller-manager", "control-apiserver", "control-envoy"]


def programs(**functions):
    others = [{"name": name, "phase": "ready"} for name in _OTHERS]
    return [*others, *({"name": name.replace("_", "-"), "phase": phase} for name, phase in functions.items())]


@pytest.mark.parametrize(
    ("functions", "stopped"),
    [
        ({"function": "ready"}, ["function"]),
        ({"function": "held", "function_next": "ready"}, ["function-next"]),
        ({"function": "ready", "function_second": "ready"}, ["function", "function-second"]),
    ],
)
def test_every_function_server_that_runs_is_stopped_and_the_api_server_last(functions, stopped):
    *before, last = control_plane(programs(**functions))
    assert (before, last) == (
        ["crossplane", *stopped, "provider-kubernetes", "control-controller-manager"],
        "control-apiserver",
    )


def test_a_control_plane_without_a_function_server_is_an_error():
    with pytest.raises(FailedError, match="no function server among crossplane"):
        control_plane(programs(function="held"))
