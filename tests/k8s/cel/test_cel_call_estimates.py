from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.call_estimates import CallArgs, SizedNode, estimate_call
from modelplane.k8s.cel.device_view import DeviceBounds
from modelplane.k8s.cel.sizes import MAX, UNKNOWN
from modelplane.k8s.cel.syntax import Literal


def _text(least, most):
    return SizedNode(Literal(0, ""), t.STRING, (), (least, most))


def _call(function, *args, target=None):
    return CallArgs(function, target, list(args), DeviceBounds())


def test_a_replacement_may_lengthen_its_text():
    lengthened = _call("replace", _text(1, 1), _text(4, 4), target=_text(0, 10))
    assert estimate_call("", lengthened) == ((0, 2), (0, 40))
    shortened = _call("replace", _text(2, 2), _text(1, 1), target=_text(10, 10))
    assert estimate_call("", shortened) == ((2, 2), (5, 10))
    between = _call("replace", _text(0, 0), _text(1, 1), target=_text(3, 3))
    assert estimate_call("", between) == ((1, 1), (7, 7))


def test_unknown_sizes_make_unbounded_costs():
    unknown = SizedNode(Literal(0, ""), t.STRING, (), None)
    assert unknown.known == UNKNOWN
    cost, size = estimate_call("", _call("lowerAscii", target=unknown))
    assert cost[1] > 10**18
    assert size == (0, MAX)


def test_quoting_wraps_around_as_upstream_does():
    unknown = SizedNode(Literal(0, ""), t.STRING, (), None)
    assert estimate_call("strings_quote", _call("strings.quote", unknown))[1] == (2, 0)


def test_a_literal_limit_bounds_a_split():
    limit = SizedNode(Literal(0, 3), t.INT, (), (1, 1))
    assert estimate_call("", _call("split", _text(1, 1), limit, target=_text(0, 100))) == ((0, 20), (0, 3))


def test_calls_without_a_rule():
    assert estimate_call("add_int64", _call("_+_")) is None
