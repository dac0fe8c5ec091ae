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
    metric_mapping,
    model_cache,
    model_deployment,
    model_endpoint,
    model_replica,
    model_service,
    telemetry_destination,
    unsupported,
)
from modelplane.compose.contract import Composer


class RegisteredKind(NamedTuple):
    resource: type[msgspec.Struct]
    compose: Composer[Any]  # each composer takes its own kind; the table pairs them


_COMPOSERS: tuple[RegisteredKind, ...] = (
    RegisteredKind(models.InferenceClass, inference_class.compose),
    RegisteredKind(models.InferenceCluster, inference_cluster.compose),
    RegisteredKind(models.InferenceGateway, inference_gateway.compose),
    RegisteredKind(models.ModelDeployment, model_deployment.compose),
    RegisteredKind(models.ModelReplica, model_replica.compose),
    RegisteredKind(models.ModelEndpoint, model_endpoint.compose),
    RegisteredKind(models.ModelService, model_service.compose),
    RegisteredKind(models.ModelCache, model_cache.compose),
    RegisteredKind(models.TelemetryDestination, telemetry_destination.compose),
    RegisteredKind(models.MetricMapping, metric_mapping.compose),
    RegisteredKind(models.ServingStack, unsupported.compose),
    RegisteredKind(models.GKECluster, unsupported.compose),
    RegisteredKind(models.EKSCluster, unsupported.compose),
)

COMPOSERS: Mapping[str, RegisteredKind] = MappingProxyType({entry.resource.__name__: entry for entry in _COMPOSERS})
"""By kind."""
