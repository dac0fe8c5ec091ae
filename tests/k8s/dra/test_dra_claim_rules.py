"""What the API refuses in claims and classes. Random objects are compared with the real rules in the vectors."""

import pytest

from modelplane.k8s.dra import Features, claim_problems, class_problems, decode_claims, decode_classes
from modelplane.testing.devices import a_choice, a_claim, a_class, a_request, a_subrequest

AT = "spec.devices.requests[0]"


def problems(claim, **gates):
    return claim_problems(decode_claims([claim])[0], Features(**gates))


def one(**fields):
    return a_claim(a_request("r", **fields))


def constrained(**constraint):
    return a_claim(a_request("r"), a_choice("c", s=a_subrequest()), constraints=[constraint])


def configured(*configs):
    claim = a_claim(a_request("r"))
    claim["spec"]["devices"]["config"] = list(configs)
    return claim


UNKNOWN = "is not a request of the claim, nor request/alternative"
MATCHING = {"matchAttribute": "a.com/x"}
OPAQUE = {"driver": "gpu.example.com", "parameters": {"x": 1}}


@pytest.mark.parametrize(
    "claim",
    [
        a_claim(),
        one(),
        one(count=32),
        one(allocationMode="All"),
        one(selectors=[{"cel": {"expression": "true"}}] * 32),
        one(tolerations=[{"operator": "Exists"}, {"key": "k", "value": "v", "effect": "NoSchedule"}, {}]),
        one(capacity={"requests": {"memory": "1Gi"}}),
        one(capacity={}),
        a_claim(a_choice("c", **{f"s{index}": a_subrequest() for index in range(8)})),
        constrained(matchAttribute="a.com/x"),
        constrained(distinctAttribute="a.com/x", requests=["r", "c", "c/s"]),
        configured({"opaque": OPAQUE, "requests": ["r"]}),
        configured(*[{"opaque": OPAQUE}] * 32),
        configured({"opaque": {**OPAQUE, "parameters": {"x": "y" * (10 * 1024 - len('{"x":""}'))}}}),
        a_claim(*[a_request(f"r{index}") for index in range(32)]),
    ],
)
def test_what_is_accepted(claim):
    assert problems(claim) == ()


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (a_claim(name="No"), ["metadata.name: must be a DNS subdomain"]),
        *[
            (
                a_claim(a_choice(choice, **{each: a_subrequest()}), constraints=[{**MATCHING, "requests": [name]}]),
                [problem, f"spec.devices.constraints[0].requests[0]: {name} {UNKNOWN}"],
            )
            for choice, each, name, problem in (
                ("c", "S", "c/S", f"{AT}.firstAvailable[0].name: must be a DNS label"),
                ("c/d", "s", "c/d/s", f"{AT}.name: must be a DNS label"),
            )
        ],
        (configured(*[{"opaque": OPAQUE}] * 33), ["spec.devices.config: must have at most 32 items, has 33"]),
        (
            configured({"opaque": {**OPAQUE, "parameters": {"x": "y" * (10 * 1024 - len('{"x":""}') + 1)}}}),
            ["spec.devices.config[0].opaque.parameters: must have at most 10240 bytes"],
        ),
        (a_claim(a_request("R")), [f"{AT}.name: must be a DNS label"]),
        (a_claim(a_request("r"), a_request("r")), ["spec.devices.requests[1]: duplicate r"]),
        (
            a_claim(*[a_request(f"r{index}") for index in range(33)]),
            ["spec.devices.requests: must have at most 32 items, has 33"],
        ),
        (a_claim({"name": "r"}), [f"{AT}: exactly one of exactly and firstAvailable is required"]),
        (
            a_claim({**a_request("r"), "firstAvailable": [{"name": "s", "deviceClassName": "gpu"}]}),
            [f"{AT}: exactly one of exactly and firstAvailable is required"],
        ),
        (
            a_claim(a_choice("c", **{f"s{index}": a_subrequest() for index in range(9)})),
            [f"{AT}.firstAvailable: must have at most 8 items, has 9"],
        ),
        (
            a_claim({"name": "c", "firstAvailable": [{"name": "s", **a_subrequest()}] * 2}),
            [f"{AT}.firstAvailable[1]: duplicate s"],
        ),
        (a_claim(a_choice("c", S=a_subrequest())), [f"{AT}.firstAvailable[0].name: must be a DNS label"]),
        (one(deviceClassName=""), [f"{AT}.exactly.deviceClassName: must be a DNS subdomain"]),
        (one(allocationMode="All", count=2), [f"{AT}.exactly.count: must not be given with allocationMode All"]),
        (one(count=-1), [f"{AT}.exactly.count: must be greater than zero"]),
        (one(allocationMode="Some"), [f"{AT}.exactly.allocationMode: must be All or ExactCount"]),
        (one(selectors=[{}]), [f"{AT}.exactly.selectors[0].cel: is required"]),
        (
            one(selectors=[{"cel": {"expression": "true"}}] * 33),
            [f"{AT}.exactly.selectors: must have at most 32 items, has 33"],
        ),
        (
            one(tolerations=[{"key": "-"}, {"operator": "Exists", "value": "v"}, {"value": "-"}, {"operator": "Like"}]),
            [
                f"{AT}.exactly.tolerations[0].key: must be a label key",
                f"{AT}.exactly.tolerations[1].value: must be empty for operator Exists",
                f"{AT}.exactly.tolerations[2].value: must be a label value",
                f"{AT}.exactly.tolerations[3].operator: must be Exists or Equal",
            ],
        ),
        (
            one(tolerations=[{"effect": "Bad"}]),
            [f"{AT}.exactly.tolerations[0].effect: must be one of NoSchedule, NoExecute, None"],
        ),
        (
            constrained(matchAttribute="x"),
            ["spec.devices.constraints[0].matchAttribute: must be a domain and a name separated by a slash"],
        ),
        (
            constrained(distinctAttribute="x"),
            ["spec.devices.constraints[0].distinctAttribute: must be a domain and a name separated by a slash"],
        ),
        (
            constrained(),
            ["spec.devices.constraints[0]: exactly one of matchAttribute and distinctAttribute is required"],
        ),
        (
            constrained(matchAttribute="a/b", requests=["r", "r", "nope", "c/nope", "c/s/x"]),
            [
                "spec.devices.constraints[0].requests[1]: duplicate r",
                f"spec.devices.constraints[0].requests[2]: nope {UNKNOWN}",
                f"spec.devices.constraints[0].requests[3]: c/nope {UNKNOWN}",
                f"spec.devices.constraints[0].requests[4]: c/s/x {UNKNOWN}",
            ],
        ),
        (
            a_claim(a_request("r"), constraints=[{"matchAttribute": "a/b"}] * 33),
            ["spec.devices.constraints: must have at most 32 items, has 33"],
        ),
        (
            configured({}, {"opaque": {"driver": "-", "parameters": []}}, {"opaque": OPAQUE, "requests": ["x"]}),
            [
                "spec.devices.config[0].opaque: is required",
                "spec.devices.config[1].opaque.driver: must be a driver name",
                "spec.devices.config[1].opaque.parameters: must be an object",
                f"spec.devices.config[2].requests[0]: x {UNKNOWN}",
            ],
        ),
        (
            configured({"opaque": {"driver": "a.com", "parameters": {"x": "y" * 10_240}}}),
            ["spec.devices.config[0].opaque.parameters: must have at most 10240 bytes"],
        ),
    ],
)
def test_what_is_refused(claim, expected):
    assert list(problems(claim)) == expected


