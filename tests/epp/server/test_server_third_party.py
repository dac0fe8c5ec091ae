from modelplane.epp.config.builtin import builtin_registry
from modelplane.epp.server.third_party import full_registry


def test_the_full_registry_has_the_builtin_types():
    assert set(builtin_registry()) <= set(full_registry())
    assert "max-score-picker" in full_registry()
