"""Which function composes which kind: the one table that hosts dispatch on."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from modelplane.api import models
from modelplane.compose import (
    inference_class,
    inference_cluster,
    inference_gateway,
    model_deployment,
    model_endpoint,
    model_replica,
    model_service,
    unsupported,
)
from modelplane.compose.contract import Composer


class Entry(NamedTuple):
    resource: type[msgspec.Struct]
    compose: Composer[Any]  # each composer takes its own kind; the table pairs them


_COMPOSERS: tuple[Entry, ...] = (
    Entry(models.InferenceClass, inference_class.compose),
    Entry(models.InferenceCluster, inference_cluster.compose),
    Entry(models.InferenceGateway, inference_gateway.compose),
    Entry(models.ModelDeployment, model_deployment.compose),
    Entry(models.ModelReplica, model_replica.compose),
    Entry(models.ModelEndpoint, model_endpoint.compose),
    Entry(models.ModelService, model_service.compose),
    Entry(models.ModelCache, unsupported.compose),
    Entry(models.ServingStack, unsupported.compose),
    Entry(models.GKECluster, unsupported.compose),
    Entry(models.EKSCluster, unsupported.compose),
)

COMPOSERS: Mapping[str, Entry] = MappingProxyType({entry.resource.__name__: entry for entry in _COMPOSERS})
"""By kind."""
