"""The control plane for a fleet of inference clusters."""

__version__ = "0.1.0"
