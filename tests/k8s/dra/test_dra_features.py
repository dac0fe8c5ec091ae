import pytest

from modelplane.api.errors import InputError
from modelplane.k8s.dra.features import Features, features_from


def test_defaults_are_those_of_the_release():
    assert Features() == Features(
        admin_access=True,
        prioritized_list=True,
        partitionable_devices=True,
        device_taints=True,
        consumable_capacity=True,
        device_binding_and_status=True,
        list_type_attributes=False,
    )
    assert features_from({}) == Features()


def test_gates_by_upstreams_names():
    assert features_from({"DeviceTaints": False, "ListTypeAttributes": True}) == Features(
        device_taints=False, list_type_attributes=True
    )


@pytest.mark.parametrize("gates", [{"Unknown": True}, {"DeviceTaints": "no"}, {"device_taints": True}])
def test_what_is_not_a_gate(gates):
    with pytest.raises(InputError, match=r"^features\.\w+: expected one of AdminAccess, "):
        features_from(gates)


@pytest.mark.parametrize(
    ("features", "stable"),
    [
        (Features(), False),
        (Features(consumable_capacity=False), False),
        (Features(consumable_capacity=False, device_binding_and_status=False), True),
        (Features(consumable_capacity=False, device_binding_and_status=False, list_type_attributes=True), False),
    ],
)
def test_which_allocator_upstream_would_run(features, stable):
    assert features.is_stable_allocator is stable
