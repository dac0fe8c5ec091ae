"""Trouble for simulated clusters, by name: what `modelplane sim` asks for."""
