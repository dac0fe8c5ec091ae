"""The door to a Kubernetes API: list and watch, kept in memory as long as it is wanted."""
