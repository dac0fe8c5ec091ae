"""Comparisons of what the product believes with what genuine components do.

Each oracle is a coroutine that runs inside a lab that is up and answers with a `Finding`: how much was compared, and
every difference, named. A difference that is understood carries its reason and does not fail the run.
"""

from lab.oracles.finding import Difference, Finding

__all__ = ["Difference", "Finding"]
