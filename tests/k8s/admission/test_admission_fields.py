import pytest

from modelplane.api.definitions import definitions
from modelplane.k8s.admission.fields import check_fields, patterns_of

QUANTITY = "is not a valid quantity; must be a number with an optional suffix, such as 80Gi or 1500m"
VERSION = "is not a valid version; must be a semantic version of three numbers, such as 9.0.0"


def devices(*selectors: str) -> dict[str, object]:
    return {"nodeSelector": {"devices": [{"selectors": [{"cel": text} for text in selectors]}]}}


def lines(value: object, kind: str) -> list[str]:
    return [str(problem) for problem in check_fields(value, kind)]


def test_selectors_are_compiled_wherever_a_deployment_has_them():
    bad = devices("device.driver == 'x'", "device.nope")
    spec = {
        **bad,
        "decode": bad,
        "engines": [{"members": [bad]}],
        "template": {"spec": {"engines": [{"members": [bad]}]}},
    }
    places = [problem.field for problem in check_fields({"spec": spec}, "ModelDeployment")]
    assert places == [
        "spec.nodeSelector.devices[0].selectors[1].cel",
        "spec.decode.nodeSelector.devices[0].selectors[1].cel",
        "spec.engines[0].members[0].nodeSelector.devices[0].selectors[1].cel",
        "spec.template.spec.engines[0].members[0].nodeSelector.devices[0].selectors[1].cel",
    ]


def test_a_selector_error_has_its_position():
    (line,) = lines({"spec": devices("device.driver ==\n  'x' &&")}, "ModelDeployment")
    place, _, fault = line.partition(" is not a valid device selector; ")
    assert place == "spec.nodeSelector.devices[0].selectors[0].cel: \"device.driver ==\\n  'x' &&\""
    assert fault.startswith("line 2, column ")
    (line,) = lines({"spec": devices("1 + 1")}, "ModelDeployment")
    assert "bool" in line


def test_quantities_and_versions_of_a_class():
    device = {
        "attributes": {"ok": {"version": "9.0.0"}, "no": {"version": "9.0"}, "text": {"string": "x"}},
        "capacity": {"memory": {"value": "80Gi"}, "a/b": {"value": "80 GB"}},
    }
    assert lines({"spec": {"devices": [device]}}, "InferenceClass") == [
        f'spec.devices[0].attributes[no].version: "9.0" {VERSION}',
        f'spec.devices[0].capacity[a/b].value: "80 GB" {QUANTITY}',
    ]


def test_resources_are_quantities():
    container = {"resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "much"}}}
    spec = {"workers": {"template": {"spec": {"containers": [container]}}}}
    assert lines({"spec": spec}, "ModelDeployment") == [
        f'spec.workers.template.spec.containers[0].resources.limits[memory]: "much" {QUANTITY}'
    ]


@pytest.mark.parametrize(("port", "right"), [
    (8000, True), ("http", True), ("h-1", True), (0, False), (65536, False), ("8000", False), ("a--b", False),
    ("-a", False), ("a" * 16, False), ("HTTP", False),
])  # fmt: skip
def test_ports_are_numbers_or_names(port, right):
    container = {"readinessProbe": {"httpGet": {"port": port}}}
    spec = {"workers": {"template": {"spec": {"containers": [container]}}}}
    assert (lines({"spec": spec}, "ModelDeployment") == []) is right


def test_sizes_of_volumes_and_resources_of_init_containers_are_quantities():
    pod = {
        "volumes": [{"emptyDir": {"sizeLimit": "huge"}}],
        "initContainers": [{"resources": {"requests": {"cpu": "one"}}}],
    }
    path = "spec.workers.template.spec"
    assert lines({"spec": {"workers": {"template": {"spec": pod}}}}, "ModelDeployment") == [
        f'{path}.initContainers[0].resources.requests[cpu]: "one" {QUANTITY}',
        f'{path}.volumes[0].emptyDir.sizeLimit: "huge" {QUANTITY}',
    ]


@pytest.mark.parametrize(
    "value", [None, {}, {"spec": []}, {"spec": {"nodeSelector": {"devices": {}}}}, {"spec": devices()}]
)
def test_other_shapes_are_left_to_the_schema(value):
    assert lines(value, "ModelDeployment") == []
    assert lines(value, "ModelService") == []


def fields_with_a_grammar(schema, path=""):
    """Selectors and quantities of a schema, as the table spells their paths."""
    if "cel" in schema.get("properties", {}):
        yield f"{path}.cel"
    if schema.get("x-kubernetes-int-or-string"):
        yield path
    for name, child in schema.get("properties", {}).items():
        yield from fields_with_a_grammar(child, f"{path}.{name}")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from fields_with_a_grammar(schema["additionalProperties"], f"{path}{{}}")
    if "items" in schema:
        yield from fields_with_a_grammar(schema["items"], f"{path}[]")


@pytest.mark.parametrize("definition", definitions().values(), ids=lambda definition: definition.kind)
def test_the_table_knows_every_such_field(definition):
    assert {*fields_with_a_grammar(definition.schema)} <= patterns_of(definition.kind)


def test_selectors_that_would_take_long_to_compile_are_refused_before_any_is():
    texts = [f'device.driver != "{number:9000}"' for number in range(8)]
    wrong = "different device selectors have more than 20480 characters in all; use fewer or shorter ones"
    assert lines({"spec": devices("device.nope", *texts)}, "ModelDeployment") == [
        f"spec.nodeSelector.devices[0].selectors[3].cel: {wrong}"
    ]
    assert lines({"spec": devices(*[texts[0]] * 8)}, "ModelDeployment") == []
