from modelplane.k8s.cel.environment import TYPE_NAMES, Environment
from modelplane.k8s.cel.library.catalogue import base_functions


def test_names_that_denote_types():
    assert {"int", "list", "map", "null_type", "type", "optional_type", "net.IP"} <= set(TYPE_NAMES)
    assert "dyn" not in TYPE_NAMES
    assert "kubernetes.Quantity" not in TYPE_NAMES


def test_an_environment_knows_the_type_names():
    assert Environment({}, {}, base_functions()).type_names is TYPE_NAMES
