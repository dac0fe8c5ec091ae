"""Labels and annotations that a platform team puts on every pod, with a fixed list of placeholders.

There are six placeholders. Each is replaced once and the replacement is not read again, so a namespace called
`{{ .Cluster }}` injects nothing. Anything else in double braces is rejected when the cluster is written, by a rule of
`apis/inferenceclusters.yaml` with the same expression.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from modelplane.api.models import ReplicaMember, Scheduling
from modelplane.compose.context import Context

NAMES = ("Namespace", "Name", "Replica", "Cluster", "Pool", "Priority")
_PLACEHOLDER = re.compile(r"\{\{ ?\.(" + "|".join(NAMES) + r") ?\}\}")
_TEXT = re.compile(r"([^{]|\{[^{]|\{\{ ?\.(" + "|".join(NAMES) + r") ?\}\})*\{?")
_SUSPECT = re.compile(r"\{\{[^}]*\}?\}?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_LABEL_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_PREFIX = 253


@dataclass(frozen=True, slots=True)
class PlaceholderValues:
    """The values of the placeholders on one pod."""

    namespace: str
    name: str
    replica: str
    cluster: str
    pool: str
    priority: str

    def mapping(self) -> Mapping[str, str]:
        values = (self.namespace, self.name, self.replica, self.cluster, self.pool, self.priority)
        return MappingProxyType(dict(zip(NAMES, values, strict=True)))


def placeholder_values(context: Context, member: ReplicaMember) -> PlaceholderValues:
    return PlaceholderValues(
        namespace=context.replica.metadata.namespace,
        name=context.deployment,
        replica=context.name,
        cluster=context.replica.spec.cluster_name,
        pool=member.node_pool_name,
        priority=context.priority,
    )


def expand(text: str, values: PlaceholderValues) -> str:
    known = values.mapping()
    return _PLACEHOLDER.sub(lambda found: known[found[1]], text)


def unknown_placeholder(text: str) -> str | None:
    """The first text in double braces that is not a placeholder."""
    if _TEXT.fullmatch(text):
        return None
    rest = _PLACEHOLDER.sub("", text)
    found = _SUSPECT.search(rest)
    return found[0] if found else text


def is_label_value(text: str) -> bool:
    return _LABEL_VALUE.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > _MAX_PREFIX or not _LABEL_PREFIX.fullmatch(prefix)):
        return False
    return _LABEL_NAME.fullmatch(name) is not None


def template_fault(scheduling: Scheduling) -> str | None:
    """What is wrong with the labels and annotations of a cluster before any pod is known."""
    for field, entries in _fields(scheduling):
        for key, text in entries.items():
            if not is_label_key(key):
                return f"spec.scheduling.{field}: {key!r} is no {field.removeprefix('default').lower()[:-1]} key"
            unknown = unknown_placeholder(text)
            if unknown is not None:
                return f"spec.scheduling.{field}[{key}]: {unknown!r} is not a placeholder; known are {_listed()}"
    return None


def result_fault(labels: Mapping[str, str]) -> str | None:
    """What is wrong with labels whose tokens were replaced."""
    for key, value in labels.items():
        if not is_label_value(value):
            return f"spec.scheduling.defaultLabels[{key}] becomes {value!r}, which is no label value"
    return None


def _fields(scheduling: Scheduling) -> tuple[tuple[str, Mapping[str, str]], ...]:
    return (("defaultLabels", scheduling.default_labels), ("defaultAnnotations", scheduling.default_annotations))


def _listed() -> str:
    return ", ".join(f"{{{{ .{name} }}}}" for name in NAMES)
