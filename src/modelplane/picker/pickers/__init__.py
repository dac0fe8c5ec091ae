"""Pickers: the order in which scored endpoints are tried. None imports another."""
