"""Placement: the fleet as a value, and where each replica goes."""
