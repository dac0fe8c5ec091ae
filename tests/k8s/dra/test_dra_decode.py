import pytest

from modelplane.api.errors import InputError
from modelplane.k8s.dra.decode import decode_claims, decode_classes, decode_in_use, decode_node, decode_slices
from modelplane.k8s.dra.resources import (
    ClaimDeviceRequest,
    Counter,
    DeviceCapacity,
    DeviceInUse,
    DeviceToleration,
    ExactRequest,
    Metadata,
    Node,
    ResourcePool,
    ResourceSlice,
    SliceDevice,
    SliceSpec,
    SubRequest,
)
from modelplane.testing.devices import (
    a_choice,
    a_claim,
    a_class,
    a_device,
    a_node,
    a_request,
    a_slice,
    a_subrequest,
    in_use,
)


def test_a_slice():
    assert decode_slices([a_slice([a_device("gpu-0", memory="80Gi", model="a")])]) == (
        ResourceSlice(
            metadata=Metadata(name="slice-1"),
            spec=SliceSpec(
                driver="gpu.example.com",
                pool=ResourcePool(name="pool-1", generation=1, resource_slice_count=1),
                node_name="node-1",
                devices=(
                    SliceDevice(
                        name="gpu-0",
                        attributes={"model": {"string": "a"}},
                        capacity={"memory": DeviceCapacity(value="80Gi")},
                    ),
                ),
            ),
        ),
    )


def test_a_node_a_class_and_a_device_in_use():
    assert decode_node(a_node(zone="a")) == Node(metadata=Metadata(name="node-1", labels={"zone": "a"}))
    assert decode_classes([a_class("gpu", "true")])[0].spec.selectors[0].cel.expression == "true"
    assert decode_in_use([in_use("gpu-0", shareID="1", consumedCapacity={"memory": "1Gi"})]) == (
        DeviceInUse(
            driver="gpu.example.com",
            pool="pool-1",
            device="gpu-0",
            share_id="1",
            consumed_capacity={"memory": "1Gi"},
        ),
    )


def test_a_claim_with_api_defaults():
    claim = decode_claims(
        [a_claim(a_request("r"), a_choice("c", one=a_subrequest(count=2), all=a_subrequest(allocationMode="All")))]
    )[0]
    exact, choice = claim.spec.devices.requests
    assert exact == ClaimDeviceRequest(name="r", exactly=ExactRequest(device_class_name="gpu"))
    assert (exact.exactly.effective_mode, exact.exactly.effective_count) == ("ExactCount", 1)
    assert choice.first_available == (
        SubRequest(name="one", device_class_name="gpu", count=2),
        SubRequest(name="all", device_class_name="gpu", allocation_mode="All"),
    )
    assert [(subrequest.effective_mode, subrequest.effective_count) for subrequest in choice.first_available] == [
        ("ExactCount", 2),
        ("All", 0),
    ]
    assert DeviceToleration(key="k").effective_operator == "Equal"


def test_a_pool_says_no_generation_and_no_count():
    (found,) = decode_slices([a_slice([], pool={"name": "p"})])
    assert found.spec.pool == ResourcePool(name="p", generation=0, resource_slice_count=0)


def test_null_reads_as_absent():
    document = a_slice([a_device("gpu-0")], nodeName="node-1")
    document["spec"].update(sharedCounters=None, allNodes=None)
    draws = [{"counterSet": "s", "counters": {"c": None}}]
    document["spec"]["devices"][0].update(attributes={"x": None}, taints=[None], nodeName=None, consumesCounters=draws)
    document["spec"]["devices"][0].update(capacity={"m": {"value": None}, "n": None})
    device = decode_slices([document])[0].spec.devices[0]
    assert device.attributes == {"x": {}}
    assert device.capacity == {"m": DeviceCapacity(value=0), "n": DeviceCapacity(value=0)}
    assert device.consumes_counters[0].counters == {"c": Counter(value=0)}
    assert (len(device.taints), device.node_name) == (1, None)


@pytest.mark.parametrize(
    ("decode", "documents", "sentence"),
    [
        (decode_slices, [a_slice([], driver=3)], "slices[0].spec.driver: Expected `str`, got `int`"),
        (decode_slices, [a_slice([{}])], "slices[0].spec.devices[0]: Object missing required field `name`"),
        (decode_claims, [a_claim(), "x"], "claims[1]: Expected `object`, got `str`"),
        (decode_classes, [{}], "classes[0]: Object missing required field `metadata`"),
        (decode_in_use, [{"driver": "d"}], "allocated[0]: Object missing required field `pool`"),
        (
            decode_claims,
            [a_claim(a_request("r", count=2**63))],
            "claims[0].spec.devices.requests[0].exactly.count: Expected `int` <= 9223372036854775807",
        ),
    ],
)  # fmt: skip
def test_wrong_shapes_name_the_place(decode, documents, sentence):
    with pytest.raises(InputError) as error:
        decode(documents)
    assert str(error.value) == sentence


def test_a_node_that_is_none():
    with pytest.raises(InputError, match=r"^node: Expected `object`, got `null`$"):
        decode_node(None)
