"""Kubernetes semantics in Python: quantity, semver, CEL, the structured allocator of DRA, admission."""
