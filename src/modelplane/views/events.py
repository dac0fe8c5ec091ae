"""Events of Kubernetes: when they last occurred, and what they are about."""

from modelplane.api.objects import Manifest, text_at, value_at
from modelplane.api.timestamps import epoch_s

_TIMES = (("lastTimestamp",), ("eventTime",), ("metadata", "creationTimestamp"))


def last_seen(event: Manifest) -> tuple[float, int, str]:
    """When it last occurred, in seconds since the epoch, and its version: an order of events.

    Times have whole seconds, in which much happens. Versions are opaque, and numbers that grow wherever they are known.
    """
    version = text_at(event, "metadata", "resourceVersion")
    times = (value_at(event, *path) for path in _TIMES)
    known = (epoch_s(found) for found in times if isinstance(found, str))
    at_s = next((found for found in known if found is not None), 0.0)
    return at_s, int(version) if version.isdecimal() else 0, event_version(event)


def event_version(event: Manifest) -> str:
    """Another one whenever it occurs again."""
    return f"{text_at(event, 'metadata', 'uid')}/{text_at(event, 'metadata', 'resourceVersion')}"


def event_subject(event: Manifest) -> tuple[str, str]:
    """Kind and name of the object that it is about."""
    return text_at(event, "involvedObject", "kind"), text_at(event, "involvedObject", "name")
