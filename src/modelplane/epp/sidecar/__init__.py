"""The routing sidecar in front of a decode engine."""
