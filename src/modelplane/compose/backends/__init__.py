"""How a cluster runs replicas, one module each."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from modelplane.compose.backends import dynamo, kserve, native
from modelplane.compose.backends.rendered import Rendered
from modelplane.compose.context import Context

BACKENDS: Mapping[str, Callable[[Context], Rendered]] = MappingProxyType(
    {"Native": native.render, "KServe": kserve.render, "Dynamo": dynamo.render}
)
"""By `spec.backend.type` of an InferenceCluster."""
