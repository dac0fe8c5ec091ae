"""Which images of ours the pods of engines that run keep.

A release of Modelplane brings other images of the loader, the routing sidecar and the warm-up. That alone changes no
pod of an engine, whose weights would be loaded again: a workload keeps the images that it has, and its being without a
check of its caches, until something else of its pods changes. A sidecar or warm-up that the cluster itself names is
the platform's decision, and rolls the pods.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from modelplane.api.labels import CACHE_CHECK_CONTAINER, ROUTING_SIDECAR_CONTAINER, WARM_UP_CONTAINER
from modelplane.api.models import InferenceCluster
from modelplane.api.objects import Manifest, items_at, text_at
from modelplane.compose.images import OwnImages, named_image

_POD_SPECS = (
    ("spec", "template", "spec"),
    ("spec", "leaderWorkerTemplate", "leaderTemplate", "spec"),
    ("spec", "template"),
)
"""Where a Deployment, a LeaderWorkerSet and an LLMInferenceService have the spec of the pods that serve.

Pods of workers and of prefill have no other images of ours than those.
"""
_CLIQUES = ("spec", "template", "cliques")
"""Where a PodCliqueSet has its pods, each below this path."""
_CLIQUE_POD = ("spec", "podSpec")
_COMPONENTS = ("spec", "components")
"""Where a DynamoGraphDeployment has its pods, each below this path."""
_COMPONENT_POD = ("podTemplate", "spec")


def kept_images(cluster: InferenceCluster, newest: OwnImages, workloads: Sequence[Manifest]) -> OwnImages:
    """The newest images, with those of the observed workloads in their place; there are some."""
    found = dict(entry for item in workloads for entry in _images(item))
    return replace(
        newest,
        loader=found.get(CACHE_CHECK_CONTAINER, ""),
        routing_sidecar=named_image(cluster, "routing_sidecar")
        or found.get(ROUTING_SIDECAR_CONTAINER, newest.routing_sidecar),
        warm_up=named_image(cluster, "warm_up") or found.get(WARM_UP_CONTAINER, newest.warm_up),
    )


def _images(workload: Manifest) -> Iterator[tuple[str, str]]:
    places = [(workload, path) for path in _POD_SPECS]
    places += [(clique, _CLIQUE_POD) for clique in items_at(workload, *_CLIQUES)]
    places += [(component, _COMPONENT_POD) for component in items_at(workload, *_COMPONENTS)]
    for item, path in places:
        for field in ("initContainers", "containers"):
            for container in items_at(item, *path, field):
                yield text_at(container, "name"), text_at(container, "image")
