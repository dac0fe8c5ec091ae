import pytest

from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.declarations import FunctionDecl, collect, overload
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.values import Uint


@pytest.mark.parametrize(
    ("signature", "name", "member", "params", "result"),
    [
        ("string.charAt(int) -> string", "charAt", True, ["string", "int"], "string"),
        ("size(list(A)) -> int", "size", False, ["list(A)"], "int"),
        ("list(T).slice(int, int) -> list(T)", "slice", True, ["list(T)", "int", "int"], "list(T)"),
        ("optional.of(V) -> optional(V)", "optional.of", False, ["V"], "optional_type(V)"),
        ("optional(V).or(optional(V)) -> optional(V)", "or", True, ["optional_type(V)"] * 2, "optional_type(V)"),
        ("_[?_](map(K, V), K) -> optional(V)", "_[?_]", False, ["map(K, V)", "K"], "optional_type(V)"),
        ("Quantity.add(int) -> Quantity", "add", True, ["kubernetes.Quantity", "int"], "kubernetes.Quantity"),
        ("strings.quote(string) -> string", "strings.quote", False, ["string"], "string"),
        ("optional.none() -> optional(V)", "optional.none", False, [], "optional_type(V)"),
        ("type(A) -> type(A)", "type", False, ["A"], "type(A)"),
    ],
)
def test_signature(signature, name, member, params, result):
    found = overload("id", signature)
    assert (found.function, found.member, [str(param) for param in found.params], str(found.result)) == (
        name,
        member,
        params,
        result,
    )


@pytest.mark.parametrize(
    ("signature", "args", "accepted"),
    [
        ("f(int) -> int", (1,), True),
        ("f(int) -> int", (Uint(1),), False),
        ("f(int) -> int", (True,), False),
        ("f(dyn) -> int", ("x",), True),
        ("f(list(string)) -> int", (["a", 1],), True),
        ("f(list(string)) -> int", ([1],), False),
        ("f(list(string)) -> int", ([],), True),
        ("f(list(A)) -> int", ("x",), False),
        ("f(map(string, int)) -> int", ({"a": 1},), True),
        ("f(map(string, int)) -> int", ({"a": "x"},), False),
        ("f(int, int) -> int", (1,), False),
    ],
)
def test_guard(signature, args, accepted):
    assert overload("id", signature).accepts(args) is accepted


def test_a_call_runs_the_overload_it_was_narrowed_to():
    one = overload("one", "f(int) -> int", lambda value: value + 1)
    other = overload("other", "f(string) -> int", len)
    function = collect((one, other))["f"]
    assert function.body_for((other,))("abc") == 3
    assert function.body_for((one, other))("abcd") == 4
    for body, arg in ((function.body_for((one,)), "x"), (function.body_for((one, other)), 1.5)):
        with pytest.raises(EvaluationError, match="no such overload: f"):
            body(arg)


def test_functions_join_in_the_order_they_are_met():
    first, second = overload("a", "f(int) -> int", abs), overload("b", "f(int, int) -> int", pow)
    joined = collect((first,), (FunctionDecl("f", (second,), max),))["f"]
    assert [found.id for found in joined.overloads] == ["a", "b"]
    assert joined.singleton is max
    assert joined.candidates(member=False, count=2) == (second,)


def test_a_function_without_bodies_cannot_run():
    assert collect((overload("a", "f(int) -> int"),))["f"].body_for(()) is None
    assert str(t.INT) == "int"
