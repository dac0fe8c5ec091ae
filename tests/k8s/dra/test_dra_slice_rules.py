"""What the API refuses in slices. Random objects are compared with the real rules in the vectors."""

import pytest

from modelplane.k8s.dra import decode_slices, slice_problems
from modelplane.testing.devices import a_device, a_pool, a_slice, shareable

ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
AT = "spec.devices[0]"


def problems(item):
    return list(slice_problems(decode_slices([item])[0]))


def with_device(**fields):
    return a_slice([{**a_device("d"), **fields}])


def with_policy(**policy):
    return a_slice([shareable(a_device("d"), policy)])


def selecting(*expressions, fields=(), terms=1):
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    return a_slice([], nodeName=None, nodeSelector={"nodeSelectorTerms": [term] * terms})


def counting(**counters):
    return {"counterSet": "set", "counters": {name: {"value": value} for name, value in counters.items()}}


@pytest.mark.parametrize(
    "item",
    [
        a_slice([]),
        a_slice([a_device(f"d{index}") for index in range(128)]),
        a_slice([], nodeName=None, allNodes=True),
        a_slice([{**a_device("d"), "allNodes": True}], nodeName=None, perDeviceNodeSelection=True),
        selecting(ZONE, {"key": "n", "operator": "Gt", "values": ["x"]}),
        selecting(fields=[{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]),
        a_slice(None, sharedCounters=[{"name": "s", "counters": {"c": {"value": "1"}}}]),
        with_device(consumesCounters=[counting(c="1")]),
        with_device(taints=[{"key": "k", "effect": "NoSchedule"}, {"key": "k", "value": "v", "effect": "None"}]),
        with_device(attributes={"a.com/x": {"string": "x" * 64}, "v": {"version": "1.0.0"}, "l": {"ints": [1, 2]}}),
        with_device(bindingConditions=["a.com/ready"], bindingFailureConditions=["broken"]),
        with_policy(default="1Gi"),
        with_policy(default="1Gi", validValues=["1Gi", "2Gi"]),
        with_policy(default="3Gi", validRange={"min": "1Gi", "max": "5Gi", "step": "2Gi"}),
        # At each limit.
        a_slice([{**a_device(f"d{index}"), "attributes": {"x": {"int": 1}}} for index in range(128)]),
        selecting({"key": "n", "operator": "DoesNotExist"}),
        selecting(fields=[{"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}]),
        with_device(
            attributes={f"a{index}": {"int": index} for index in range(31)},
            capacity={"m": {"value": "1"}},
        ),
        with_device(attributes={"l": {"ints": [1] * 48}}, capacity={}),
        with_device(consumesCounters=[counting(**{f"c{index}": "1" for index in range(32)})]),
        with_policy(default="80Gi", validValues=["1Gi", "80Gi"]),
        with_policy(default="80Gi", validRange={"min": "80Gi"}),
        with_policy(default="1Gi", validRange={"min": "1Gi", "step": "79Gi"}),
        a_slice([], pool=a_pool(generation=0)),
        selecting({"key": "n", "operator": "NotIn", "values": ["x"]}, {"key": "n", "operator": "Lt", "values": ["1"]}),
        with_device(attributes={"x": {"int": 2**63 - 1}, "y": {"int": -(2**63)}}),
        with_device(attributes={"b": {"bools": [True]}, "s": {"strings": ["x"]}, "v": {"versions": ["1.0.0"]}}),
        with_device(
            bindingConditions=[f"ready{index}" for index in range(4)],
            bindingFailureConditions=[f"broken{index}" for index in range(4)],
        ),
        with_policy(default="1Gi", validRange={"min": "1Gi", "max": "1Gi"}),
        with_policy(default="80Gi", validRange={"min": "1Gi", "max": "80Gi"}),
        with_policy(default="1", validRange={"min": "1", "max": "5", "step": "1"}),
    ],
)
def test_what_is_accepted(item):
    assert problems(item) == []


ONE_SCOPE = "spec: exactly one of nodeName, nodeSelector, allNodes, perDeviceNodeSelection is required"
POLICY = f"{AT}.capacity[memory].requestPolicy"


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (a_slice([], "No"), ["metadata.name: must be a DNS subdomain"]),
        (a_slice([], driver="a_b"), ["spec.driver: must be a DNS subdomain of at most 63 bytes"]),
        (a_slice([], pool=a_pool("A")), ["spec.pool.name: must be DNS subdomains separated by slashes"]),
        (a_slice([], pool=a_pool(slices=0)), ["spec.pool.resourceSliceCount: must be greater than zero"]),
        (a_slice([], pool=a_pool(generation=-1)), ["spec.pool.generation: must not be negative"]),
        (a_slice([], nodeName=None), [ONE_SCOPE]),
        (a_slice([], nodeName=""), ["spec.nodeName: must be a DNS subdomain", ONE_SCOPE]),
        (a_slice([], allNodes=True), [ONE_SCOPE]),
        (a_slice([], allNodes=False), ["spec.allNodes: must be true or absent"]),
        (a_slice([], perDeviceNodeSelection=False), ["spec.perDeviceNodeSelection: must be true or absent"]),
        (selecting(terms=2), ["spec.nodeSelector.nodeSelectorTerms: must have exactly one term"]),
        (
            selecting(terms=0),
            [
                "spec.nodeSelector.nodeSelectorTerms: must have at least one term",
                "spec.nodeSelector.nodeSelectorTerms: must have exactly one term",
            ],
        ),
        (
            selecting(
                {"key": "zone", "operator": "In"}, {"key": "-", "operator": "Exists"}, {"key": "z", "operator": "?"}
            ),
            [
                "spec.nodeSelector: zone: operator In does not take 0 values",
                "spec.nodeSelector: -: must be a label key with label values",
                "spec.nodeSelector: z: operator ? does not take 0 values",
            ],
        ),
        (
            selecting(fields=[{"key": "metadata.uid", "operator": "Exists"}]),
            [
                "spec.nodeSelector: field metadata.uid: takes In or NotIn with exactly one value",
                "spec.nodeSelector: field metadata.uid: must be metadata.name with the name of a node",
            ],
        ),
        (
            a_slice([], sharedCounters=[{"name": "s", "counters": {"c": {"value": "1"}}}]),
            ["spec: only one of sharedCounters and devices is allowed"],
        ),
        (
            a_slice([a_device(f"d{index}") for index in range(129)]),
            ["spec.devices: must have at most 128 items, has 129"],
        ),
        (
            a_slice([{**a_device(f"d{i}"), "taints": [{"key": "k", "effect": "None"}]} for i in range(65)]),
            ["spec.devices: must have at most 64 items, has 65"],
        ),
        *[
            (
                a_slice([{**a_device(f"d{index}"), "attributes": {"x": {kind: [value]}}} for index in range(65)]),
                ["spec.devices: must have at most 64 items, has 65"],
            )
            for kind, value in (("bools", True), ("ints", 1), ("strings", "x"), ("versions", "1.0.0"))
        ],
        (
            a_slice([{**a_device("x"), "attributes": {"x": {"ints": [1]}}}, *[a_device(f"d{at}") for at in range(64)]]),
            ["spec.devices: must have at most 64 items, has 65"],
        ),
        (
            with_device(
                attributes={f"a{index}": {"int": index} for index in range(31)},
                capacity={"m": {"value": "1"}, "n": {"value": "1"}},
            ),
            [f"{AT}: must have at most 32 attributes and capacities"],
        ),
        (with_policy(validRange={"min": "1Gi"}), [f"{POLICY}.default: is required with validValues or validRange"]),
        (
            with_policy(default="81Gi", validRange={"min": "81Gi"}),
            [f"{POLICY}.validRange.min: must not exceed the capacity or the default"],
        ),
        (
            selecting({"key": "z", "operator": "NotIn"}, {"key": "z", "operator": "Lt", "values": ["1", "2"]}),
            [
                "spec.nodeSelector: z: operator NotIn does not take 0 values",
                "spec.nodeSelector: z: operator Lt does not take 2 values",
            ],
        ),
        (
            selecting(fields=[{"key": "metadata.name", "operator": "In", "values": ["node-1", "No"]}]),
            [
                "spec.nodeSelector: field metadata.name: takes In or NotIn with exactly one value",
                "spec.nodeSelector: field metadata.name: must be metadata.name with the name of a node",
            ],
        ),
        (
            with_device(
                bindingConditions=[f"ready{index}" for index in range(5)],
                bindingFailureConditions=[f"broken{index}" for index in range(5)],
            ),
            [
                f"{AT}.bindingConditions: must have at most 4 items, has 5",
                f"{AT}.bindingFailureConditions: must have at most 4 items, has 5",
            ],
        ),
        (with_policy(default="1Gi", validValues=["1Gi", "1Gi"]), [f"{POLICY}.validValues[1]: duplicate 1073741824"]),
        *[
            (
                with_policy(default="2Gi", validRange={"min": least, "max": most}),
                [f"{POLICY}.validRange.max: must be between the minimum and the capacity, and not below the default"],
            )
            for least, most in (("1Gi", "81Gi"), ("1Gi", "1Gi"))
        ],
        (a_slice([a_device("d"), a_device("d")]), ["spec.devices[1]: duplicate d"]),
        (a_slice([a_device("D")]), [f"{AT}.name: must be a DNS label"]),
        (
            with_device(attributes={f"a{index}": {"int": index} for index in range(33)}),
            [f"{AT}: must have at most 32 attributes and capacities"],
        ),
        (with_device(attributes={"l": {"ints": [1] * 49}}), [f"{AT}: must have at most 48 attribute values"]),
        (
            with_device(attributes={"9": {"int": 1}}),
            [f"{AT}.attributes[9]: must be an identifier, or a domain and an identifier separated by a slash"],
        ),
        (with_device(attributes={"x": {}}), [f"{AT}.attributes[x]: exactly one value is required"]),
        (
            with_device(attributes={"x": {"int": 1, "bool": True}}),
            [f"{AT}.attributes[x]: exactly one value is required"],
        ),
        (with_device(attributes={"x": {"int": "1"}}), [f"{AT}.attributes[x].int: '1' is not a value of that type"]),
        (with_device(attributes={"x": {"int": True}}), [f"{AT}.attributes[x].int: True is not a value of that type"]),
        (with_device(attributes={"x": {"int": 2**63}}), [f"{AT}.attributes[x].int: must fit in 64 bits"]),
        (with_device(attributes={"x": {"int": -(2**63) - 1}}), [f"{AT}.attributes[x].int: must fit in 64 bits"]),
        (
            with_policy(default="1Gi", validRange={"min": "2Gi", "max": "1Gi"}),
            [
                f"{POLICY}.validRange.min: must not exceed the capacity or the default",
                f"{POLICY}.validRange.max: must be between the minimum and the capacity, and not below the default",
            ],
        ),
        (
            with_device(attributes={"x": {"string": "é" * 33}}),
            [f"{AT}.attributes[x].string: must have at most 64 bytes"],
        ),
        (
            with_device(attributes={"x": {"version": "1.0"}}),
            [f"{AT}.attributes[x].version: must be a version of semver 2.0.0 with at most 64 bytes"],
        ),
        (with_device(attributes={"x": {"strings": []}}), [f"{AT}.attributes[x].strings: must not be empty"]),
        (
            with_device(capacity={"m": {"value": "1", "requestPolicy": {"default": "1"}}}),
            [f"{AT}.capacity[m].requestPolicy: needs allowMultipleAllocations"],
        ),
        (
            with_device(taints=[{"key": "k", "effect": "None"}] * 17),
            [f"{AT}.taints: must have at most 16 items, has 17"],
        ),
        (
            with_device(taints=[{"key": "", "value": "-", "effect": ""}]),
            [
                f"{AT}.taints[0].key: must be a label key",
                f"{AT}.taints[0].value: must be a label value",
                f"{AT}.taints[0].effect: must be one of NoSchedule, NoExecute, None",
            ],
        ),
        (
            with_device(consumesCounters=[counting(c="1")] * 3),
            [
                f"{AT}.consumesCounters: must have at most 2 items, has 3",
                f"{AT}.consumesCounters[1]: duplicate set",
                f"{AT}.consumesCounters[2]: duplicate set",
            ],
        ),
        (
            with_device(consumesCounters=[{"counterSet": "S"}]),
            [
                f"{AT}.consumesCounters[0].counterSet: must be a DNS label",
                f"{AT}.consumesCounters[0].counters: must not be empty",
            ],
        ),
        (
            a_slice(None, sharedCounters=[{"name": f"s{i}", "counters": {"c": {"value": "1"}}} for i in range(9)]),
            ["spec.sharedCounters: must have at most 8 items, has 9"],
        ),
        (
            a_slice(None, sharedCounters=[{"name": "s", "counters": {f"c{i}": {"value": "1"} for i in range(33)}}]),
            ["spec.sharedCounters[0].counters: must have at most 32 counters"],
        ),
        (
            a_slice(None, sharedCounters=[{"name": "S", "counters": {"C": {"value": "1"}}}]),
            [
                "spec.sharedCounters[0].name: must be a DNS label",
                "spec.sharedCounters[0].counters[C]: must be a DNS label",
            ],
        ),
        (
            with_device(nodeName="node-1"),
            [f"{AT}: nodeName, nodeSelector and allNodes need perDeviceNodeSelection in the slice"],
        ),
        (
            a_slice([a_device("d")], nodeName=None, perDeviceNodeSelection=True),
            [f"{AT}: exactly one of nodeName, nodeSelector, allNodes is required"],
        ),
        (
            with_device(bindingConditions=["a", "a", "-"], bindingFailureConditions=["a"]),
            [
                f"{AT}.bindingConditions[1]: duplicate a",
                f"{AT}.bindingConditions: must be label keys",
                f"{AT}.bindingFailureConditions: must not overlap with bindingConditions",
            ],
        ),
        (
            with_device(bindingConditions=["a"]),
            [f"{AT}: bindingConditions and bindingFailureConditions need each other"],
        ),
        (
            with_policy(default="1Gi", validValues=["1Gi"], validRange={"min": "1Gi"}),
            [f"{POLICY}: only one of validValues and validRange is allowed"],
        ),
        (with_policy(validValues=["1Gi"]), [f"{POLICY}.default: is required with validValues or validRange"]),
        (
            with_policy(default="3Gi", validValues=["2Gi", "1Gi", "1024Mi", "90Gi"]),
            [
                f"{POLICY}.validValues[2]: duplicate 1073741824",
                f"{POLICY}.validValues: must ascend",
                f"{POLICY}.validValues: must not exceed the capacity",
                f"{POLICY}.validValues: must contain the default",
            ],
        ),
        (
            with_policy(default="1", validValues=[str(number) for number in range(1, 12)]),
            [f"{POLICY}.validValues: must have at most 10 items, has 11"],
        ),
        (with_policy(default="1Gi", validRange={}), [f"{POLICY}.validRange.min: is required"]),
        (
            with_policy(default="1Gi", validRange={"min": "2Gi"}),
            [f"{POLICY}.validRange.min: must not exceed the capacity or the default"],
        ),
        (
            with_policy(default="3Gi", validRange={"min": "1Gi", "max": "2Gi"}),
            [f"{POLICY}.validRange.max: must be between the minimum and the capacity, and not below the default"],
        ),
        (
            with_policy(default="1Gi", validRange={"min": "1Gi", "step": "0"}),
            [f"{POLICY}.validRange.step: must be at least one"],
        ),
        (
            with_policy(default="1Gi", validRange={"min": "1Gi", "step": "80Gi"}),
            [f"{POLICY}.validRange.step: one step above the minimum must not exceed the capacity"],
        ),
        (
            with_policy(default="0", validRange={"min": "0", "step": "1e2000000000"}),
            [f"{POLICY}.validRange.step: one step above the minimum must not exceed the capacity"],
        ),
        (
            with_device(
                capacity={
                    "memory": {
                        "value": "0",
                        "requestPolicy": {"default": "0", "validRange": {"min": "0", "step": "1n"}},
                    }
                },
                allowMultipleAllocations=True,
            ),
            [f"{POLICY}.validRange.step: one step above the minimum must not exceed the capacity"],
        ),
        (
            with_policy(default="2Gi", validRange={"min": "1Gi", "max": "4Gi", "step": "2Gi"}),
            [f"{POLICY}.validRange.step: default and maximum must be a number of steps above the minimum"] * 2,
        ),
    ],
)
def test_what_is_refused(item, expected):
    assert problems(item) == expected


@pytest.mark.parametrize(
    "item",
    [
        with_device(capacity={"m": {"value": "4GB"}}),
        with_policy(default="4GB"),
        with_policy(default="1", validValues=["x"]),
        with_policy(default="1", validRange={"min": "x"}),
        with_device(consumesCounters=[counting(c="x")]),
        a_slice(None, sharedCounters=[{"name": "s", "counters": {"c": {"value": "x"}}}]),
    ],
)
def test_quantities_must_be_quantities(item):
    assert len(problems(item)) == 1
    assert "is not a quantity" in problems(item)[0]
