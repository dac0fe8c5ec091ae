"""Flags of vLLM that users give, by their short names too: they are not given a second time."""

import pytest

from modelplane.api.models import Topology
from tests.compose.test_compose_engines import launched


@pytest.mark.parametrize(
    ("given", "topology"),
    [
        (("-tp", "2"), Topology(tensor=8)),
        (("-pp", "2"), Topology(pipeline=4)),
        (("-dp", "2"), Topology(data=4)),
        (("-ep",), Topology(expert=True)),
        (("--enable-expert-parallel",), Topology(expert=True)),
        (("-dpl", "4", "--data-parallel-rpc-port", "9000", "-dp", "8"), Topology(data=16, data_local=8)),
    ],
)
def test_a_size_that_a_user_gives_is_the_one(given, topology):
    found = launched("vLLM", args=("Q", *given), model_path=None, served_names=(), topology=topology)
    assert found.args == ("Q", *given)
