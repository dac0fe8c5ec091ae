import gc

from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.types import TypeKind


def test_equal_types_are_one_object():
    assert t.list_of(t.INT) is t.list_of(t.INT)
    assert t.map_of(t.STRING, t.DYN) is t.map_of(t.STRING, t.DYN)
    assert t.struct("x") is not t.opaque("x")
    assert t.fresh_param("a") is not t.fresh_param("a")


def test_texts_of_types():
    shown = [str(found) for found in (t.INT, t.ANY, t.optional_of(t.list_of(t.STRING)), t.map_of(t.INT, t.DYN))]
    assert shown == ["int", "any", "optional_type(list(string))", "map(int, dyn)"]


def test_what_is_generic_and_what_is_dynamic():
    assert t.list_of(t.param("A")).generic
    assert not t.list_of(t.INT).generic
    assert [found.is_dynamic for found in (t.DYN, t.ANY, t.INT, t.LIST)] == [True, True, False, False]


def test_rebuilding_keeps_identity():
    assert t.rebuilt(t.list_of(t.param("A")), (t.INT,)) is t.list_of(t.INT)
    assert t.rebuilt(t.LIST, (t.fresh_param("x"),)).generic


def test_types_of_strangers_do_not_stay():
    def depth(count):
        found = t.INT
        for _ in range(count):
            found = t.list_of(found)
        return str(found).count("list")

    before = len(t._interned)
    assert depth(50) == 50
    gc.collect()
    assert len(t._interned) <= before + 1


def test_kinds_hash_by_identity():
    assert {kind: kind.name for kind in TypeKind}[TypeKind.LIST] == "LIST"
