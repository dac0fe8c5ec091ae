"""What is kept from one pass to the next: the order in which objects are deleted, and when each is ready."""

from modelplane.compose.contract import Desired, EventType, Local, Observed, ReadyWhen, keep_order


def test_what_is_kept_without_a_decision_keeps_its_place_in_the_order_of_deletion():
    network = Local({"kind": "Network"})
    observed = {"network": Observed(network, ready=True, outlives=("gone", "pool", "router"))}
    kept = {key: Desired(Local({"kind": key})) for key in ("pool", "router")}
    made = keep_order({"network": Desired(network, outlives=("router",))}, kept, observed)
    assert made == {**kept, "network": Desired(network, outlives=("router", "pool"))}


def test_how_an_object_is_ready_is_written_on_it_in_words_that_every_release_reads():
    words = ["Created", "Available", "Counted", "Complete", "Routed", "Addressed", "Ready"]
    assert [when.value for when in ReadyWhen] == words


def test_events_have_the_types_that_kubernetes_knows():
    assert [each.value for each in EventType] == ["Normal", "Warning"]
