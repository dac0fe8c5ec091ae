"""The order in which composed objects are deleted."""

from modelplane.compose.contract import Desired, Local, Observed, keep_order


def test_what_is_kept_without_a_decision_keeps_its_place_in_the_order_of_deletion():
    network = Local({"kind": "Network"})
    observed = {"network": Observed(network, ready=True, outlives=("gone", "pool", "router"))}
    kept = {key: Desired(Local({"kind": key})) for key in ("pool", "router")}
    made = keep_order({"network": Desired(network, outlives=("router",))}, kept, observed)
    assert made == {**kept, "network": Desired(network, outlives=("router", "pool"))}
