"""The devices of a class as placement reads them."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.errors import InvalidObject
from modelplane.api.models import InferenceClass
from modelplane.compose.pool_hardware import class_kinds

GPU = {"name": "gpu", "driver": "d", "deviceClassName": "c", "count": 8}


def test_a_class_whose_devices_cannot_be_read_is_refused_with_the_place():
    broken = {
        "metadata": {"name": "h200"},
        "spec": {"devices": [{**GPU, "capacity": {"memory": {"value": "lots"}}}]},
    }
    with pytest.raises(InvalidObject, match=r"spec.devices: device gpu: capacity\[memory\].value"):
        class_kinds(decode(InferenceClass, broken))


def test_synthetic_devices_have_no_class():
    kinds = class_kinds(
        decode(
            InferenceClass,
            {"metadata": {"name": "x"}, "spec": {"devices": [GPU, {**GPU, "name": "f", "claim": "Synthetic"}]}},
        )
    )
    assert [(kind.name, kind.device_class) for kind in kinds] == [("f", None), ("gpu", "c")]
