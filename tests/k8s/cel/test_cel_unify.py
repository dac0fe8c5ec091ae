import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.unify import Bindings, less_specific, more_general

_SIMPLE = st.sampled_from([t.INT, t.STRING, t.BOOL, t.DYN, t.ANY, t.NULL, t.DURATION, t.QUANTITY])


def _compound(inner):
    maps = st.tuples(inner, inner).map(lambda pair: t.map_of(*pair))
    return st.one_of(inner.map(t.list_of), inner.map(t.optional_of), maps)


_TYPES = st.recursive(_SIMPLE, _compound, max_leaves=4)


@pytest.mark.parametrize(
    ("left", "right", "fits"),
    [
        (t.INT, t.INT, True),
        (t.INT, t.UINT, False),
        (t.ANY, t.INT, True),
        (t.INT, t.DYN, True),
        (t.NULL, t.DURATION, True),
        (t.NULL, t.INT, False),
        (t.QUANTITY, t.NULL, True),
        (t.QUANTITY, t.SEMVER, False),
        (t.list_of(t.INT), t.list_of(t.DYN), True),
        (t.list_of(t.INT), t.list_of(t.STRING), False),
        (t.list_of(t.INT), t.map_of(t.INT, t.INT), False),
        (t.optional_of(t.INT), t.optional_of(t.INT), True),
        (t.IP, t.CIDR, False),
        (t.type_of(t.INT), t.type_of(t.STRING), True),
    ],
)
def test_assignability(left, right, fits):
    assert Bindings().assignable(left, right) is fits


def test_a_variable_takes_the_first_type_and_widens():
    bindings, variable = Bindings(), t.fresh_param("v")
    assert bindings.assignable(t.INT, variable)
    assert bindings.substitute(variable) is t.INT
    assert bindings.assignable(t.DYN, variable)
    assert bindings.substitute(variable) is t.DYN
    assert bindings.settle(t.list_of(variable)) is t.list_of(t.DYN)


def test_a_failed_attempt_leaves_no_trace():
    bindings, variable = Bindings(), t.fresh_param("v")
    assert not bindings.all_assignable((t.INT, t.STRING), (variable, t.INT))
    assert bindings.substitute(variable) is variable
    assert bindings.assignable(t.STRING, variable)


def test_a_variable_is_never_inside_itself():
    bindings, variable = Bindings(), t.fresh_param("v")
    assert not bindings.assignable(t.list_of(variable), variable)


def test_free_variables_settle_as_dyn():
    assert Bindings().settle(t.map_of(t.fresh_param("k"), t.INT)) is t.map_of(t.DYN, t.INT)


@given(_TYPES)
def test_every_type_fits_itself(found):
    assert Bindings().assignable(found, found)
    assert less_specific(found, found)
    assert more_general(found, t.DYN) in (found, t.DYN)


@given(_TYPES, _TYPES)
def test_assignability_is_symmetric_without_variables(left, right):
    assert Bindings().assignable(left, right) is Bindings().assignable(right, left)
