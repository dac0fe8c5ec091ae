"""What a million tokens of a service cost, where they were counted."""

import pytest

from modelplane.views.service_load import TokenPrice
from modelplane.web.pages import prepared
from modelplane.web.paging import ViewQuery
from modelplane.web.service_views import services_page
from tests.support.dashboard_fleet import NOW, by_kind, fleet_objects


@pytest.mark.parametrize("tokens", [0, 2_000_000])
def test_a_price_is_shown_for_tokens_that_were_counted(tokens):
    objects = by_kind(fleet_objects())
    names = ["default/chat"]
    counted = ({names[0]: tokens} if tokens else {}, 3600.0)
    rows = services_page(prepared(objects, now=NOW, gateway="", counted=counted), ViewQuery()).rows
    found = {f"{row.namespace}/{row.name}": row.token_price for row in rows}
    assert {name for name, price in found.items() if price is not None} == ({names[0]} if tokens else set())
    if tokens:
        assert isinstance(found[names[0]], TokenPrice)
        assert (found[names[0]].tokens, found[names[0]].hours) == (2_000_000, 1.0)
