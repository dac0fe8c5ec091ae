import pytest

from modelplane.api.labels import selects
from modelplane.api.models import LabelRequirement, LabelSelector


def requirement(operator, *values, key="tier"):
    return LabelSelector(match_expressions=(LabelRequirement(key=key, operator=operator, values=values),))


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        (None, {}, True),
        (LabelSelector(), {"a": "b"}, True),
        (LabelSelector(match_labels={"a": "b"}), {"a": "b", "c": "d"}, True),
        (LabelSelector(match_labels={"a": "b"}), {"a": "x"}, False),
        (LabelSelector(match_labels={"a": ""}), {}, False),
        (requirement("In", "prod", "dev"), {"tier": "dev"}, True),
        (requirement("In", "prod"), {}, False),
        (requirement("NotIn", "prod"), {"tier": "dev"}, True),
        (requirement("NotIn", "prod"), {}, True),
        (requirement("NotIn", "prod"), {"tier": "prod"}, False),
        (requirement("Exists"), {"tier": ""}, True),
        (requirement("Exists"), {}, False),
        (requirement("DoesNotExist"), {}, True),
        (requirement("DoesNotExist"), {"tier": ""}, False),
    ],
)
def test_a_selector_matches_as_kubernetes_matches(selector, labels, expected):
    assert selects(selector, labels) is expected
