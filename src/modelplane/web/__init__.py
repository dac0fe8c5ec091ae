"""The page that shows the fleet: read-only, without script, on loopback."""
