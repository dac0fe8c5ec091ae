"""What a class offers on each node, or what is wrong with it."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceClass
from modelplane.compose import inference_class
from modelplane.compose.contract import ComposeRequest

GPU = {"name": "gpu", "driver": "d", "deviceClassName": "c", "count": 8}
FABRIC = {"name": "fabric", "driver": "f", "claim": "Synthetic", "count": 1}


@pytest.mark.parametrize(
    ("devices", "claimable", "expected"),
    [
        ([GPU, FABRIC], 8, ("True", "Accepted", "8 claimable devices per node")),
        (
            [{**GPU, "capacity": {"memory": {"value": "lots"}}}],
            8,
            ("False", "Invalid", "spec.devices: device gpu: capacity[memory].value: "),
        ),
        (
            [{**GPU, "attributes": {"driverVersion": {"version": "newest"}}}],
            8,
            ("False", "Invalid", "device gpu: attribute driverVersion: "),
        ),
    ],
    ids=["accepted", "a quantity that is none", "a version that is none"],
)
def test_a_class_is_accepted_or_says_what_is_wrong(devices, claimable, expected):
    resource = decode(InferenceClass, {"metadata": {"name": "h200"}, "spec": {"devices": devices}})
    result = inference_class.compose(ComposeRequest(resource))
    (condition,) = result.conditions
    status, reason, message = expected
    assert (condition.type, condition.status.value, condition.reason) == ("Accepted", status, reason)
    assert condition.message.startswith(message)
    assert (result.status.claimable_devices, result.ready.status.value, result.desired) == (claimable, status, {})


def test_all_that_is_wrong_is_said():
    broken = {"attributes": {"driverVersion": {"version": "newest"}}}
    devices = [{**GPU, **broken}, {**GPU, "name": "nic", **broken}]
    resource = decode(InferenceClass, {"metadata": {"name": "h200"}, "spec": {"devices": devices}})
    told = inference_class.compose(ComposeRequest(resource)).conditions[0].message.split("; ")
    assert [words.partition(": ")[0] for words in told] == ["device gpu", "device nic"]
