import pytest
import yaml

from tools.generate_reference import FOLDER, ROOT, _inside, _rows, pages, stale

DEFINITIONS = {
    (definition := yaml.safe_load(path.read_text()))["spec"]["names"]["kind"]: definition
    for path in (ROOT / "apis").glob("*.yaml")
}


def fields(schema):
    """Names of all fields below a schema."""
    for name, field in schema.get("properties", {}).items():
        yield name
        yield from fields(_inside(field)[0])


def test_the_pages_are_up_to_date_and_every_kind_has_one():
    assert stale() == []
    assert {path.stem for path in FOLDER.glob("*.md")} == {"README", *map(str.lower, DEFINITIONS)}
    assert all(f"[{kind}]({kind.lower()}.md)" in pages()["README.md"] for kind in DEFINITIONS)


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_every_field_is_named_on_the_page_of_its_kind(kind):
    page = pages()[f"{kind.lower()}.md"]
    root = DEFINITIONS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    named = {name for part in ("spec", "status") for name in fields(root.get(part, {}))}
    rows = [line.split("|")[1].strip().strip("`") for line in page.splitlines() if line.startswith("| `")]
    assert named - {row.replace("[]", "").rpartition(".")[2] for row in rows} == set()


@pytest.mark.parametrize(
    ("field", "cells"),
    [
        pytest.param(
            {"type": "integer", "minimum": 0, "maximum": 9, "default": 1, "description": "How many."},
            "| `x` | integer | `1` | required; 0 to 9 | How many. |",
            id="bounds",
        ),
        pytest.param(
            {"type": "string", "enum": ["A", "B"], "description": "One\n of two."},
            "| `x` | string |  | required; one of `A`, `B` | One of two. |",
            id="enum",
        ),
        pytest.param(
            {
                "type": "array",
                "maxItems": 3,
                "items": {"type": "string", "pattern": "^(a|b)$"},
                "description": "Words.",
            },
            "| `x` | list of string |  | required; at most 3 items | Words. |",
            id="list",
        ),
        pytest.param(
            {"type": "string", "pattern": "^(a|b)$", "description": "A word."},
            "| `x` | string |  | required; matches `^(a\\|b)$` | A word. |",
            id="a bar ends no cell",
        ),
    ],
)
def test_a_row(field, cells):
    from tools.generate_reference import _line

    (row,) = _rows({"properties": {"x": field}, "required": ["x"]}, "", [])
    assert _line(row) == f"{cells}\n"


def test_an_object_that_is_there_twice_is_shown_once():
    thing = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    rows = list(_rows({"properties": {"first": thing, "second": {"type": "array", "items": thing}}}, "", []))
    assert [(row.path, row.same_as) for row in rows] == [
        ("first", ""),
        ("first.a", ""),
        ("first.b", ""),
        ("second", "first"),
    ]
