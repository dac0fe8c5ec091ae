"""The status page of the fleet: read-only, without script, on loopback."""
