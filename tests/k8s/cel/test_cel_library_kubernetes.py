import pytest

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library.kubernetes import compare_quantities, plain_quantity, to_quantity, to_version


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [("1Ki", "1024", 0), ("1k", "1Ki", -1), ("100m", "0.1", 0), ("-1", "1", -1), ("1E", "1P", 1), ("0", "-0", 0)],
)
def test_quantities_compare_as_numbers(left, right, expected):
    assert compare_quantities(to_quantity(left), to_quantity(right)) == expected
    assert compare_quantities(plain_quantity(left), plain_quantity(right)) == expected
    assert compare_quantities(to_quantity(left), plain_quantity(right)) == expected


@pytest.mark.parametrize("text", ["", "1 Gi", "1GiB", "1KI", "0x1", "1.2.3"])
def test_texts_that_are_no_quantity(text):
    with pytest.raises(EvaluationError):
        to_quantity(text)


@pytest.mark.parametrize(
    ("text", "same"), [("v1", "1.0.0"), ("1.2", "1.2.0"), ("01.02.03", "1.2.3"), ("v1.2.3-rc.1", "1.2.3-rc.1")]
)
def test_loose_versions(text, same):
    assert to_version(text, True) == to_version(same)
    with pytest.raises(EvaluationError):
        to_version(text)
