"""Pure functions, one a kind: from a resource and what was observed to what should be.

`contract` says what goes in and out. Composers do not import each other.
"""
