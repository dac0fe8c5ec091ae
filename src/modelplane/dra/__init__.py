"""Device semantics as Kubernetes has them: quantity, semver, CEL selectors, the structured allocator."""
