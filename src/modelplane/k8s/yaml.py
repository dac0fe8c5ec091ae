"""YAML out: objects as kubectl would print them. Reading, which trusts nothing, is `admission.documents`."""

from collections.abc import Iterable

import yaml

_WIDTH = 120


class _PlainDumper(yaml.CSafeDumper):
    """Without anchors: a part that occurs twice is written twice, as kubectl does, and a diff shows it whole."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  the signature of PyYAML
        return True


def to_yaml(value: object) -> str:
    """One document."""
    return yaml.dump(value, Dumper=_PlainDumper, sort_keys=False, width=_WIDTH, allow_unicode=True)


def to_yaml_documents(values: Iterable[object]) -> str:
    """Documents one after the other, each after `---`."""
    return "".join(f"---\n{to_yaml(value)}" for value in values)
