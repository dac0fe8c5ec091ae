"""Discovery of endpoints.

datastore         endpoints that stay the same objects while what is known of them changes
endpoints_file    a file of endpoints, in the ecosystem's form and a little more
pods              what of a pod matters, and which endpoints it makes
inference_pool    the pods of an InferencePool, over the Kubernetes API
policies          InferenceObjectives and InferenceModelRewrites of a pool
policy_file       the same from a file
fleet             ModelEndpoints: the same picker chooses the cluster
"""

from modelplane.epp.datalayer.discovery.endpoints_file import FileEndpoints
from modelplane.epp.datalayer.discovery.fleet import FleetEndpoints
from modelplane.epp.datalayer.discovery.inference_pool import InferencePoolSpec, PoolEndpoints, SelectedPods
from modelplane.epp.datalayer.discovery.policies import PolicyInformers, Rewrite
from modelplane.epp.datalayer.discovery.policy_file import PolicyFile

__all__ = [
    "FileEndpoints",
    "FleetEndpoints",
    "InferencePoolSpec",
    "PolicyFile",
    "PolicyInformers",
    "PoolEndpoints",
    "Rewrite",
    "SelectedPods",
]
