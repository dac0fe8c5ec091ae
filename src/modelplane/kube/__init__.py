"""A Kubernetes API client with informers.

    kinds       which objects, and their paths
    errors      what can go wrong at this door, drawn once
    config      where the API is and as whom to speak: a kubeconfig, or the ServiceAccount of the pod
    checked_transport  connects to what a kubeconfig from a Secret names
    client      one page of a list, one watch, one object, one annotation
    informer    lists and watches one kind, caches it, and calls listeners with changes

The transport, its TLS and its credentials are lightkube's (the extra `kube`); list and watch are our own, because what
is kept here is a projection of each object and never the object. lightkube is imported when a client is made.
"""

from modelplane.kube.client import KubeClient, Query
from modelplane.kube.config import API_SERVERS, config_of, load_config
from modelplane.kube.errors import BadConfig, KubeError, KubeStatusError, Unreachable
from modelplane.kube.informer import ChangeKind, Informer, InformerEvent, InformerSettings, Listener, NamespacedName
from modelplane.kube.kinds import GroupVersionResource

__all__ = [
    "API_SERVERS",
    "BadConfig",
    "ChangeKind",
    "GroupVersionResource",
    "Informer",
    "InformerEvent",
    "InformerSettings",
    "KubeClient",
    "KubeError",
    "KubeStatusError",
    "Listener",
    "NamespacedName",
    "Query",
    "Unreachable",
    "config_of",
    "load_config",
]
