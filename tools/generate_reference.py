"""Writes docs/reference/: a page for each kind, from the definitions under apis/.

generate_reference.py [--check]
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
PLATFORM = {"InferenceClass", "InferenceCluster", "InferenceGateway", "MetricMapping", "TelemetryDestination"}
COMPOSED = {"ModelReplica", "EKSCluster", "GKECluster", "ServingStack"}
_LEAST_REPEATED = 2
"""An object with fewer fields is written out wherever it is."""

Schema = Mapping[str, Any]


class Row(NamedTuple):
    path: str
    schema: Schema
    required: bool
    same_as: str
    """The path of an equal object that was shown before; empty where this one is shown."""


@cache
def pages() -> Mapping[str, str]:
    """Every page by its file name."""
    definitions = [yaml.safe_load(file.read_text()) for file in sorted((ROOT / "apis").glob("*.yaml"))]
    found = {f"{_kind(definition).lower()}.md": _page(definition) for definition in definitions}
    return {**found, "README.md": _index(definitions)}


def _kind(definition: Schema) -> str:
    return str(definition["spec"]["names"]["kind"])


def _audience(kind: str) -> str:
    if kind in COMPOSED:
        return "whoever reads what Modelplane composes"
    return "platform engineers" if kind in PLATFORM else "ML engineers"


def _index(definitions: list[Schema]) -> str:
    rows = [
        f"| [{_kind(each)}]({_kind(each).lower()}.md) | {', '.join(each['spec']['names']['shortNames'])} "
        f"| {each['spec']['scope']} | `{each['spec']['group']}` | {_first_sentence(_root(each))} |\n"
        for each in definitions
    ]
    return f"""\
# API reference

This page is for whoever writes manifests. Every kind has a page with its fields, types, defaults, bounds and rules;
`kubectl explain` has the same text.

`make generate` writes these pages from `apis/`. Fields of metadata are those of Kubernetes; conditions are in
[conditions.md](../conditions.md).

| kind | short | scope | group | what it is |
|---|---|---|---|---|
{"".join(rows)}"""


def _root(definition: Schema) -> Schema:
    root: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return root


def _first_sentence(schema: Schema) -> str:
    return _cell(str(schema["description"]).partition(". ")[0].rstrip(".") + ".")


def _page(definition: Schema) -> str:
    spec = definition["spec"]
    root = _root(definition)
    kind, version = _kind(definition), spec["versions"][0]["name"]
    head = (
        f"# {kind}\n\nThis page is for {_audience(kind)}. `make generate` writes it from `apis/`; do not edit it.\n\n"
        f"{' '.join(str(root['description']).split())}\n\n"
        f"`apiVersion: {spec['group']}/{version}`, scope {spec['scope']}, short name "
        f"{', '.join(f'`{name}`' for name in spec['names']['shortNames'])}.\n"
    )
    tables = [_table(part, root["properties"][part]) for part in ("spec", "status") if part in root["properties"]]
    return "\n".join((head, *tables, *_rule_list(root["properties"]["spec"])))


def _rule_list(schema: Schema) -> Iterator[str]:
    """Rules of a block that is there several times are listed where it is first."""
    first = {(path.rpartition(".")[2], message): path for path, message in reversed(list(_rules(schema, "spec")))}
    if first:
        listed = "".join(f"- `{path}`: {message}.\n" for (_, message), path in reversed(first.items()))
        yield f"## Rules\n\nThe API server also refuses what breaks one of these.\n\n{listed}"


def _table(part: str, schema: Schema) -> str:
    shown: list[tuple[Schema, str]] = []
    rows = "".join(_line(row) for row in _rows(schema, "", shown))
    head = f"## {part}\n\n{_cell(str(schema.get('description', '')))}\n\n"
    return f"{head}| field | type | default | bounds | meaning |\n|---|---|---|---|---|\n{rows}"


def _rows(schema: Schema, path: str, shown: list[tuple[Schema, str]]) -> Iterator[Row]:
    """A row for each field. An object that was shown before, such as a pod template, gets one row that refers to it."""
    for name, field in schema.get("properties", {}).items():
        place = f"{path}.{name}" if path else name
        inner, suffix = _inside(field)
        fields = inner.get("properties", {})
        earlier = next((where for known, where in shown if known == fields), "")
        yield Row(place, field, name in schema.get("required", ()), earlier)
        if len(fields) >= _LEAST_REPEATED and not earlier:
            shown.append((fields, place))
        if not earlier:
            yield from _rows(inner, place + suffix, shown)


def _inside(field: Schema) -> tuple[Schema, str]:
    """The object below a field, a list of it or a map of it, and what is added to the path."""
    suffix = ""
    while True:
        if isinstance(field.get("items"), dict):
            field, suffix = field["items"], f"{suffix}[]"
        elif isinstance(field.get("additionalProperties"), dict):
            field, suffix = field["additionalProperties"], f"{suffix}.KEY"
        else:
            return field, suffix


def _line(row: Row) -> str:
    default = f"`{json.dumps(row.schema['default'])}`" if "default" in row.schema else ""
    meaning = str(row.schema.get("description", ""))
    if row.same_as:
        meaning = f"{meaning} Its fields are those of `{row.same_as}`."
    cells = (f"`{row.path}`", _type(row.schema), default, _bounds(row), _cell(meaning))
    return f"| {' | '.join(cells)} |\n"


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(schema['additionalProperties'])}"
    return kind


def _bounds(row: Row) -> str:
    schema = row.schema
    found = ["required"] if row.required else []
    found += [_range(schema, low, high, unit) for low, high, unit in _RANGES if low in schema or high in schema]
    if "enum" in schema:
        found.append("one of " + ", ".join(f"`{value}`" for value in schema["enum"]))
    if "pattern" in schema:
        found.append(f"matches `{schema['pattern']}`")
    return _cell("; ".join(found))


_RANGES = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
    ("minProperties", "maxProperties", " keys"),
)


def _range(schema: Schema, low: str, high: str, unit: str) -> str:
    if low in schema and high in schema:
        return f"{schema[low]} to {schema[high]}{unit}"
    return f"at least {schema[low]}{unit}" if low in schema else f"at most {schema[high]}{unit}"


def _rules(schema: Schema, path: str) -> Iterator[tuple[str, str]]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield path, _cell(str(rule.get("message", rule["rule"])))
    if isinstance(schema.get("items"), dict):
        yield from _rules(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _rules(schema["additionalProperties"], f"{path}.KEY")
    for name, field in schema.get("properties", {}).items():
        yield from _rules(field, f"{path}.{name}")


def _cell(text: str) -> str:
    """Text for a cell: one line, and bars that end no cell."""
    return " ".join(text.split()).replace("|", "\\|")


def stale() -> list[str]:
    """Files that differ, are missing, or belong to nothing."""
    wanted = pages()
    there = {path.name: path.read_text() for path in FOLDER.glob("*.md")}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the pages are up to date")
    options = parser.parse_args()
    names = stale()
    if options.check:
        for name in names:
            print(f"docs/reference/{name} is not what apis/ gives; run `make generate`", file=sys.stderr)
        return 1 if names else 0
    wanted = pages()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name in wanted:
            (FOLDER / name).write_text(wanted[name])
        else:
            (FOLDER / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
