"""Scorers: how good each endpoint is for a request, in [0, 1]. None imports another."""
