"""One public class name has one meaning in the whole package (design/0006-the-house.md)."""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "modelplane"


def public_classes():
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, str(path.relative_to(PACKAGE))


def test_a_public_class_name_is_used_once():
    homes = defaultdict(list)
    for name, home in public_classes():
        homes[name].append(home)
    assert len(homes) > 1000
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}
