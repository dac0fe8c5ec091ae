"""Where endpoints come from.

roster            endpoints that stay the same objects while what is known of them changes
listed            a file of endpoints, in the ecosystem's form and a little more
pods              what of a pod matters, and which endpoints it makes
inference_pool    the pods of an InferencePool, over the Kubernetes API
policies          priorities and model rewrites that stand beside a pool
policy_file       the same from a file
fleet             ModelEndpoints: the same picker chooses the cluster
"""

from modelplane.epp.datalayer.discovery.fleet import FleetEndpoints
from modelplane.epp.datalayer.discovery.inference_pool import InferencePoolSpec, PoolEndpoints, SelectedPods
from modelplane.epp.datalayer.discovery.listed import ListedEndpoints
from modelplane.epp.datalayer.discovery.policies import Policies, Rewrite
from modelplane.epp.datalayer.discovery.policy_file import PolicyFile

__all__ = [
    "FleetEndpoints",
    "InferencePoolSpec",
    "ListedEndpoints",
    "Policies",
    "PolicyFile",
    "PoolEndpoints",
    "Rewrite",
    "SelectedPods",
]
