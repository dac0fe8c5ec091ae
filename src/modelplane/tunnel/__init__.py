"""Agents of workload clusters dial the control plane, which reaches their APIs by that connection (design/0062)."""
