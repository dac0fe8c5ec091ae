"""One public class name has one meaning in the whole package (design/0006-the-house.md)."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "modelplane"


class Names(NamedTuple):
    public_classes: tuple[str, ...]
    bound: frozenset[str]


@cache
def modules():
    """The names of every module; the trees are not kept, since a collection of garbage would visit them for ever."""
    return {str(path.relative_to(PACKAGE)): names(ast.parse(path.read_text())) for path in PACKAGE.rglob("*.py")}


def names(module):
    classes = (node.name for node in module.body if isinstance(node, ast.ClassDef))
    return Names(tuple(name for name in classes if not name.startswith("_")), frozenset(bound_names(module)))


def bound_names(module):
    for node in ast.walk(module):
        name = getattr(node, "name", None) or getattr(node, "arg", None)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.id if isinstance(node, ast.Name) else node.attr
        if isinstance(name, str):
            yield name


def test_a_public_class_name_is_used_once():
    homes = defaultdict(list)
    for home, found in modules().items():
        for name in found.public_classes:
            homes[name].append(home)
    assert len(homes) > 1000
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


# What the field calls a request, a message, a time or a placed replica had these names once.
REPLACED = {
    *("ask", "asks", "asked", "asking", "asker", "tell", "tells", "told", "heard", "look", "looks", "looked"),
    *("fate", "fates", "seat", "seats", "holding", "holdings", "moment", "moments", "trait", "traits", "condemned"),
    *("witness", "chorus", "restless", "furniture", "knobs", "tether", "cellar", "trifles"),
}
LOOKUPS = {"look_up", "looks_like_json"}


def words(name):
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


def test_the_words_of_a_name():
    assert words("_MOST_ASKED") == {"most", "asked"}
    assert words("PickRequest.askedFor") == {"pick", "request", "asked", "for"}


def test_names_are_the_fields_words():
    found = [(name, home) for home, found in modules().items() for name in found.bound]
    assert len(found) > 20_000
    assert [(name, home) for name, home in found if words(name) & REPLACED and name not in LOOKUPS] == []
