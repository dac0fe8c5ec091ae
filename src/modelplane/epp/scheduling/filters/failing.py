"""Keeps requests away from endpoints whose last responses all failed, or that refuse connections.

An endpoint that failed `threshold` times in a row is left alone; now and then a request is let through, and its success
clears the count. One that refused two scrapes in a row is left alone until one succeeds: proxies need not show the
status of responses, and a request would learn nothing that the next scrape does not. Where every endpoint fails, all
are kept: some answer is better than none.
"""

from collections.abc import Sequence
from typing import Final

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.parameters import FailingParameters
from modelplane.framework import Refusal, RefusalCode
from modelplane.framework.registry import plugin_type

_REFUSED_SCRAPES: Final = 2


class FailingFilter:
    __slots__ = ("_probe", "_threshold", "name")

    def __init__(self, name: str, parameters: FailingParameters) -> None:
        self.name = name
        self._threshold = parameters.threshold
        self._probe = parameters.probe_probability

    def refuse(self, _context: SchedulingContext, _endpoint: Endpoint, /) -> Refusal | None:
        return None

    def narrow(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Sequence[Refusal | None]:
        most = self._threshold
        bad = [it.failures >= most or it.refused_scrapes >= _REFUSED_SCRAPES for it in endpoints]
        if not any(bad) or all(bad):
            return ()
        if self._probe and context.chance() < self._probe:
            bad = [it.refused_scrapes >= _REFUSED_SCRAPES for it in endpoints]
        model = context.request.model
        return [
            self._refusal(endpoint, model) if failing else None
            for endpoint, failing in zip(endpoints, bad, strict=True)
        ]

    def _refusal(self, endpoint: Endpoint, model: str) -> Refusal:
        # Whether a model exists is for the endpoints that answer to say, unless this one lists it.
        code = RefusalCode.UNSCHEDULABLE if model in endpoint.metrics.models else RefusalCode.UNRESOLVABLE
        if endpoint.refused_scrapes >= _REFUSED_SCRAPES:
            return Refusal(self.name, code, "refused {} connections in a row", (endpoint.refused_scrapes,))
        return Refusal(self.name, code, "failed {} times in a row", (endpoint.failures,))


TYPES = (plugin_type("failing-endpoint-filter", FailingFilter, FailingParameters),)