def test_expressions_are_compiled_as_new_ones():
    found = problems(one(selectors=[{"cel": {"expression": "1"}}, {"cel": {"expression": "device.nope"}}]))
    assert [problem.partition(": ")[0] for problem in found] == [
        f"{AT}.exactly.selectors[0].cel.expression",
        f"{AT}.exactly.selectors[1].cel.expression",
    ]


def test_expressions_are_compiled_with_the_gates():
    claim = one(selectors=[{"cel": {"expression": "device.allowMultipleAllocations"}}])
    assert problems(claim) == ()
    assert len(problems(claim, consumable_capacity=False)) == 1


def test_amounts_must_be_quantities():
    assert problems(one(capacity={"requests": {"memory": "4GB"}}))[0].startswith(
        f'{AT}.exactly.capacity.requests[memory]: "4GB" is not a quantity'
    )


@pytest.mark.parametrize(
    ("device_class", "expected"),
    [
        (a_class(), []),
        (a_class("gpu", "true"), []),
        (a_class("No"), ["metadata.name: must be a DNS subdomain"]),
        ({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}, []),
        (
            {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "gpu"}},
            ["spec.extendedResourceName: must be a valid extended resource name"],
        ),
        ({"metadata": {"name": "gpu"}, "spec": {"config": [{}]}}, ["spec.config[0].opaque: is required"]),
        ({"metadata": {"name": "gpu"}, "spec": {"selectors": [{}]}}, ["spec.selectors[0].cel: is required"]),
    ],
)
def test_classes(device_class, expected):
    assert list(class_problems(decode_classes([device_class])[0], Features())) == expected
