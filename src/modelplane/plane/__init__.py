"""The embedded plane: store, reconcile loop, simulated clusters and a real Envoy in one process tree."""
