"""The table of what the API accepts and refuses, as objects: read by our own tests and by the lab."""

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml


@dataclass(frozen=True, slots=True)
class RuleCase:
    name: str
    manifest: Mapping[str, object]
    says: str
    """What a refusal must contain; empty where the manifest is accepted."""
    before: Mapping[str, object] | None = None
    """The object that this manifest would replace."""


def rule_cases(text: str) -> Iterator[RuleCase]:
    table = yaml.safe_load(text)
    for row in table["accepted"] + table["refused"] + table["updates"]:
        base = table["bases"][row["base"]]
        manifest = copy.deepcopy(base)
        for path, value in row.get("set", {}).items():
            _set(manifest, path, value)
        before = base if row in table["updates"] else None
        yield RuleCase(row["case"], manifest, row.get("says", ""), before)


def _set(target: object, path: str, value: object) -> None:
    *parents, last = [int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", path)]
    for part in parents:
        target = target[part]  # type: ignore[index]  # paths are written for the bases they change
    if value is None:
        del target[last]  # type: ignore[attr-defined]  # as above
    else:
        target[last] = value  # type: ignore[index]  # as above
