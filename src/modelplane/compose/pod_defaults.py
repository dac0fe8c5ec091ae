"""Scheduling settings of a cluster that apply to every pod, validated before rendering."""

import re

from modelplane.api.models import Scheduling

_VERSION = re.compile(r"v?[0-9]+\.[0-9]+(\.[0-9]+)?")


def is_version(text: str) -> bool:
    return _VERSION.fullmatch(text) is not None


def version_before(scheduling: Scheduling, minor: int, major: int = 0) -> bool:
    """Whether the scheduler is older. One that does not say how old it is, or cannot, is taken for a recent one."""
    text = scheduling.version
    if text is None or not is_version(text):
        return False
    found = tuple(int(part) for part in text.removeprefix("v").split("."))
    return found < (major, minor)


def version_known_from(scheduling: Scheduling, minor: int, major: int = 0) -> bool:
    """Whether the cluster says that the scheduler is of that version or newer."""
    text = scheduling.version
    return text is not None and is_version(text) and not version_before(scheduling, minor, major)


def kueue_api(scheduling: Scheduling) -> str:
    """What Kueue's objects are written and read in."""
    return f"kueue.x-k8s.io/{'v1beta1' if version_before(scheduling, 15) else 'v1beta2'}"


def priority_fault(scheduling: Scheduling, priority: str) -> str | None:
    """A pod with a PriorityClass that does not exist is rejected by the API server, and no condition would show it."""
    offered = [found.name for found in scheduling.priorities]
    if not priority or not offered or priority in offered:
        return None
    return f"priority {priority!r} is not among the cluster's: {', '.join(offered)}"
