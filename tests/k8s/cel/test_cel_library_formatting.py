import math

import pytest

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library.formatting import Clause, FormatError, clauses, format_string
from modelplane.k8s.cel.values import Uint


@pytest.mark.parametrize(
    ("text", "args", "expected"),
    [
        ("100%%", [], "100%"),
        ("%s and %s", ["a", 1], "a and 1"),
        ("%d", [Uint(7)], "7"),
        ("%b %b", [5, True], "101 1"),
        ("%x %X %x %x", [255, 255, "ab", b"\x01"], "ff FF 6162 01"),
        ("%o", [-8], "-10"),
        ("%.2f", [1234.5], "1,234.50"),
        ("%f", [math.nan], "NaN"),
        ("%f", ["-Infinity"], "-∞"),
    ],
)
def test_formatting(text, args, expected):
    assert format_string(text, args) == expected


@pytest.mark.parametrize(
    ("text", "args"), [("%s", []), ("%d", ["a"]), ("%f", [1]), ("%b", ["a"]), ("%q", [1]), ("%", [1]), ("%.xf", [1.0])]
)
def test_formats_that_fail(text, args):
    with pytest.raises((EvaluationError, FormatError)):
        format_string(text, args)


def test_the_verbs_of_a_format():
    verbs = [clause.verb for clause in clauses("a%d%%%.3fb") if isinstance(clause, Clause) and clause.verb]
    assert verbs == ["d", "f"]
