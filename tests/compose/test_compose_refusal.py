from modelplane.api.codec import decode
from modelplane.compose import unsupported
from modelplane.compose.contract import ComposeRequest, Local, Observed, keep
from modelplane.compose.refusal import STORED_ONLY
from modelplane.compose.registry import COMPOSERS


def test_the_kinds_that_are_only_stored_are_those_that_nobody_composes():
    stored = {kind for kind, entry in COMPOSERS.items() if entry.compose is unsupported.compose}
    assert stored == STORED_ONLY


def test_an_object_that_is_only_stored_says_so_and_keeps_what_is_there():
    entry = COMPOSERS["ServingStack"]
    seen = Observed(Local({"metadata": {"name": "there"}}), ready=True)
    resource = decode(entry.resource, {"metadata": {"name": "s"}, "spec": {"clusterName": "east", "secrets": []}})
    result = entry.compose(ComposeRequest(resource, {"thing": seen}))
    (condition,) = result.conditions
    assert (condition.type, condition.status.value, condition.reason) == ("Accepted", "False", "NotSupported")
    assert condition.message.startswith("this build stores objects of this kind and does not reconcile them")
    assert (result.desired, result.ready.status.value) == ({"thing": keep(seen)}, "False")
