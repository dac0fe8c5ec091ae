"""The function libraries that Kubernetes enables, one module each; `catalogue` puts them together."""
