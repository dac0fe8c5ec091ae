"""Clouds, simulated: managed resources that take their time, run out of stock and fail."""

from modelplane.sim.cloud.providers import CLOUD_FAULTS, ManagedKey, SimulatedProviders, made_nodes

__all__ = ["CLOUD_FAULTS", "ManagedKey", "SimulatedProviders", "made_nodes"]
