"""Decisions again: what a live decision was made of, replayed and explained."""
