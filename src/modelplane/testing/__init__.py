"""Builders and fakes that ship with the product and are imported by tests only."""
