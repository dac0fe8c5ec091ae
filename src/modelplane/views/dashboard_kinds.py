"""The kinds that the dashboard reads: what it lists and watches, and what its role allows."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from modelplane.api.definitions import definitions
from modelplane.api.objects import GROUP

KINDS: Final[Mapping[str, str]] = {
    "InferenceClass": GROUP,
    "InferenceCluster": GROUP,
    "ModelDeployment": GROUP,
    "ModelReplica": GROUP,
    "ModelEndpoint": GROUP,
    "ModelService": GROUP,
    "ModelCache": GROUP,
    "TelemetryDestination": GROUP,
    "Event": "",
}
"""Each with its API group."""


class ReadResource(NamedTuple):
    """A kind as the API's paths and roles spell it."""

    group: str
    version: str
    plural: str


def read_resources() -> dict[str, ReadResource]:
    """By kind."""
    served = {each.kind: each for each in definitions().values()}
    return {
        kind: ReadResource(group, served[kind].version, served[kind].plural)
        if group
        else ReadResource("", "v1", "events")
        for kind, group in KINDS.items()
    }
