from dataclasses import replace

import msgspec
import pytest

from modelplane.api.codec import decode
from modelplane.api.models import DeviceRequest, InferenceCluster
from modelplane.compose.claims import claim_templates, template_name
from modelplane.compose.context import Context, RenderError


def context(made, **changes) -> Context:
    text = msgspec.json.encode(made.replica)
    for old, new in changes.items():
        text = text.replace(old.encode(), new.encode())
    replica = msgspec.json.decode(text, type=type(made.replica))
    return Context(replica, decode(InferenceCluster, made.required["cluster"][0]))


def test_one_request_for_each_claimable_device_with_the_selector_verbatim(scene):
    found = context(scene("tensor-8"))
    ((_, remote),) = claim_templates(found).items()
    assert remote.manifest["spec"]["spec"] == {
        "devices": {
            "requests": [
                {
                    "name": "gpu",
                    "exactly": {
                        "deviceClassName": "gpu.nvidia.com",
                        "allocationMode": "ExactCount",
                        "count": 8,
                        "selectors": [
                            {"cel": {"expression": 'device.attributes["gpu.nvidia.com"].architecture == "Hopper"'}},
                            {
                                "cel": {
                                    "expression": 'device.capacity["gpu.nvidia.com"].memory'
                                    '.compareTo(quantity("80Gi")) >= 0'
                                }
                            },
                        ],
                    },
                }
            ]
        }
    }


def test_members_have_claims_of_their_own_and_those_that_claim_nothing_have_none(scene):
    assert len(claim_templates(context(scene("pipeline-2")))) == 2
    assert [key.rsplit("-", 1)[0] for key in claim_templates(context(scene("v03-gang")))] == ["claims-serve-worker"]


def test_other_requests_have_another_name_and_other_pods_do_not(scene):
    made = scene("tensor-8")
    plain, other, same = context(made), context(made, **{"80Gi": "141Gi"}), context(made, fp8="auto")

    def name(found: Context) -> str:
        engine = found.replica.spec.engines[0]
        return template_name(found, engine, engine.members[0])

    assert name(plain) == name(same) != name(other)


def claiming(made, *counts) -> Context:
    engine = made.replica.spec.engines[0]
    wanted = tuple(
        DeviceRequest(name=f"d{at}", device_class_name="gpu", count=count) for at, count in enumerate(counts)
    )
    member = msgspec.structs.replace(engine.members[0], device_requests=wanted)
    spec = msgspec.structs.replace(made.replica.spec, engines=(msgspec.structs.replace(engine, members=(member,)),))
    made.replica = msgspec.structs.replace(made.replica, spec=spec)
    return context(made)


def test_more_devices_than_a_claim_can_hold_are_refused(scene):
    assert len(claim_templates(claiming(scene("single-gpu"), 16, 16))) == 1
    with pytest.raises(RenderError, match="33 devices for one pod"):
        claim_templates(claiming(scene("single-gpu"), 17, 16))


def test_a_part_of_a_device_is_asked_for_as_dra_writes_it(scene):
    made = context(scene("tensor-8"), **{'"count":8': '"count":8,"capacity":{"requests":{"memory":"20Gi"}}'})
    ((_, remote),) = claim_templates(made).items()
    asked = remote.manifest["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    assert asked["capacity"] == {"requests": {"memory": "20Gi"}}
    assert (
        template_name(made, made.replica.spec.engines[0], made.replica.spec.engines[0].members[0])
        == (remote.manifest["metadata"]["name"])
    )


def test_requests_on_one_root_are_a_constraint_of_the_claim(scene):
    found = context(scene("gpu-and-nic"))
    engine = found.replica.spec.engines[0]
    member = msgspec.structs.replace(engine.members[0], match_attributes=(), root_requests=("gpu", "nic"))
    spec = msgspec.structs.replace(found.replica.spec, engines=(msgspec.structs.replace(engine, members=(member,)),))
    rooted = replace(found, replica=msgspec.structs.replace(found.replica, spec=spec))
    ((key, remote),) = claim_templates(rooted).items()
    constraint = {"requests": ["gpu", "nic"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}
    assert remote.manifest["spec"]["spec"]["devices"]["constraints"] == [constraint]
    assert key not in claim_templates(context(scene("tensor-8")))
