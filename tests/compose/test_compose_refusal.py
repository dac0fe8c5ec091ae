from modelplane.compose import unsupported
from modelplane.compose.refusal import STORED_ONLY
from modelplane.compose.registry import COMPOSERS


def test_the_kinds_that_are_only_stored_are_those_that_nobody_composes():
    stored = {kind for kind, entry in COMPOSERS.items() if entry.compose is unsupported.compose}
    assert stored == STORED_ONLY
