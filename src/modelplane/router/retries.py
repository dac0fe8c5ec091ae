"""How many requests of a service may be sent to another endpoint after one turned them away or stayed silent.

Each request adds a part of a token, by the budget's percentage, and each retry takes a whole one. So retries are never
more than that share of the requests, beside a reserve: what a cluster that goes dark takes with it until it is ejected.
A limit on retries at a time, as proxies have it, bounds nothing while all endpoints refuse at once: such retries are
over before the next begins.
"""

from typing import Final

from modelplane.compose.service_plan import RetryBudget

_WHOLE: Final = 100


class RetryTokens:
    """The tokens of one service, in hundredths; they outlive the service's plans."""

    __slots__ = ("_budget", "_hundredths")

    def __init__(self, budget: RetryBudget) -> None:
        self._budget = budget
        self._hundredths = budget.min_concurrency * _WHOLE

    def follow(self, budget: RetryBudget) -> None:
        """A new plan may have another budget. What was spent stays spent."""
        self._budget = budget
        self._hundredths = min(self._hundredths, budget.min_concurrency * _WHOLE)

    def request(self) -> None:
        """A request came that was not tried before."""
        self._hundredths = min(self._budget.min_concurrency * _WHOLE, self._hundredths + self._budget.budget_percent)

    def take(self) -> bool:
        """Whether a request may be tried again, which it then is."""
        if self._hundredths < _WHOLE:
            return False
        self._hundredths -= _WHOLE
        return True
