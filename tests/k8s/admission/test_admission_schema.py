import pytest

from modelplane.k8s.admission.problems import MAX_PROBLEMS, CauseType, Problem
from modelplane.k8s.admission.schema import canonical, check, same

TEXT = {"type": "string"}
PATTERNED = {"type": "string", "pattern": "^a+$"}
POOLS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": {"name": TEXT}},
}
TAINTS = {**POOLS, "x-kubernetes-list-map-keys": ["key", "effect"]}
SET = {"type": "array", "x-kubernetes-list-type": "set"}
PORT = {"x-kubernetes-int-or-string": True}
LABEL_FORM = "must be letters, digits, -, _ and ., starting and ending with a letter or digit"
WORKERS = {
    "type": "object",
    "required": ["count"],
    "properties": {"count": {"type": "integer", "description": "How many. More is better."}},
}


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ("text", TEXT),
        (None, {"type": "string", "nullable": True}),
        (None, {}),
        (1, {"type": "integer"}),
        (1.0, {"type": "integer"}),
        (1, {"type": "number"}),
        (1.5, {"type": "number"}),
        (True, {"type": "boolean"}),
        (3, PORT),
        ("http", PORT),
        ("baab", {"type": "string", "pattern": "aa"}),
        ("éé", {"type": "string", "minLength": 2, "maxLength": 2}),
        ("\U0001f600", {"type": "string", "maxLength": 1}),
        (5, {"type": "integer", "minimum": 5, "maximum": 5}),
        (2**31 - 1, {"type": "integer", "format": "int32"}),
        (2**63 - 1, {"type": "integer", "format": "int64"}),
        (6, {"type": "integer", "multipleOf": 3}),
        (1.5, {"type": "number", "multipleOf": 0.5}),
        ([1, True, "1"], SET),
        ([{"name": "a"}, {"name": "b"}], POOLS),
        ([{"key": "a", "effect": "x"}, {"key": "a", "effect": "y"}, {"key": "a"}], TAINTS),
        (["a", "a"], {"type": "array"}),
        ({"a": 1}, {"type": "object", "additionalProperties": True}),
        ({"x": 1}, {"type": "object"}),
        ("anything", {"format": "unheard-of"}),
        ("2024-01-02T03:04:05Z", {"type": "string", "format": "date-time"}),
        ("b", {"enum": ["a", "b"]}),
        (1, {"enum": [1]}),
        ({"a": 1}, {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        ({"a": 1, "b": 1}, {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        ({}, {"not": {"required": ["a"]}}),
        (4, {"allOf": [{"minimum": 1}, {"maximum": 5}]}),
    ],
)
def test_valid(value, schema):
    assert check(value, schema) == ()


@pytest.mark.parametrize(
    ("value", "schema", "message", "cause"),
    [
        (None, TEXT, "is null; give a string, or leave the field out", CauseType.TYPE),
        (False, TEXT, 'is the boolean false; must be a string; write it in quotes, "false"', CauseType.TYPE),
        (8, TEXT, 'is the integer 8; must be a string; write it in quotes, "8"', CauseType.TYPE),
        ([1], TEXT, "is a list; must be a string", CauseType.TYPE),
        ("3", {"type": "integer"}, 'is the string "3"; must be an integer', CauseType.TYPE),
        (1.5, {"type": "integer"}, "is the number 1.5; must be an integer", CauseType.TYPE),
        (True, {"type": "integer"}, "is the boolean true; must be an integer", CauseType.TYPE),
        ({}, {"type": "array"}, "is an object; must be a list", CauseType.TYPE),
        (1.5, PORT, "is the number 1.5; must be an integer or a string", CauseType.TYPE),
        ("", {"type": "string", "minLength": 1}, "is empty; at least 1 is needed", CauseType.INVALID),
        ("a", {"type": "string", "minLength": 2}, "has 1 character; at least 2 are needed", CauseType.INVALID),
        ("abc", {"type": "string", "maxLength": 2}, "has 3 characters; at most 2 are allowed", CauseType.TOO_LONG),
        ("aa\n", PATTERNED, '"aa\\n" is not valid; must match ^a+$', CauseType.INVALID),
        ("a", {"type": "string", "pattern": "("}, '"a" is not valid; must match (', CauseType.INVALID),
        ("x", {"type": "string", "format": "date"}, '"x" is not a valid date', CauseType.INVALID),
        (4, {"type": "integer", "minimum": 5}, "4 is too small; must be at least 5", CauseType.INVALID),
        (6, {"type": "integer", "maximum": 5}, "6 is too large; must be at most 5", CauseType.INVALID),
        (5, {"minimum": 5, "exclusiveMinimum": True}, "5 is too small; must be more than 5", CauseType.INVALID),
        (5, {"maximum": 5, "exclusiveMaximum": True}, "5 is too large; must be less than 5", CauseType.INVALID),
        (7, {"type": "integer", "multipleOf": 3}, "7 is not allowed; must be a multiple of 3", CauseType.INVALID),
        (1e300, {"multipleOf": 2}, "1e+300 is not allowed; must be a multiple of 2", CauseType.INVALID),
        (
            2**31,
            {"type": "integer", "format": "int32"},
            "2147483648 does not fit into int32; must be from -2147483648 to 2147483647",
            CauseType.INVALID,
        ),
        (
            2.0**64,
            {"type": "integer"},
            ("1.8446744073709552e+19 does not fit into integer; "
            "must be from -9223372036854775808 to 9223372036854775807"),
            CauseType.INVALID,
        ),
        (
            1e39,
            {"type": "number", "format": "float"},
            "1e+39 does not fit into float; must be from -3.4028234663852886e+38 to 3.4028234663852886e+38",
            CauseType.INVALID,
        ),
        ([], {"type": "array", "minItems": 1}, "is empty; at least 1 is needed", CauseType.INVALID),
        ([1], {"type": "array", "minItems": 2}, "has 1 items; at least 2 are needed", CauseType.INVALID),
        ([1, 2], {"type": "array", "maxItems": 1}, "has 2 items; at most 1 is allowed", CauseType.TOO_MANY),
        ({}, {"type": "object", "minProperties": 1}, "is empty; at least 1 is needed", CauseType.INVALID),
        ({"a": 1, "b": 2}, {"maxProperties": 1}, "has 2 entries; at most 1 is allowed", CauseType.TOO_MANY),
        (
            "Gke",
            {"enum": ["GKE", "EKS"]},
            '"Gke" is not a supported value; use GKE or EKS (did you mean GKE?)',
            CauseType.NOT_SUPPORTED,
        ),
        ("x", {"enum": ["GKE"]}, '"x" is not a supported value; use GKE', CauseType.NOT_SUPPORTED),
        (True, {"enum": [1, 2]}, "true is not a supported value; use 1 or 2", CauseType.NOT_SUPPORTED),
        (None, {"nullable": True, "enum": ["a"]}, "null is not a supported value; use a", CauseType.NOT_SUPPORTED),
        (
            {"a": 1, "b": 1},
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            "matches a and b at once; must match exactly one of: a or b",
            CauseType.INVALID,
        ),
        (
            {},
            {"anyOf": [{"required": ["a", "b"]}, {"required": ["c"]}]},
            "matches no alternative; must match one of: a with b or c",
            CauseType.INVALID,
        ),
        (
            {"a": 1},
            {"not": {"required": ["a"]}},
            "has a shape that is not allowed; must not match a",
            CauseType.INVALID,
        ),
        (0, {"allOf": [{"minimum": 1}]}, "0 is too small; must be at least 1", CauseType.INVALID),
    ],
)  # fmt: skip
def test_invalid(value, schema, message, cause):
    assert [(problem.field, problem.message, problem.cause) for problem in check(value, schema)] == [
        (".", message, cause)
    ]


@pytest.mark.parametrize(
    ("value", "schema", "lines"),
    [
        ({}, WORKERS, ["count: is required; give an integer: How many"]),
        ({}, {"type": "object", "required": ["x"]}, ["x: is required; give a value"]),
        (
            {"a": [{"b": 1}, {"b": "x"}]},
            {"properties": {"a": {"items": {"properties": {"b": TEXT}}}}},
            ['a[0].b: is the integer 1; must be a string; write it in quotes, "1"'],
        ),
        (
            {"labels": {"a/b": 1}},
            {"properties": {"labels": {"additionalProperties": TEXT}}},
            ['labels[a/b]: is the integer 1; must be a string; write it in quotes, "1"'],
        ),
        ({"z": 1}, {"type": "object", "additionalProperties": False}, ["z: is not allowed here; leave it out"]),
        (
            [{"name": "a"}, {"name": "b"}, {"name": "a"}],
            POOLS,
            ['[2]: name "a" is the same as in item 0; name must be unique'],
        ),
        ([{}, {}], POOLS, ["[1]: name null is the same as in item 0; name must be unique"]),
        (
            [{"key": "a", "effect": "x"}, {"effect": "x", "key": "a"}],
            TAINTS,
            ['[1]: key "a" and effect "x" is the same as in item 0; key and effect must be unique'],
        ),
        (["a", "b", "a"], SET, ['[2]: "a" is the same as in item 0; each must be unique']),
        ([[1], [1]], {"uniqueItems": True}, ["[1]: a list of 1 is the same as in item 0; each must be unique"]),
        (
            [{"name": 1}] * 3,
            {"type": "array", "maxItems": 2, "items": {"properties": {"name": TEXT}}},
            [".: has 3 items; at most 2 are allowed"],
        ),
        (
            {"kind": "", "metadata": {"labels": {"a b": ""}, "name": "a/b"}},
            {"type": "object", "x-kubernetes-embedded-resource": True},
            [
                "apiVersion: is required; give a string",
                "kind: is required; give a string",
                'metadata.name: "a/b" is not a valid name; must be one segment of a path, without / and %',
                f'metadata.labels[a b]: "a b" is not a valid key of a label; {LABEL_FORM}',
            ],
        ),
        (
            {"apiVersion": "v1", "kind": "A", "metadata": []},
            {"x-kubernetes-embedded-resource": True},
            ["metadata: is a list of 0; must be an object"],
        ),
    ],
)
def test_places(value, schema, lines):
    assert [str(problem) for problem in check(value, schema)] == lines


def test_many_problems_are_reported_in_part():
    assert len(check([1] * 5_000, {"items": TEXT})) == MAX_PROBLEMS


def test_a_problem_is_one_printable_line():
    (problem,) = check({"a\nb": "\x1b[2J\u202e"}, {"additionalProperties": {"enum": ["a"]}})
    assert str(problem) == '[a\\nb]: "\\x1b[2J\\u202e" is not a supported value; use a'


def test_problems_compare_by_value():
    assert check(5, {"maximum": 4}) == (Problem((), "5 is too large", "must be at most 4"),)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, 1, True),
        (1, True, False),
        ([0], [False], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ([1, 2], [2, 1], False),
        (None, None, True),
    ],
)
def test_same(left, right, equal):
    assert same(left, right) is equal
    assert (canonical(left) == canonical(right)) is equal
