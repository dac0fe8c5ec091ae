import pytest

from modelplane.api.errors import InputError
from modelplane.envoy import GatewayProblem, GatewayView


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "Big"}, "gateway 'Big': name: use lower-case letters, digits, '-' and '.'"),
        ({"name": "*"}, "gateway '*': name: use lower-case letters, digits, '-' and '.'"),
        ({"host": "0.0.0.0"}, "gateway fleet: host: must be a loopback address, not '0.0.0.0'"),  # noqa: S104  refused
        ({"host": "localhost"}, "gateway fleet: host: must be a loopback address, not 'localhost'"),
        ({"port": 0}, "gateway fleet: port: must be between 1 and 65535, not 0"),
        ({"port": 65_536}, "gateway fleet: port: must be between 1 and 65535, not 65536"),
    ],
)
def test_a_gateway_that_cannot_be_is_refused(changes, sentence):
    with pytest.raises(InputError) as caught:
        GatewayView(**{"name": "fleet", "host": "127.0.0.1", "port": 80, **changes})
    assert str(caught.value) == sentence


def test_a_problem_reads_as_a_sentence():
    problem = GatewayProblem(
        "fleet", "HTTPRoute", "team-a", "demo", "BackendNotFound", "Backend team-a/x does not exist"
    )
    assert str(problem) == "gateway fleet: HTTPRoute team-a/demo: Backend team-a/x does not exist"
