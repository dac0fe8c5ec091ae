from modelplane.api.codec import decode
from modelplane.api.models import MetricMapping
from modelplane.compose import metric_mapping
from modelplane.compose.contract import ComposeRequest, Requirement
from tests.compose.test_compose_telemetry import HOUSE, mapping


def compose(item, *others, read=True):
    given = {"telemetry-mappings": (item, *others)} if read else {}
    result = metric_mapping.compose(ComposeRequest(decode(MetricMapping, item), {}, given))
    (said,) = result.conditions
    return result, (said.status.value, str(said.reason), said.message)


def test_a_mapping_that_is_applied():
    result, said = compose(HOUSE)
    assert said == ("True", "Accepted", "")
    assert (result.status.metrics, result.desired) == (3, {})
    assert result.requirements == {"telemetry-mappings": Requirement("modelplane.ai/v1alpha1", "MetricMapping")}


def test_a_metric_that_is_mapped_twice_names_the_other():
    twice = {"from": "x", "to": "modelplane_x"}
    result, said = compose(mapping("m", twice, twice))
    assert said == ("False", "Invalid", "spec.metrics[1].from: this MetricMapping maps x already")
    assert result.status.metrics == 1
    _, said = compose(mapping("m", twice, twice, twice))
    again = "this MetricMapping maps x already"
    assert said == ("False", "Invalid", f"spec.metrics[1].from: {again}; spec.metrics[2].from: {again}")
    _, said = compose(mapping("m", twice), mapping("a", twice))
    assert said == ("False", "Invalid", "spec.metrics[0].from: MetricMapping a maps x already")
    _, said = compose(mapping("m", twice), mapping("z", twice))
    assert said == ("True", "Accepted", "")


def test_the_status_of_another_mapping_does_not_matter():
    assert compose(HOUSE, {**mapping("a", {"from": "x", "to": "modelplane_x"}), "status": 7})[1][0] == "True"


def test_parts_of_a_metric_are_mapped_each_for_itself():
    parts = [{"from": "x", "part": part, "to": f"modelplane_x_{part.lower()}"} for part in ("Count", "Sum")]
    result, said = compose(mapping("m", {"from": "x", "to": "modelplane_x"}, *parts))
    assert (said, result.status.metrics) == (("True", "Accepted", ""), 3)


def test_nothing_is_said_before_the_others_are_read():
    assert compose(HOUSE, read=False)[1] == ("Unknown", "Unresolved", "MetricMappings are not read yet")
    _, (status, reason, message) = compose(HOUSE, {"metadata": {"name": "a"}, "spec": 7})
    assert (status, reason) == ("Unknown", "Invalid")
    assert message.startswith("another MetricMapping: ")
