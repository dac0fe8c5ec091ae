"""An aid for conformance tests: only the endpoints that a header of the request lists, in any spelling of subsets."""

from collections.abc import Sequence

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.subsets import filter_by_subset, parse
from modelplane.framework import Refusal, RefusalCode
from modelplane.framework.registry import NoParameters, plugin_type

HEADER = "test-epp-endpoint-selection"


class HeaderBasedTestingFilter:
    """Without the header no endpoint is kept, so that a test that forgets it fails."""

    __slots__ = ("name",)

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name

    def refuse(self, context: SchedulingContext, endpoint: Endpoint, /) -> Refusal | None:
        return self.narrow(context, (endpoint,))[0]

    def narrow(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Sequence[Refusal | None]:
        named = context.request.headers.get(HEADER, "")
        kept = set(filter_by_subset(endpoints, parse(named)))
        no = Refusal(self.name, RefusalCode.UNRESOLVABLE, "is not listed in the request header: {}", (named or "none",))
        return [None if endpoint in kept else no for endpoint in endpoints]


TYPES = (plugin_type("header-based-testing-filter", HeaderBasedTestingFilter, NoParameters),)
